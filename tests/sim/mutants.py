"""Patches of the product that some seed must catch; one file because they are one list.

A patch replaces functions and methods by name while seeds run. What a patch needs of the product
is looked up by name too, so a renamed function is an error here, not a mutant that does nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from sim import ahead_mutants as fast
from sim import background
from sim import count_mutants as counted
from sim import epoch_mutants as epochs
from sim import follow_mutants as follow
from sim import lane_mutants as lanes
from sim import late_mutants as late
from sim import outside_mutants as outside
from sim import partition_mutants as move
from sim import piece_mutants as piece
from sim import ready_mutants as ready
from sim import room_mutants as room
from sim import sql_mutants as sqls
from sim import store_mutants as store
from sim import swap_mutants as swaps
from sim import upkeep_mutants as keep
from sluiceway.driver import loop
from sluiceway.driver.loop import JobLoop
from sluiceway.errors import SluicewayError, StorageUnavailableError, TaskFailedError
from sluiceway.eventtime import watermark
from sluiceway.eventtime.readiness import CountRule, OpenPrefixes
from sluiceway.followers import desired, files, moved_partitions, runner
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.files import FilesFollower, Publisher
from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.followers.runner import FollowerRunner
from sluiceway.host.work_pool import WorkPool
from sluiceway.ledger import (
    driver_term,
    garbage,
    kept_partitions,
    log,
    partition_image,
    placing,
    sealing,
    snapshot,
    upkeep,
)
from sluiceway.ledger.collect import GarbageCollector
from sluiceway.ledger.driver_term import DriverTerm
from sluiceway.ledger.folding import (
    fold_data,
    fold_lanes,
    fold_partitions,
    fold_sources,
    fold_watermark,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import FoldState, SourceState
from sluiceway.ledger.garbage import Decided
from sluiceway.ledger.lane_state import LaneState, ReplayLanes
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.packs import Packs
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.records import DataRecord, FenceRecord, Record, encode_record
from sluiceway.ledger.writer import Committed, LedgerWriter
from sluiceway.operate import reset_offsets
from sluiceway.route import (
    committer,
    leader_epochs,
    prepare,
    route_planner,
    route_readiness,
    route_start,
    side_records,
    takeover,
)
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_readiness import RouteReadiness
from sluiceway.schedule import pieces, planner
from sluiceway.schedule.epoch_times import EpochDates
from sluiceway.schedule.partition_watch import LogEndHistory
from sluiceway.schedule.pieces import SplitPieces
from sluiceway.schedule.steady_clock import SteadyClock
from sluiceway.sources.kafka import log_cuts
from sluiceway.sources.kafka.progress import SplitProgress
from sluiceway.storage import local
from sluiceway.storage.contract import PutResult, Storage
from sluiceway.types.strict_json import encode
from sluiceway.upkeep import partition_bodies, replacing
from sluiceway.upkeep.lanes import Lanes
from sluiceway.upkeep.requests import LaneRequest
from sluiceway.worker import answers
from sluiceway.worker.plan import TaskPlan
from tools.mutant_fit import Patch, held


def _nothing(*arguments: object, **named: object) -> None:
    del arguments, named


# The ledger's writer


def _adopt_fence(writer: LedgerWriter) -> None:
    writer.term = writer.fold.term


def _put_with_fresh_id(writer: LedgerWriter, record: Record, raw: bytes) -> int | None:
    path, log = writer.log.layout.record(record.seq), writer.log
    attempts = 0
    while True:
        attempts += 1
        try:
            result = log.storage.put_if_absent(path, raw, tmp_folder=log.layout.stage)
        except StorageUnavailableError:
            raw = encode_record(replace(record, id=f"{attempts:032x}"))
        else:
            return attempts if result is PutResult.CREATED else None


def _put_once(writer: LedgerWriter, record: Record, raw: bytes) -> int | None:
    path, log = writer.log.layout.record(record.seq), writer.log
    try:
        result = log.storage.put_if_absent(path, raw, tmp_folder=log.layout.stage)
    except StorageUnavailableError as error:
        raise TaskFailedError("the put has failed") from error
    return 1 if result is PutResult.CREATED else None


def _put_once_and_delete(writer: LedgerWriter, record: Record, raw: bytes) -> int | None:
    try:
        return _put_once(writer, record, raw)
    except TaskFailedError:
        if isinstance(record.body, DataRecord):
            for file in all_files(record.body):
                writer.log.storage.remove(writer.log.layout.attempt(file.staged))
        raise


def _fence_by_lease(
    writer: LedgerWriter, body: FenceRecord, on_lost: Callable[[], None]
) -> Committed:
    if writer.fold.fence is None:
        return _FENCE(writer, body, on_lost)
    writer.term = writer.fold.term
    return Committed(writer.fold.next_seq - 1, 1)


_FENCE = LedgerWriter.fence


def _advance_once(log: LedgerLog, fold: Fold) -> list[Record]:
    return _ADVANCE(log, fold) if fold.next_seq == 0 else []


_ADVANCE = LedgerLog.advance


def _fold_and_clean(log: LedgerLog) -> Fold:
    fold = _FOLD(log)
    for status in log.storage.list(log.layout.stage):
        log.storage.remove(status.path)
    return fold


_FOLD = LedgerLog.fold


# The route's steps


def _check_and_publish(storage: Storage, layout: Any, results: Sequence[Any]) -> None:
    _CHECK_STAGED(storage, layout, results)
    for file in (file for result in results for file in (*result.files, *result.dirty_files)):
        storage.publish(
            layout.attempt(file.staged),
            layout.final(file.final),
            size_bytes=int(file.size_bytes),
            crc32c=file.crc32c,
        )


_CHECK_STAGED = answers.check_staged_files


def _prepare_new_epochs(fold: Fold, epoch: int, *rest: Any) -> DataRecord | None:
    record = _PREPARE(fold, epoch, *rest)
    if record is None or epoch >= fold.data_records:
        return record
    # "Seen before": taken for committed.
    for span in record.ranges:
        fold.sources[(span.topic, span.partition)].end = int(span.end)
    return None


_PREPARE = prepare.prepare_record


def _publish_if_it_works(publisher: Publisher, record: DataRecord) -> None:
    try:
        _PUBLISH(publisher, record)
    except StorageUnavailableError:
        return


def _recover_nothing(
    follower: FilesFollower, fold: Fold, since: int, *, again: bool = False
) -> None:
    if again:
        follower._through = fold.next_seq
    else:
        _NOTE_FILES(follower, fold, since)


_NOTE_FILES = FilesFollower.update


def _drop_then_publish(publisher: Publisher, record: DataRecord) -> None:
    publisher.drop_attempts(record, publisher._layout.results(0, 0))
    _PUBLISH(publisher, record)


_PUBLISH = Publisher.publish


def _without_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Forget pins of source partitions of which no row is committed."""

    def forgetful(fold: Fold, *rest: Any) -> Any:
        kept = {key: known for key, known in fold.sources.items() if known.has_data}
        return function(replace(fold, sources=kept), *rest)

    return forgetful


