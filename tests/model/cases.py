"""What is checked, as data: cases that must hold, mutants that must fail."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model import (
    bootstrap,
    chains,
    checker,
    copies,
    files,
    keyed,
    lake,
    lanes,
    locations,
    packs,
    pins,
    pipe,
    replays,
    rooms,
)
from model.bootstrap import BootstrapBounds, BootstrapModel
from model.chains import ChainBounds, ChainModel
from model.checker import Checker, Limits, Verdict
from model.copies import CopyBounds, CopyModel
from model.files import FilesBounds, FilesModel
from model.keyed import KeyedBounds, KeyedModel
from model.lake import LakeBounds, LakeModel
from model.lanes import LaneBounds, LaneModel
from model.locations import LocationBounds, LocationModel
from model.mutation import Mutation
from model.packs import PackBounds, PackModel
from model.pins import PinBounds, PinModel
from model.pipe import PipeBounds, PipeModel
from model.replays import ReplayBounds, ReplayModel
from model.rooms import RoomBounds, RoomModel

Bounds = (
    FilesBounds
    | PipeBounds
    | LocationBounds
    | PinBounds
    | BootstrapBounds
    | PackBounds
    | LaneBounds
    | LakeBounds
    | KeyedBounds
    | ReplayBounds
    | RoomBounds
    | ChainBounds
    | CopyBounds
)


@dataclass(frozen=True, slots=True)
class Case:
    """A model within bounds, all rules on: no violation is allowed.

    Attributes:
        least_states: Fewer would mean that the model has lost its steps.
        lean: Keep hashes instead of states.
        live: Check too that the goal stays in reach.
    """

    name: str
    bounds: Bounds
    least_states: int
    lean: bool = False
    live: bool = True


@dataclass(frozen=True, slots=True)
class Mutant:
    """A model with one rule off: a violation must be found."""

    mutation: Mutation
    bounds: Bounds

    @property
    def name(self) -> str:
        """As printed."""
        return f"{_model_name(self.bounds)}/{self.mutation.name.lower()}"


_LATE_LANES = LaneBounds(((0, 2), (0, 2), (2, 3)), whole=True)
"""Two requests name the same late file, and one another."""

SMALL = (
    Case("files-two-parts", FilesBounds((1, 1)), 12_000),
    Case("files-retry", FilesBounds((1,), spares=1, zombies=True), 7_000),
    Case("files-thrown-away", FilesBounds((1,), spares=1, throws=1), 17_000),
    Case("files-two-epochs", FilesBounds((2,)), 2_000),
    Case("files-leftovers", FilesBounds((2,), leftovers=True), 4_000),
    Case("pipe-two-epochs", PipeBounds(), 5_000),
    Case("pipe-guest", PipeBounds(starts=1, throws=1, guests=1), 6_000),
    Case("locations", LocationBounds(rows=2, replaces=2), 3_700),
    Case("locations-sealed", LocationBounds(rows=3, replaces=2, seals=True), 11_000),
    Case("pins", PinBounds(), 5_800),
    Case("pins-created-anew", PinBounds((2,), recreations=1), 2_900),
    Case("bootstrap", BootstrapBounds(), 2_000),
    Case("packs", PackBounds(rows=1, crashes=1), 5_000),
    Case("lanes", LaneBounds(), 1_000),
    Case("lanes-late", _LATE_LANES, 5_000),
    Case("lake", LakeBounds("DE", expiries=1), 500),
    Case("lake-owner", LakeBounds("DE", owner=1), 500),
    Case("lake-stomps", LakeBounds("DE", foreign=0, stomps=1), 400),
    Case("keyed", KeyedBounds(), 200),
    Case("replays", ReplayBounds(), 11_000),
    Case("chains", ChainBounds(data=2), 8_000),
    Case("rooms-tail", RoomBounds(rows=3, own=1), 1_000, live=False),
    Case("rooms-wrong", RoomBounds(rows=3, own=1, wrong=True), 1_000, live=False),
    Case("rooms-returns", RoomBounds(rows=3, own=1, returns=True), 1_000, live=False),
    Case("copies", CopyBounds(slots=3), 1_000),
)

LARGE = (
    Case("files-stragglers", FilesBounds((2, 1), spares=1), 400_000, lean=True),
    Case("files-three-parts", FilesBounds((1, 1, 1)), 400_000, lean=True),
    Case("files-zombies", FilesBounds((1, 1), spares=1, zombies=True), 400_000, lean=True),
    Case("files-thrown-away", FilesBounds((2, 1), throws=1), 400_000, lean=True),
    Case("files-aba", FilesBounds((1, 1), starts=3, crashes=2), 270_000, lean=True),
    Case("pipe-guest", PipeBounds(crashes=0, throws=1, guests=1), 670_000, lean=True),
    Case("pipe-three-rows", PipeBounds(rows=3), 85_000, lean=True),
    Case("pipe-aba", PipeBounds(starts=3, crashes=2), 240_000, lean=True),
    Case("locations", LocationBounds(rows=4, replaces=3), 200_000, lean=True),
    Case("locations-sealed", LocationBounds(rows=4, replaces=3, seals=True), 200_000, lean=True),
    Case("pins", PinBounds((3, 2), starts=3, recreations=1), 1_000_000, lean=True),
    Case("bootstrap", BootstrapBounds(6, starts=3, crashes=2), 50_000, lean=True),
    Case("packs-three-drivers", PackBounds(starts=3, crashes=1), 1_000_000, lean=True),
    Case("packs-copies", PackBounds(crashes=1, copies=1), 100_000, lean=True),
    Case("lake", LakeBounds(foreign=2, expiries=1), 50_000, lean=True),
    Case("lake-three-requests", LakeBounds(flying=3), 25_000, lean=True),
    Case("lake-owner", LakeBounds(owner=1, expiries=1, halts=True), 20_000, lean=True),
    Case("lake-stomps", LakeBounds(stomps=1), 20_000, lean=True),
    Case("keyed", KeyedBounds(flying=3, foreign=2), 8_000, lean=True),
    Case("chains", ChainBounds(), 110_000, lean=True),
    Case("rooms-header", RoomBounds(header=True, restarts=1), 561_000, lean=True, live=False),
    Case("rooms-tail", RoomBounds(), 17_000, lean=True, live=False),
    Case("rooms-mirrored-first", RoomBounds(mirrored_first=True), 14_000, lean=True, live=False),
    Case("rooms-returns", RoomBounds(returns=True), 10_000, lean=True, live=False),
    Case("copies", CopyBounds(), 10_000, lean=True),
    Case("copies-late", CopyBounds(late=True), 20_000, lean=True),
)

_FILES = FilesBounds((1, 1))
_RETRY = FilesBounds((2,), spares=1, throws=1)
_PIPE = PipeBounds(crashes=0, guests=1)
_LOCATIONS = LocationBounds(rows=2, replaces=2)
_SEALED = LocationBounds(rows=3, replaces=1, seals=True)
_PINS = PinBounds((2, 1))
_LANES = LaneBounds()
_LAKE = LakeBounds("DD")
_REPEATS = RoomBounds(restarts=1)
_PACKS = PackBounds(rows=1, starts=2, crashes=1)

MUTANTS = (
    Mutant(Mutation.PUBLISH_BEFORE_COMMIT, _FILES),
    Mutant(Mutation.SLOT_OVERWRITTEN, _FILES),
    Mutant(Mutation.NO_FENCE_CHECK, _FILES),
    Mutant(Mutation.GC_BY_AGE, _FILES),
    Mutant(Mutation.GC_OF_RUNNING_EPOCH, _FILES),
    Mutant(Mutation.GC_WITHOUT_FINAL_NAMES, _FILES),
    Mutant(Mutation.DELETE_ON_TIMEOUT, _FILES),
    Mutant(Mutation.RESTAGE_AFTER_UNKNOWN, _FILES),
    Mutant(Mutation.DEDUPE_BY_EPOCH, _FILES),
    Mutant(Mutation.THROUGH_BEFORE_PUBLISH, _FILES),
    Mutant(Mutation.NO_RECOVERY, _FILES),
    Mutant(Mutation.STRAGGLERS_COUNTED, _FILES),
    Mutant(Mutation.EVERY_ATTEMPT_COUNTS, _RETRY),
    Mutant(Mutation.RESULT_OF_ANOTHER_EPOCH, _RETRY),
    Mutant(Mutation.SHARED_ATTEMPT_FOLDER, _RETRY),
    Mutant(Mutation.NAMES_WITHOUT_TERM, _RETRY),
    Mutant(Mutation.SLOT_NAMED_STAGE, _PIPE),
    Mutant(Mutation.ANY_RECORD_FENCES, _PIPE),
    Mutant(Mutation.NEXT_EPOCH_KEPT, PipeBounds(crashes=0, throws=1)),
    Mutant(Mutation.NO_REBASE_CHECK, _PIPE),
    Mutant(Mutation.NO_REBASE_CHECK, _LOCATIONS),
    Mutant(Mutation.SECOND_PUT_IN_FLIGHT, PipeBounds()),
    Mutant(Mutation.READY_AT_ONCE, PipeBounds()),
    Mutant(Mutation.READY_BEFORE_PUBLISH, PipeBounds()),
    Mutant(Mutation.FOLDER_AT_PLAN_TIME, _LOCATIONS),
    Mutant(Mutation.UNCHECKED_REPLACE, _LOCATIONS),
    Mutant(Mutation.REPLACE_BEFORE_PUBLISH, _LOCATIONS),
    Mutant(Mutation.CALL_PER_RECORD, _LOCATIONS),
    Mutant(Mutation.FOLDER_NAME_REUSED, _LOCATIONS),
    Mutant(Mutation.NO_READ_BACK, _LOCATIONS),
    Mutant(Mutation.FORGOTTEN_UNSEALED, _SEALED),
    Mutant(Mutation.SEALED_WHILE_OWED, _SEALED),
    Mutant(Mutation.LATEST_RESOLVED_AGAIN, _PINS),
    Mutant(Mutation.READ_BEFORE_PIN, _PINS),
    Mutant(Mutation.FOUND_AT_LATEST, _PINS),
    Mutant(Mutation.NO_LOOK_AFTER_READ, PinBounds((1,), recreations=1)),
    Mutant(Mutation.HAND_OVER_MID_SLOT, BootstrapBounds()),
    Mutant(Mutation.HAND_OVER_AT_NEWEST, BootstrapBounds()),
    Mutant(Mutation.HAND_OVER_IN_TWO, BootstrapBounds()),
    Mutant(Mutation.HAND_OVER_IN_FLIGHT, BootstrapBounds()),
    Mutant(Mutation.SNAPSHOT_DROPS_UNPUBLISHED, _PACKS),
    Mutant(Mutation.NO_LOOK_AFTER_PUT, _PACKS),
    Mutant(Mutation.PUBLISH_BEFORE_LOOK, _PACKS),
    Mutant(Mutation.SLOT_BEFORE_PACK, PackBounds(rows=1, starts=3, crashes=1)),
    Mutant(Mutation.REMOVED_BEFORE_PACKED, _PACKS),
    Mutant(Mutation.LANES_OVERLAP, _LANES),
    Mutant(Mutation.LANE_END_IN_MEMORY, _LANES),
    Mutant(Mutation.REQUEST_TWICE, _LANES),
    Mutant(Mutation.LANE_UNCHECKED, _LANES),
    Mutant(Mutation.LATE_FILE_GOES_EARLY, _LATE_LANES),
    Mutant(Mutation.LAKE_HEAD_UNASSERTED, _LAKE),
    Mutant(Mutation.LAKE_TWO_REQUESTS, _LAKE),
    Mutant(Mutation.LAKE_RETRY_BLIND, _LAKE),
    Mutant(Mutation.LAKE_TWO_LOADS, _LAKE),
    Mutant(Mutation.LAKE_SLOT_LEFT_OUT, _LAKE),
    Mutant(Mutation.LAKE_BY_ANCESTRY, LakeBounds("DD", expiries=1)),
    Mutant(Mutation.LAKE_NO_LINEAGE, LakeBounds("DDD", foreign=0, owner=1)),
    Mutant(Mutation.LAKE_CLEANED_UP, _LAKE),
    Mutant(Mutation.KEYED_OTHER_HEAD, KeyedBounds()),
    Mutant(Mutation.KEYED_HEAD_UNASSERTED, KeyedBounds()),
    Mutant(Mutation.KEYED_FIRST_CHANGE, KeyedBounds()),
    Mutant(Mutation.KEYED_REWRITE_UNRESOLVED, KeyedBounds()),
    Mutant(Mutation.CUT_AT_CHAIN_END, CopyBounds(slots=3)),
    Mutant(Mutation.CUT_STRAYS_STAY, CopyBounds(slots=3)),
    Mutant(Mutation.CUT_ONE_LOG, CopyBounds(slots=3, late=True)),
    Mutant(Mutation.CUT_UNGUARDED, CopyBounds(slots=3, late=True)),
    Mutant(Mutation.CUT_UNPLACED, CopyBounds(slots=3)),
    Mutant(Mutation.CUT_NO_COPY_BEGINS, CopyBounds(slots=3)),
    Mutant(Mutation.CHAIN_BY_LIVE_PLACE, ChainBounds()),
    Mutant(Mutation.CHAIN_GAP_FORGOTTEN, ChainBounds()),
    Mutant(Mutation.CHAIN_REBUILD_OF_TAIL, ChainBounds()),
    Mutant(Mutation.CHAIN_NOT_CARRIED, ChainBounds()),
    Mutant(Mutation.CHAIN_ALWAYS_DONE, ChainBounds()),
    Mutant(Mutation.CHAIN_ASIDE_REBUILT, ChainBounds()),
    Mutant(Mutation.CHAIN_PART_OF_SLOT, ChainBounds()),
    Mutant(Mutation.ROOM_MIRROR_REPEATS, _REPEATS),
    Mutant(Mutation.ROOM_PARTIAL_COPY, _REPEATS),
    Mutant(Mutation.ROOM_OTHERS_IGNORED, RoomBounds()),
    Mutant(Mutation.ROOM_FIRST_MATCH, _REPEATS),
    Mutant(Mutation.ROOM_OFFSET_SYNC, RoomBounds()),
    Mutant(Mutation.ROOM_LOG_END, RoomBounds()),
    Mutant(Mutation.ROOM_MIRROR_CONTINUES, RoomBounds()),
    Mutant(Mutation.ROOM_MISSING_READ, RoomBounds(rows=3, own=1, wrong=True)),
    Mutant(Mutation.ROOM_REPEATS_CONTINUES, _REPEATS),
    Mutant(Mutation.ROOM_DRAIN_OPEN, RoomBounds()),
    Mutant(Mutation.ROOM_TWO_ORIGIN_ENDS, RoomBounds(header=True)),
    Mutant(Mutation.ROOM_LEFT_LOG_BY_TAIL, RoomBounds(rows=3, own=1, returns=True)),
    Mutant(Mutation.ROOM_LEFT_LOG_BY_HEADER, RoomBounds(2, 1, header=True, returns=True)),
    Mutant(Mutation.REPLAY_STALE_JUDGEMENT, ReplayBounds()),
    Mutant(Mutation.REPLAY_OWN_SLOT_UNSEEN, ReplayBounds()),
    Mutant(Mutation.REPLAY_DELETES_UNSEEN, ReplayBounds()),
    Mutant(Mutation.REPLAY_BY_SLOT, ReplayBounds()),
    Mutant(Mutation.REPLAY_GONE_IS_NOTHING, ReplayBounds()),
    Mutant(Mutation.REPLAY_FILES_GO, ReplayBounds(strays=0)),
)


def check_case(case: Case, limits: Limits) -> Verdict:
    """Run a case with all rules on."""
    return check_model(case.bounds, None, lean=case.lean, live=case.live, limits=limits)


def check_mutant(mutant: Mutant, limits: Limits) -> Verdict:
    """Run a mutant; the shortest trace to the violation is in the verdict."""
    return check_model(mutant.bounds, mutant.mutation, lean=False, live=True, limits=limits)


def check_model(
    bounds: Bounds, mutation: Mutation | None, *, lean: bool, live: bool, limits: Limits
) -> Verdict:
    """Run the model that the bounds belong to."""
    return Checker(_model(bounds, mutation), lean=lean, live=live, limits=limits).run()


def _model(bounds: Bounds, mutation: Mutation | None) -> Any:
    """Their states are of different kinds, which the checker takes as they come."""
    return _MODELS[type(bounds)](bounds, mutation)


_MODELS: Mapping[type, Callable[[Any, Mutation | None], Any]] = {
    FilesBounds: FilesModel,
    PipeBounds: PipeModel,
    LocationBounds: LocationModel,
    PinBounds: PinModel,
    BootstrapBounds: BootstrapModel,
    PackBounds: PackModel,
    LaneBounds: LaneModel,
    LakeBounds: LakeModel,
    KeyedBounds: KeyedModel,
    ReplayBounds: ReplayModel,
    RoomBounds: RoomModel,
    ChainBounds: ChainModel,
    CopyBounds: CopyModel,
}


_SOURCES = {
    FilesBounds: files,
    PipeBounds: pipe,
    LocationBounds: locations,
    PinBounds: pins,
    BootstrapBounds: bootstrap,
    PackBounds: packs,
    LaneBounds: lanes,
    LakeBounds: lake,
    KeyedBounds: keyed,
    ReplayBounds: replays,
    RoomBounds: rooms,
    ChainBounds: chains,
    CopyBounds: copies,
}


def source_digest(bounds: Bounds) -> str:
    """Which version of the model a result belongs to, whatever the commit."""
    digest = hashlib.sha256()
    for module in (checker, _SOURCES[type(bounds)]):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:12]


def _model_name(bounds: Bounds) -> str:
    return _SOURCES[type(bounds)].__name__.rpartition(".")[2]
