"""`adopt`: a room continues a table from the copy that a lost room has left (rooms, D26 to D33).

The claim of a generation comes first, its first record last. Each step between can be repeated: a
command that died is run again, with the same cut.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from sluiceway.errors import (
    LedgerCorruptError,
    LedgerMismatchError,
    OffsetsLostError,
    RequestRefusedError,
    StorageUnavailableError,
)
from sluiceway.host.process import own_identity
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.driver_term import Owner, ledger_property
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.generations import Generation, claim_generation, read_generations
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import GAP, ResetPartition, ResetRecord
from sluiceway.ledger.records import (
    ADOPTED_FORMAT,
    AdoptedRecord,
    FenceRecord,
    TableIdentityRecord,
)
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.rooms.adopt_cut import LedgerCut, find_cut, list_copy
from sluiceway.schedule.planner import readable_start
from sluiceway.schedule.source_view import is_same_log, read_route_view
from sluiceway.sinks.contract import TableSink, TableState
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition
from sluiceway.storage.contract import Storage
from sluiceway.storage.copying import stream_crc32c
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt, encode

QUIET_S: Final = 30.0
"""How long the copy must not change, so that the copier is known to be stopped."""
CONFIRMATIONS: Final = ("copier_stopped", "room_down")
_PUT_TRIES = 8


@dataclass(frozen=True, slots=True)
class CopiedPlace:
    """Where the copy of a route's table is, and what reads it.

    Attributes:
        table: The table here, as a fence names it.
        state: The table here, as its catalog has it.
    """

    config: RouteConfig
    rule: RoomRule
    storage: Storage
    layout: LedgerLayout
    table: TableIdentityRecord
    state: TableState


@dataclass(frozen=True, slots=True)
class AgainRange:
    """Offsets of a source partition that the queue returns after an adopt.

    Attributes:
        start: Committed end at the cut.
        known_end: Committed end of the last slot in the copy; what was read after it is not known.
        lost: First offset that the log still has, if that is after `start`; else None.
    """

    partition: SourcePartition
    start: int
    known_end: int
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """What an adopt does.

    Attributes:
        place: The copy.
        number: The generation that begins.
        claim: The claim of an adopt that has not ended; None without one.
        done: Whether this room has adopted the table before: nothing is left to do.
        cut: Where the ledger is cut; None when `done`.
        ranges: What is read again, in the order of the source partitions.
        copies_denied: Whether the store keeps copiers out; None where that could not be checked.
    """

    place: CopiedPlace
    number: int
    claim: Generation | None = None
    done: bool = False
    cut: LedgerCut | None = None
    ranges: tuple[AgainRange, ...] = ()
    copies_denied: bool | None = None

    @property
    def kept_slot(self) -> int:
        """Last slot that is kept; -1 when `done`."""
        return -1 if self.cut is None else self.cut.kept.next_seq - 1

    @property
    def gaps(self) -> tuple[AgainRange, ...]:
        """Ranges that the queue has lost in part."""
        return tuple(each for each in self.ranges if each.lost is not None)

    def refuse_gaps(self, *, accepted: bool) -> None:
        """Refuse rows that neither copy has, unless an operator accepts that.

        Raises:
            RequestRefusedError: Lists them.
        """
        gaps = self.gaps
        if gaps and not accepted:
            listed = "; ".join(f"{g.partition} from {g.start} to {g.lost}" for g in gaps)
            raise RequestRefusedError(
                f"the queue of room {self.place.rule.room} lacks offsets that were cut: {listed}",
                where=self.place.config.route,
                hint="restore them in the queue, or add --accept-gap: their rows are lost",
            )


@dataclass(frozen=True, slots=True)
class AdoptOrder:
    """Who adopts a table, and why."""

    operator: str
    reason: str
    confirmed: tuple[str, ...]
    accept_gap: bool = False


def plan_adopt(place: CopiedPlace, source: SourceClient, at: int | None = None) -> AdoptPlan:
    """Find out what an adopt would do. Changes nothing.

    Args:
        place: The copy.
        source: The queue as this room sees it.
        at: The last slot to keep; None for the last whole slot.

    Raises:
        RequestRefusedError: There is nothing to adopt, or it cannot be; says why.
        LedgerMismatchError: The copy is another job's or route's.
        LedgerCorruptError: A claim is damaged.
        SourceUnavailableError: The queue does not answer.
        StorageUnavailableError: The store failed.
    """
    storage, layout, rule = place.storage, place.layout, place.rule
    claims = read_generations(storage, layout)
    claim = claims[-1] if claims and claims[-1].room == rule.room else None
    if claim is not None and LedgerLog(storage, layout, claims).read_slot(claim.kept_slot + 1):
        return AdoptPlan(place, claim.number, claim, done=True)
    before = claims if claim is None else claims[:-1]
    if claim is not None and at not in (None, claim.kept_slot):
        raise _refused(place, f"slot {claim.kept_slot} is claimed already", "leave out --at")
    at = at if claim is None else claim.kept_slot
    cut = find_cut(LedgerLog(storage, layout, before), list_copy(storage, layout), at)
    if cut is None:
        raise _refused(place, *_no_cut(at))
    _check_owner(place, cut.kept)
    ranges = _ranges(place, cut, source)
    denied = storage.denies_copies(layout.table_root)
    return AdoptPlan(place, len(before) + 1, claim, cut=cut, ranges=ranges, copies_denied=denied)


def _no_cut(at: int | None) -> tuple[str, str]:
    if at is None:
        text = "no slot of the copy has all its files, or there is no ledger"
        return text, "see that the copier brings all objects below the table"
    return f"slot {at} is missing, or not all files of its table are there", "name an earlier slot"


def _refused(place: CopiedPlace, message: str, hint: str) -> RequestRefusedError:
    return RequestRefusedError(message, where=place.layout.root, hint=hint)


def _check_owner(place: CopiedPlace, kept: Fold) -> None:
    """Refuse another job's table, one of this very room, and one of which no source is known."""
    first, fence, config = kept.first_fence, kept.fence, place.config
    if first is None or fence is None:
        raise LedgerCorruptError("the log has no fence", where=place.layout.log)
    if (first.job, first.route) != (config.job, config.route):
        raise LedgerMismatchError(
            f"the copy is of job {first.job}, route {first.route}",
            where=place.layout.root,
            hint="use the job file that fills this table",
        )
    if (fence.site or place.rule.home) == place.rule.room:
        text = f"room {place.rule.room} has written this log itself"
        raise _refused(place, text, "run the job: there is nothing to adopt")
    if kept.subscription is None:
        text = "the slots that could be kept name no source partition yet"
        raise _refused(place, text, "remove the copy, and start the job with a new table")