def _result_path(plan: TaskPlan) -> str:
    return f"{plan.route.layout.results(0, 0)}/{plan.task}.json"


def _owner_overwritten(storage: Storage, layout: Any, state: Any, job: str) -> Any:
    wanted = driver_term.Owner(uuid4().hex, job, layout.route, state.identity.location)
    for folder in (layout.root, layout.stage, layout.log):
        storage.make_folders(folder)
    storage.overwrite(layout.owner, encode(wanted))
    return wanted


# Effects


def _want_and_claim(
    applier: CatalogFollower, partitions: list[Any], through: int, complete_us: int | None = None
) -> None:
    applier._on_applied(through)
    _WANT(applier, partitions, through, complete_us)


_WANT = CatalogFollower.want


def _apply_once(applier: CatalogFollower, through: int) -> tuple[list[Any], tuple[Any, ...]]:
    batch = list(applier._desired.values())
    try:
        return _APPLY(applier, through)
    except SluicewayError:
        # Without anything to drop, no time would pass until the next try, for ever.
        if not batch:
            raise
        return batch, ()


_APPLY = CatalogFollower._apply


_LATE_ROWS = frozenset({"append_rows", "background", "bring_in"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong variant; `what` it does.

    Attributes:
        rare: It takes more than a few hundred seeds, so small runs leave it out.
        often: What happens often in the worlds in which it is looked for, see `simulate`: in
            those of other seeds it takes tens of thousands.
    """

    name: str
    what: str
    patches: tuple[Patch, ...]
    rare: bool = False
    often: frozenset[str] = frozenset()


MUTANTS = (
    Mutant("record-not-synced", "a record is linked before its bytes are fsynced",
           ((local, "_write_durably", store.write_without_sync),)),
    Mutant("record-renamed", "a record is renamed into its slot, over what is there",
           ((local, "_link_into", store.rename_into),)),
    Mutant("folders-not-synced", "no folder is ever fsynced",
           ((local, "_sync_folder", _nothing),)),
    Mutant("made-folder-trusted", "a folder that exists is taken for durable",
           ((local.LocalStorage, "_make_folders", store.make_folders_once),)),
    Mutant("staged-not-synced", "a staged file is closed without fsync",
           ((local._LocalStagedWriter, "seal", store.seal_without_sync),)),
    Mutant("attempt-not-synced", "a task does not fsync its attempt's folder",
           ((local.LocalStorage, "sync_folder", _nothing),)),
    Mutant("result-taken-back", "a task whose result has no answer removes what it has staged",
           ((answers, "put_result", store.put_result_or_take_back),)),
    Mutant("publish-renames", "a file is published by rename",
           ((local.LocalStorage, "publish", store.publish_by_rename),)),
    Mutant("publish-not-synced", "the staged name goes before the final one is durable",
           ((local.LocalStorage, "publish", store.publish_without_sync),)),
    Mutant("eexist-ignored", "a put that finds the slot taken says that it won",
           ((local.LocalStorage, "put_if_absent", store.put_blindly),)),
    Mutant("lost-put-failed", "an error of a put is its outcome; the slot is not read",
           ((local.LocalStorage, "put_if_absent", store.put_without_reading),
            (LedgerWriter, "_put_until_known", _put_once))),
    Mutant("no-fence-check", "a driver that met another's fence goes on under its term",
           ((LedgerWriter, "_refuse_if_fenced", _adopt_fence),)),
    Mutant("no-fence", "the lease is the only fence",
           ((LedgerWriter, "fence", _fence_by_lease),)),
    Mutant("lost-slot-untested", "a record that lost its slot goes into the next one untested",
           ((LedgerWriter, "_refuse_if_fenced", _adopt_fence), (Fold, "check", _nothing))),
    Mutant("repeated-with-fresh-id", "a put without an answer is repeated with another id",
           ((LedgerWriter, "_put_until_known", _put_with_fresh_id),)),
    Mutant("restaged-on-unknown", "a put without an answer is failed; the epoch is run again",
           ((LedgerWriter, "_put_until_known", _put_once),)),
    Mutant("deleted-on-unknown", "a put without an answer is failed; its files are removed",
           ((LedgerWriter, "_put_until_known", _put_once_and_delete),)),
    Mutant("tail-read-once", "the log is read at START and never again",
           ((LedgerLog, "advance", _advance_once),)),
    Mutant("stage-emptied", "a start removes all that is staged",
           ((LedgerLog, "fold", _fold_and_clean),)),
    Mutant("publish-before-commit", "files get their final names before the record is put",
           ((committer, "check_staged_files", _check_and_publish),)),
    Mutant("dedupe-by-epoch", "an epoch number that was seen is taken for committed",
           ((committer, "prepare_record", _prepare_new_epochs),)),
    Mutant("publish-gives-up", "a publish that fails is called done",
           ((Publisher, "publish", _publish_if_it_works),)),
    Mutant("recovery-skipped", "a start takes all records for published",
           ((FilesFollower, "update", _recover_nothing),)),
    Mutant("attempts-dropped-first", "attempt folders go before their files are published",
           ((Publisher, "publish", _drop_then_publish),)),
    Mutant("start-resolved-again", "a start is resolved again until there is a row",
           ((route_planner, "plan_sources", _without_rows(planner.plan_sources)),
            (route_planner, "new_partitions", _without_rows(planner.new_partitions)))),
    Mutant("result-of-any-epoch", "a task's result is found by task only, whoever put it",
           ((TaskPlan, "result_path", property(_result_path)),
            (prepare, "_check_answer", _nothing))),
    Mutant("identity-not-checked", "a topic created anew is read on as the old one",
           ((route_planner, "check_identities", _nothing),)),
    Mutant("owner-overwritten", "a start writes OWNER, whoever had it",
           ((takeover, "claim_table", _owner_overwritten),)),
    Mutant("effects-claimed", "effects count as applied when they are wanted",
           ((CatalogFollower, "want", _want_and_claim),)),
    Mutant("effects-dropped", "a metastore call that fails is not made again",
           ((CatalogFollower, "_apply", _apply_once),)),
    Mutant("record-before-not-synced", "a record trusts the one before it to be durable",
           ((LedgerWriter, "_keep_record_before", _nothing),), rare=True),
    Mutant("pack-not-synced", "a pack is written without fsync",
           ((Packs, "_write", keep.write_pack_without_sync),)),
    Mutant("slots-emptied-first", "the slots go before their pack is there",
           ((Packs, "_write", keep.empty_before_packing),)),
    Mutant("packed-to-the-tail", "a folder that no snapshot covers is packed",
           ((Packs, "pack_next", keep.pack_up_to_the_tail),)),
    Mutant("no-look-for-pack", "a put that got its slot is not followed by a look for a pack",
           ((LedgerWriter, "_put_until_known", keep.put_without_looking),), rare=True),
    Mutant("slot-before-pack", "what stands in a slot is read although there is a pack",
           ((LedgerLog, "read_bytes", keep.slot_before_pack),
            (LedgerLog, "records", keep.records_of_slots)), rare=True),
    Mutant("snapshot-too-early", "a snapshot is taken while a record's files are not published",
           ((OwnedRoute, "wait_published", keep.snapshot_before_publishing),)),
    Mutant("side-file-trusted", "a side file is read without a look at its hash",
           ((log, "load_snapshot", keep.trust_side_file),), rare=True),
    Mutant("owed-partitions-dropped", "a side file leaves out partitions that the catalog has not",
           ((kept_partitions, "kept_partitions", keep.keep_few_partitions),), rare=True),
    Mutant("moved-forgotten", "partitions that moved are forgotten as others are, unsealed",
           ((kept_partitions, "kept_partitions", keep.keep_what_is_owed),
            (upkeep, "to_seal", keep.nothing_to_seal))),
    Mutant("sealed-written", "rows of a sealed partition go to the folder of its first rows",
           ((FoldState, "sealed_above", keep.never_sealed),)),
    Mutant("sealed-written-checked", "the same, and only the writer looks",
           ((placing, "_parted", keep.all_open),)),
    Mutant("sealed-lost", "a side file leaves out what is sealed",
           ((partition_image, "packed_names", keep.packed_nothing),)),
    Mutant("sealed-too-early", "what is still owed to somebody is sealed",
           ((sealing, "_why_kept", keep.no_reason),)),
    Mutant("unannounced-forgotten", "before the first watermark, partitions are forgotten",
           ((kept_partitions, "kept_partitions", keep.forget_the_unannounced),), rare=True),
    Mutant("gc-of-next-epoch", "the epoch that runs counts as over",
           ((Decided, "why", keep.why_of_next_epoch),)),
    Mutant("gc-by-slot", "an epoch is lost when another record takes the next slot",
           ((Decided, "why", keep.why_of_taken_slot),)),
    Mutant("gc-by-age", "what no record names is old, so it goes",
           ((Decided, "why", keep.why_of_age),)),
    Mutant("gc-unpublished", "files that a record names go before they have their final names",
           ((GarbageCollector, "_published", keep.all_published),)),
    Mutant("gc-without-sync", "a final name that is seen is taken for durable",
           ((GarbageCollector, "_published", keep.published_without_sync),), rare=True),
    Mutant("reset-unfenced", "RESET is put under the term of another",
           ((LedgerWriter, "fence", keep.fence_unless_reset),
            (fold_sources, "check_operator_record", _nothing))),
    Mutant("change-at-old-end", "another log of the name is read on from the old committed end",
           ((reset_offsets, "record_of", keep.change_at_the_old_end),)),
    Mutant("change-of-end-only", "SOURCE_CHANGE moves the end; the log stays the one it was",
           ((Fold, "apply", keep.apply_without_identity),)),
    Mutant("piece-behind-hole", "a piece counts, though the one before it was not read to its end",
           ((SplitPieces, "join", piece.join_all),
            (prepare, "_prolonged", piece.prolonged_blindly))),
    Mutant("piece-behind-hole-checked", "the same, and only the record's maker looks at the ends",
           ((SplitPieces, "join", piece.join_all),)),
    Mutant("pieces-overlap", "a piece begins at the last offset of the one before it",
           ((pieces, "_append", piece.append_overlapping),
            (prepare, "_prolonged", piece.prolonged_blindly))),
    Mutant("next-epoch-kept", "an epoch is thrown away, the one planned ahead of it committed",
           ((JobLoop, "_react", fast.react_and_keep), (committer, "follows", fast.always),
            (fold_data, "check_range", _nothing)), rare=True),
    Mutant("next-epoch-kept-checked", "the same, and only the writer looks at the chain",
           ((JobLoop, "_react", fast.react_and_keep), (committer, "follows", fast.always)),
           rare=True),
    Mutant("second-commit-at-once", "an epoch's commit does not wait for the one before",
           ((JobLoop, "_commit_staged", fast.commit_at_once),), rare=True,
           often=frozenset({"append_rows", "background"})),
    Mutant("planned-too-far", "an epoch is planned from ends that the one before did not commit",
           ((route_planner, "fold_after", fast.fold_too_far),
            (committer, "follows", fast.always), (fold_data, "check_range", _nothing))),
    Mutant("planned-from-before", "an epoch is planned from the ends before the one under way",
           ((route_planner, "fold_after", fast.fold_before),
            (committer, "follows", fast.always), (fold_data, "check_range", _nothing))),
    Mutant("folder-at-plan-time", "files go where their partition was when they were planned",
           ((committer, "placed", move.placed_as_planned),
            (fold_partitions, "check_location", _nothing))),
    Mutant("folder-at-plan-time-checked", "the same, and only the writer looks",
           ((committer, "placed", move.placed_as_planned),)),
    Mutant("replace-unchecked", "a partition moves without the files that came since it was read",
           ((replacing, "replace_body", move.replace_what_was_read),
            (fold_partitions, "check_removed", _nothing),
            (fold_partitions, "check_rows", _nothing))),
    *(Mutant(name, what, patches, often=frozenset({"background"}))
      for name, (what, patches) in swaps.WRONG.items()),
    *(Mutant(name, what, patches, often=sqls.OFTEN.get(name, sqls.ONLY_SQL))
      for name, (what, patches) in sqls.WRONG.items()),
    Mutant("group-files-mixed", "all of a group are rewritten from the files of one of them",
           ((replacing, "_rewrite_all", move.rewrite_from_the_first),
            (replacing._Work, "add_files", move.take_any_rows),
            (fold_partitions, "check_rows", _nothing))),
    Mutant("group-checked-once", "whether files have come is looked at once for a whole group",
           ((replacing, "_put_replaces", move.check_the_first),
            (fold_partitions, "check_removed", _nothing),
            (fold_partitions, "check_rows", _nothing))),
    Mutant("folder-used-twice", "a partition moves to a folder that it has had",
           ((partition_bodies, "moved_folder", move.same_folder),
            (fold_partitions, "moved_folder", move.same_folder))),
    Mutant("ready-at-once", "READY does not wait for epochs that were planned before",
           ((background, "ready_body", move.ready_when_asked),
            (fold_partitions, "closed_prefix", move.closed_or_not))),
    Mutant("ready-before-publish", "background work is served before an epoch is published",
           ((side_records, "_is_free", move.always_shown),
            (OwnedRoute, "wait_published", move.serve_before_publishing))),
    Mutant("recovery-from-the-start", "a start publishes all records again, also of what is gone",
           ((route_start, "recover", move.recover_from_the_start),)),
    Mutant("old-folder-at-once", "an old folder goes without a look where readers are sent",
           ((MovedPartitions, "add", move.remove_at_once),)),
    Mutant("fenced-goes-on", "a fenced driver without anything to commit goes on with its effects",
           ((DriverTerm, "check", outside.held_for_ever),
            (DriverTerm, "refuse_if_lost", outside.held_for_ever))),
    Mutant("swept-by-own-repair", "old folders are judged by what this driver has just put right",
           ((MovedPartitions, "due", outside.all_again),
            (CatalogFollower, "_apply_all", outside.repair_then_look))),
    Mutant("looked-before-published", "what has moved is put right before its files have names",
           ((MovedPartitions, "due", outside.look_at_unpublished),), rare=True),
    Mutant("old-folder-whatever-is-shown", "an old folder goes without a look where readers are",
           ((moved_partitions, "_is_shown", move.always_shown),)),
    Mutant("room-not-asked", "a standby does not ask", room.NOT_ASKED, often=room.OFTEN),
    Mutant("room-catalog-believed", "it is believed", room.CATALOG_BELIEVED, often=room.OFTEN),
    Mutant("staged-unchecked", "PREPARE believes the tasks, and looks at no staged file",
           ((committer, "check_staged_files", _nothing),)),
    Mutant("bounds-looked-at-once", "a log that ends below its committed end is believed at once",
           ((LogEndHistory, "update", _nothing),)),
    Mutant("expired-shown", "a partition that its owner has dropped is added again",
           ((desired, "desired_partition", move.shown_for_ever),)),
    Mutant("gc-of-open-work", "staged files of background work go while it goes on",
           ((garbage, "_judge_intent", move.intent_over),)),
    Mutant("reset-from-old-end", "RESET does not look whether its committed ends are so still",
           ((reset_offsets, "refuse_stale", _nothing),
            (fold_sources, "moved", keep.moved_unchecked))),
    Mutant("lanes-overlap", "a lane takes dirty rows, whoever has them",
           ((ReplayLanes, "is_taken", lanes.never_taken),)),
    Mutant("lane-ends-in-memory", "how far a replay is, its driver knows, and no record",
           ((LaneState, "left", lanes.left_as_remembered),
            (LaneState, "place", lanes.place_anywhere),
            (Lanes, "_record", lanes.record_and_remember)), rare=True),
    Mutant("request-twice", "a request that is found again opens another lane",
           ((LaneRequest, "record", lanes.record_of_new_lane),
            (ReplayLanes, "is_taken", lanes.never_taken))),
    Mutant("snapshot-without-lanes", "a side file forgets which rows lanes have taken",
           ((snapshot, "lane_image", lanes.image_without_lanes),)),
    Mutant("dirty-again-dropped", "rows of a replay that are dirty again count as filtered",
           ((Lanes, "_record", lanes.record_without_dirty_rows),)),
    Mutant("lane-not-published", "the files of a lane's epoch stay staged",
           ((Lanes, "_land", lanes.land_unpublished),)),
    Mutant("late-as-in-time", "tasks are not told what is closed, and write there uncounted",
           ((EpochDates, "for_splits", late.without_closed),)),
    Mutant("late-not-published", "the files of late rows stay staged",
           ((files, "all_files", late.files_in_time),)),
    Mutant("late-brought-in-twice", "a lane takes late rows, whoever has brought them in",
           ((ReplayLanes, "is_taken", late.taken_unless_late),), often=_LATE_ROWS),
    Mutant("late-lost-on-the-way", "late rows that a lane has read are in no file of it",
           ((Lanes, "_record", late.record_without_late_rows),
            (fold_lanes, "_check_sums", _nothing)), often=_LATE_ROWS),
    Mutant("idle-by-timer", "a quiet source partition is idle, whatever its log holds",
           ((watermark, "_status", ready.idle_by_the_clock),)),
    Mutant("idle-at-once", "a source partition with nothing to read is idle at once",
           ((watermark, "_status", ready.idle_at_once),)),
    Mutant("idle-without-leader", "a source partition that no leader tells of holds nothing",
           ((watermark, "_status", ready.idle_without_leader),)),
    Mutant("copy-is-the-log", "where a copy ends there the log ends",
           ((loop, "read_source_view", ready.look_at_copies),)),
    Mutant("watermark-of-the-fastest", "the route is as far as its furthest source partition",
           ((route_readiness, "route_watermark", ready.watermark_of_the_fastest),
            (fold_watermark, "_check_holders", _nothing))),
    Mutant("watermark-of-the-fastest-checked", "the same, and only the writer looks",
           ((route_readiness, "route_watermark", ready.watermark_of_the_fastest),)),
    Mutant("watermark-falls", "a watermark is made anew from what is committed",
           ((route_readiness, "route_watermark", ready.watermark_that_falls),
            (fold_watermark, "check_watermark", _nothing))),
    Mutant("new-partition-ignored", "a source partition without a committed row never holds",
           ((watermark, "_found", ready.new_ones_do_not_hold),
            (fold_watermark, "_check_holders", _nothing))),
    Mutant("all-idle-up-to-now", "when all are idle the watermark goes to the time of the look",
           ((watermark, "_found", ready.all_idle_up_to_now),)),
    Mutant("future-row-counts", "a row of the future counts for its own time",
           ((SourceState, "advance", ready.advance_without_cap),
            (fold_watermark, "_check_holders", _nothing))),
    Mutant("clock-looked-at-once", "a look at the wall clock is believed, whatever it has passed",
           ((SteadyClock, "now_us", ready.wall_clock_us),)),
    Mutant("clock-creeps", "a look at the wall clock is compared with the one before it only",
           ((SteadyClock, "_is_borne_out", ready.borne_out_by_the_last_look),), rare=True,
           often=frozenset({"creep_clock"})),
    Mutant("closed-too-early", "a partition is closed before the watermark has reached its end",
           ((OpenPrefixes, "due", ready.due_too_early),)),
    Mutant("never-announced", "what is closed is not announced",
           ((RouteReadiness, "to_announce", ready.nothing_to_announce),)),
    Mutant("announced-latest-first", "partitions are announced in no order of time",
           ((route_readiness, "next_to_announce", ready.latest_first),)),
    Mutant("shown-at-commit", "on_ready shows a partition with its first file",
           ((desired, "is_to_be_shown", ready.always_seen),)),
    Mutant("count-is-enough", "a partition whose count has come is closed, whatever it has",
           ((FoldState, "has_counted", counted.a_count_is_enough),)),
    Mutant("count-one-missing", "one row may be missing of what was counted",
           ((FoldState, "has_counted", counted.one_row_may_be_missing),)),
    Mutant("count-not-waited-for", "a partition is closed without its count",
           ((CountRule, "needs_count", counted.nobody_needs_a_count),)),
    Mutant("counted-in-no-order", "a partition is closed by its count before those before it",
           ((OpenPrefixes, "due_counted", counted.in_no_order),)),
    Mutant("counted-never-closed", "what was counted is never closed",
           ((OpenPrefixes, "due_counted", counted.never_due),)),
    Mutant("epoch-never-assigned", "a log is read on without a look at its leader epochs",
           ((route_planner, "plan_splits", epochs.never_assigned),)),
    Mutant("epoch-never-noted", "nobody asks a row for its leader epoch",
           ((SplitProgress, "set_leader_epoch", epochs.no_epochs),)),
    Mutant("epoch-past-markers", "the epoch of the last row is kept past markers",
           ((SplitProgress, "_move_to", epochs.move_and_keep),
            (SplitProgress, "set_leader_epoch", epochs.note_always))),
    Mutant("epoch-kept-by-fold", "an end that moves without an epoch keeps the one it had",
           ((SourceState, "advance", epochs.keep_old_epoch),)),
    Mutant("epoch-of-pieces", "the epoch of the committed end is copied to the pieces behind it",
           ((pieces, "_append", epochs.copy_to_pieces),)),
    Mutant("epoch-of-a-zombie", "whoever answers vouches for an end behind markers",
           ((leader_epochs, "_with_end_epoch", epochs.vouched_by_anyone),), rare=True),
    Mutant("cut-is-retried", "a log that was cut and has grown again fails its tasks for ever",
           ((log_cuts, "cut_failure", epochs.cut_is_retried),)),
    Mutant("place-before-outside", "a follower's place moves before files have their names",
           ((FilesFollower, "follow", follow.place_first),)),
    Mutant("after-ignored", "the catalog is told of what is not published yet",
           ((FollowerRunner, "_limit", follow.any_slot),)),
    Mutant("place-in-memory", "what the catalog is owed is forgotten with its driver",
           ((OwnedRoute, "want_partitions", follow.start_at_the_tail),)),
    Mutant("two-pieces-at-once", "a follower is called while it is called",
           ((WorkPool, "wake", follow.wake_twice),)),
    Mutant("bound-ignored", "commits go on, however many records are not published",
           ((OwnedRoute, "refuse_unpublished", follow.without_bound),)),
    Mutant("follower-forgotten", "a route has nobody who tells the catalog",
           ((runner, "in_order", follow.forgotten),)),
    Mutant("count-after-closing", "a count is taken in of what the driver has closed",
           ((background, "counts_body", counted.counts_what_is_closed),), rare=True,
           often=frozenset({"append_rows", "background"})),
)  # fmt: skip


@contextmanager
def patched(mutant: Mutant | None) -> Iterator[None]:
    """The product is the mutant inside the block.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    if mutant is None:
        yield
        return
    with held(mutant.name, mutant.patches):
        yield