def _ranges(place: CopiedPlace, cut: LedgerCut, source: SourceClient) -> tuple[AgainRange, ...]:
    live = {key: each for key, each in cut.kept.sources.items() if not each.retired}
    view = read_route_view(source, {topic for topic, _ in live}, cut.kept)
    found = []
    for key, known in sorted(live.items(), key=str):
        one = SourcePartition(*key)
        if one not in view.bounds:
            raise _refused(place, f"the queue here has no log of {one}", "see that it is copied")
        if not is_same_log(one, known, view):
            text = f"{one} is another topic here than in the ledger"
            raise _refused(place, text, "this version adopts tables whose queue spans the rooms")
        read = cut.last.sources.get(key, known)
        lost = _lost(place, cut.kept, one, view.bounds[one])
        found.append(AgainRange(one, known.end, read.end, lost))
    return tuple(found)


def _lost(place: CopiedPlace, kept: Fold, one: SourcePartition, bounds: LogBounds) -> int | None:
    try:
        readable_start(kept, one, bounds)
    except OffsetsLostError as error:
        if bounds.start_offset <= kept.sources[one.topic, one.partition].end:
            raise _refused(
                place, f"{one}: {error.message}", "see that the queue is whole"
            ) from error
        return bounds.start_offset
    return None


def wait_quiet(sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait as long as no copy may change. Called once, between the plans and `refuse_changing`."""
    sleep(QUIET_S)


def refuse_changing(plan: AdoptPlan) -> None:
    """Refuse a copy that still changes: its copier is not stopped. Called before the claim.

    Raises:
        RequestRefusedError: It has other files than the plan has seen, or the store lets a copier
            bring more.
        StorageUnavailableError: The store failed.
    """
    place = plan.place
    if plan.cut is None:
        return
    if place.storage.denies_copies(place.layout.table_root) is False:
        root = place.layout.table_root.partition("://")[2]
        text = "the bucket's policy lets another room's replication bring objects of the table"
        what = f"`s3:ReplicateObject` to `*` on `arn:aws:s3:::{root}/*`"
        raise _refused(place, text, f"add a statement to it that denies {what}")
    now = list_copy(place.storage, place.layout)
    before = plan.cut.files.sizes
    changed = sorted({*now.items()} ^ {*before.items()})
    if changed:
        text = f"{len({path for path, _ in changed})} files changed within {QUIET_S:.0f} s"
        hint = f"stop the copier, then run it again; the first of them is {changed[0][0]}"
        raise _refused(place, text, hint)


def adopt_table(plan: AdoptPlan, order: AdoptOrder, sink: TableSink) -> int:
    """Adopt the copy. Called after `refuse_gaps` and `refuse_changing`; may be repeated.

    Args:
        plan: What `plan_adopt` has found.
        order: Who wants it.
        sink: The table here, open.

    Returns:
        The slot of the record that begins the generation; -1 when the plan is done.

    Raises:
        RequestRefusedError: Another adopt was faster.
        StorageUnavailableError: The store failed; run it again.
        SluicewayError: The catalog failed or refuses; run it again.
    """
    cut, place = plan.cut, plan.place
    if cut is None:
        return -1
    # A copier of files alone brings no empty folder.
    place.storage.make_folders(place.layout.stage)
    claim = _claim(plan, cut, order)
    log = LedgerLog(place.storage, place.layout)
    log.generations()
    place.storage.make_folders(log.layout.log_of(plan.number))
    _unpack(plan, log)
    placed = cut.to_place
    for file in placed:
        _publish(place, file)
    moved = cut.to_move
    for path in moved:
        move_aside(place.storage, place.layout, path, plan.number)
    # It is the lost room's: a driver here would wait for it.
    place.storage.remove(place.layout.lease)
    _own(plan, cut, sink)
    return _fence(plan, claim, cut, (len(placed), len(moved)), log)


def _claim(plan: AdoptPlan, cut: LedgerCut, order: AdoptOrder) -> Generation:
    if plan.claim is not None:
        return plan.claim
    claim = Generation(
        number=plan.number,
        kept_slot=plan.kept_slot,
        kept_hash=cut.kept.head,
        room=plan.place.rule.room,
        operator=order.operator,
        reason=order.reason,
        confirmed=order.confirmed,
    )
    found = claim_generation(plan.place.storage, plan.place.layout, claim)
    if found != claim:
        text = f"{found.operator} has claimed generation {found.number} at slot {found.kept_slot}"
        raise _refused(plan.place, text, "leave it to that command, or run it again if it has died")
    return claim


def _unpack(plan: AdoptPlan, log: LedgerLog) -> None:
    """Put kept slots that are in a pack of later slots into the log again.

    A pack belongs to the generation of its last slot. So a pack with cut slots is not read.
    """
    place, folder = plan.place, log.layout.folder_of(plan.kept_slot)
    first = log.layout.slots_of(folder).start
    older = LedgerLog(place.storage, place.layout, log.generations()[: plan.number - 1])
    if log.layout.pack(folder) == older.layout.pack(folder) or not older.packs.covers(first):
        return
    for record, raw in older.records(first):
        if record.seq > plan.kept_slot:
            return
        place.storage.put_if_absent(
            log.layout.record(record.seq), raw, tmp_folder=place.layout.stage
        )


def _publish(place: CopiedPlace, file: FileRecord) -> None:
    place.storage.publish(
        place.layout.attempt(file.staged),
        place.layout.final(file.final),
        size_bytes=int(file.size_bytes),
        crc32c=file.crc32c,
    )


def move_aside(storage: Storage, layout: LedgerLayout, path: str, generation: int) -> None:
    """Move a file to where no reader finds it. Safe to repeat.

    Args:
        storage: The table's store.
        layout: The ledger's layout.
        path: The file, below the table.
        generation: The generation that does not keep it.

    Raises:
        StorageUnavailableError: The store failed; repeat.
    """
    found = storage.status(path)
    if found is None:
        return
    relative = path.removeprefix(f"{layout.table_root}/")
    target = f"{layout.cut(generation)}/{relative}"
    held = storage.status(target)
    if held is not None and held.size_bytes != found.size_bytes:
        # Of an earlier try of the copier, which was cut short.
        target = f"{target}.{uuid4().hex}"
    with storage.open_read(path) as stream:
        crc32c = stream_crc32c(stream)
    storage.publish(path, target, size_bytes=found.size_bytes, crc32c=crc32c)
    if storage.status(path) is not None:
        # A store without folders keeps what it has published.
        storage.remove(path)


def _own(plan: AdoptPlan, cut: LedgerCut, sink: TableSink) -> None:
    """Let OWNER and the table's property name this table as the ledger's."""
    place, first = plan.place, cut.kept.first_fence
    if first is None:
        raise LedgerCorruptError("the log has no fence", where=place.layout.log)
    location = place.table.location
    owner = Owner(first.ledger, first.job, first.route, location, plan.number)
    place.storage.overwrite(place.layout.owner, encode(owner))
    held, wanted = place.state.ledger, ledger_property(owner)
    if held is not None and held != wanted and held.startswith(f"{first.ledger}@"):
        sink.move_ledger(place.state, held, wanted)
    else:
        sink.mark_ledger(place.state, wanted)


def _fence(
    plan: AdoptPlan, claim: Generation, cut: LedgerCut, files: tuple[int, int], log: LedgerLog
) -> int:
    """Put the first record of the generation, and one for offsets that the queue has lost."""
    place, process, first = plan.place, own_identity(), cut.kept.first_fence
    if first is None or cut.kept.fence is None:
        raise LedgerCorruptError("the log has no fence", where=place.layout.log)
    fold = log.fold()
    if fold.next_seq != plan.kept_slot + 1 or fold.head != claim.kept_hash:
        raise _refused(place, "another adopt was faster", "see `sluiceway status JOB`")
    placed, moved = files
    adopted = AdoptedRecord(
        generation=plan.number,
        from_table=cut.kept.made_for or first.table,
        kept_term=fold.term,
        kept_epoch=fold.last_epoch,
        slots=cut.slots,
        placed=placed,
        moved=moved,
        operator=claim.operator,
        reason=claim.reason,
        confirmed=claim.confirmed,
    )
    body = FenceRecord(
        ledger=first.ledger,
        job=first.job,
        route=first.route,
        table=place.table,
        driver=uuid4().hex,
        host=process.host,
        boot_id=process.boot_id,
        pid=process.pid,
        site=place.rule.room,
        started_at_ms=BigInt(time.time_ns() // 1_000_000),
        format=ADOPTED_FORMAT,
        min_reader=ADOPTED_FORMAT,
        adopted=adopted,
    )
    writer = LedgerWriter(log, fold, _give_up)
    # Each live file has its final name now, whatever the lost room had published.
    writer.set_published()

    def on_lost() -> None:
        raise _refused(place, "another adopt was faster", "see `sluiceway status JOB`")

    slot = writer.fence(body, on_lost).seq
    if plan.gaps:
        moves = tuple(_reset(fold.sources, gap) for gap in plan.gaps)
        writer.commit(ResetRecord(claim.operator, f"--accept-gap: {claim.reason}", moves))
    return slot


def _reset(sources: dict[tuple[str, LogKey], SourceState], gap: AgainRange) -> ResetPartition:
    known = sources[gap.partition.topic, gap.partition.partition]
    newest = known.max_event_time_us
    return ResetPartition(
        topic=gap.partition.topic,
        partition=gap.partition.partition,
        old_end=BigInt(known.end),
        new_end=BigInt(known.end if gap.lost is None else gap.lost),
        generation=known.generation + 1,
        accepted=GAP,
        max_event_time_us=None if newest is None else BigInt(newest),
    )


def _give_up(attempts: int, error: StorageUnavailableError) -> None:
    if attempts >= _PUT_TRIES:
        raise error
