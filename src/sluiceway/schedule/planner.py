"""Decides what is read next, from the ledger's fold and what the source says now. No I/O."""

import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sluiceway.errors import OffsetsLostError, SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_sources import HANDED_OVER
from sluiceway.ledger.folding.fold_state import SourceState, Subscription
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.records import (
    HandOverCause,
    PinnedPartition,
    RangeRecord,
    SourcesRecord,
)
from sluiceway.ledger.room_files import log_name
from sluiceway.schedule.epoch_times import UNDATED, EpochDates
from sluiceway.schedule.source_view import undescribed
from sluiceway.schedule.start_offsets import ResolvedStart
from sluiceway.sources.contract import (
    LAKE_CLUSTER,
    LEDGER_CLUSTER,
    LISTED_CLUSTER,
    DiscoveredPartition,
    HandOver,
    LogBounds,
    SourcePartition,
    Split,
)
from sluiceway.sources.table_losses import rolled_back, rows_removed
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import RoutePlan, TaskPlan

Bounds = Mapping[SourcePartition, LogBounds]
Targets = Mapping[SourcePartition, int]
"""Where a bounded run ends."""
NO_COPIES: Bounds = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split, and where its range starts in the ledger.

    Attributes:
        range_start: The committed end. Below `split.start_offset` only when rows were deleted by
            retention before the first commit of a partition that starts at `earliest`.
        expected_records: Records that it is expected to hold; says how to share and spread.
        lag_records: How many of these lie in the log already.
        leader_epoch: Epoch of the leader that said where the log ended when this was planned; None
            when it is unknown.
    """

    split: Split
    range_start: int
    expected_records: int = 0
    lag_records: int = 0
    leader_epoch: int | None = None


@dataclass(slots=True)
class PlannedEpoch:
    """What a route wants to read next.

    Attributes:
        route: What all its tasks share.
        by_task: Task -> its splits; set when they are dealt out.
        alone: Whether its tasks serve no other route.
        ahead: Whether the commit of the epoch before was under way.
        dates: What it knows of time: by which clock rows are read, what is late.
        closed: Prefixes that rows of this epoch reach by the late policy only.
        bound_us: The committed watermark that it took to close them; None without one.
        answered: When its tasks had answered, on the monotonic clock; None while they have not.
    """

    epoch: int
    splits: list[PlannedSplit]
    route: RoutePlan
    by_task: dict[int, tuple[PlannedSplit, ...]] = field(default_factory=dict)
    alone: bool = True
    ahead: bool = False
    dates: EpochDates = UNDATED
    closed: tuple[str, ...] = ()
    told_closed: tuple[str, ...] = ()
    bound_us: int | None = None
    answered: float | None = None
    started: float = field(default_factory=time.monotonic)

    def task_plans(self, deadline_s: float) -> dict[int, TaskPlan]:
        """The plan of each task. Called once the splits are dealt out.

        Args:
            deadline_s: Reading time from a task's start.
        """
        dealt = {
            task: tuple(each.split for each in splits) for task, splits in self.by_task.items()
        }
        return {
            task: TaskPlan(
                route=self.route,
                epoch=self.epoch,
                task=task,
                splits=splits,
                deadline_s=deadline_s,
                times=self.dates.for_splits(splits, self.told_closed),
                waiting=sum(each.lag_records for each in self.by_task[task]),
            )
            for task, splits in dealt.items()
        }


def new_partitions(
    fold: Fold, wanted: Subscription, discovered: Sequence[DiscoveredPartition]
) -> tuple[SourcePartition, ...]:
    """Partitions that begin where the job file's start says, in order.

    Partitions that appeared under an unchanged subscription (a listed topic, or an unchanged
    pattern) are not among them. They begin at their own earliest offset, or rows would be lost.
    """
    return tuple(
        found.partition
        for found in discovered
        if (found.partition.topic, found.partition.partition) not in fold.sources
        and not _was_subscribed(fold.subscription, wanted, found.partition.topic)
    )


def missed_partitions(fold: Fold, wanted: Subscription) -> tuple[SourcePartition, ...]:
    """Partitions that are read, of topics that an unchanged pattern had and does not find now."""
    before = fold.subscription
    if before is None or before.pattern != wanted.pattern:
        return ()
    return tuple(
        SourcePartition(topic, key)
        for (topic, key), known in sorted(fold.sources.items())
        if topic not in wanted.topics and not known.retired
    )


def _was_subscribed(before: Subscription | None, wanted: Subscription, topic: str) -> bool:
    if before is None:
        return False
    return topic in before.topics or (bool(wanted.pattern) and before.pattern == wanted.pattern)


def plan_sources(
    fold: Fold,
    wanted: Subscription,
    discovered: Sequence[DiscoveredPartition],
    bounds: Bounds,
    starts: Mapping[SourcePartition, ResolvedStart],
) -> SourcesRecord | None:
    """The SOURCES record that is due, or None (commit rule 5).

    Args:
        fold: State of the ledger.
        wanted: The subscription now.
        discovered: All partitions of the topics.
        bounds: Bounds of at least the partitions that are new.
        starts: Where the partitions of `new_partitions` begin.
    """
    pins = []
    for found in discovered:
        key = (found.partition.topic, found.partition.partition)
        known = fold.sources.get(key)
        if known is not None and not known.retired:
            continue
        if known is not None:
            pins.append(_pin(found, ResolvedStart(known.end, "resumed")))
        elif found.partition in starts:
            pins.append(_pin(found, starts[found.partition]))
        else:
            first = bounds[found.partition].start_offset
            pin = _pin(found, ResolvedStart(first, "discovered"))
            pins.append(replace(pin, origin=_origin_of(fold, found.partition)))
    for (topic, partition), known in fold.sources.items():
        if topic not in wanted.topics and not known.retired:
            pins.append(_retirement(topic, partition, known))
    if not pins and fold.subscription == wanted:
        return None
    return SourcesRecord(wanted.topics, wanted.pattern, wanted.start, tuple(pins))


def plan_hand_over(fold: Fold, wanted: Subscription, found: HandOver) -> SourcesRecord:
    """The record that leaves a table and pins what is read then.

    Args:
        fold: State of the ledger; all that it reads is the table.
        wanted: The subscription then.
        found: Where that begins.
    """
    pins = (
        *(_retirement(*key, known) for key, known in fold.sources.items() if not known.retired),
        *(_pin(each, ResolvedStart(end, HANDED_OVER)) for each, end in found.starts),
    )
    cause = HandOverCause(found.ledger, found.slot)
    topics, pattern, start = wanted.topics, wanted.pattern, wanted.start
    return SourcesRecord(topics, pattern, start, pins, reason=found.reason, because=cause)


def _origin_of(fold: Fold, partition: SourcePartition) -> OriginLog | None:
    """The log whose rows a new partition of a copied topic has copies of: the table has none."""
    for (topic, _), known in fold.sources.items():
        if topic == partition.topic and known.origin is not None:
            name = f"{known.origin.name.rpartition('/')[0]}/{partition.partition}"
            return replace(known.origin, name=name, end=BigInt(0))
    return None


def _pin(found: DiscoveredPartition, start: ResolvedStart) -> PinnedPartition:
    return PinnedPartition(
        found.partition.topic,
        found.partition.partition,
        found.identity.cluster_id,
        found.identity.topic_id,
        BigInt(start.offset),
        start.how,
        retired=False,
        newest_slot=found.newest_slot,
    )


def _retirement(topic: str, partition: LogKey, known: SourceState) -> PinnedPartition:
    return PinnedPartition(
        topic,
        partition,
        known.cluster_id,
        known.topic_id,
        BigInt(known.end),
        "retired",
        retired=True,
    )


def check_identities(fold: Fold, discovered: Sequence[DiscoveredPartition]) -> None:
    """Refuse a log that only has the name of the one that was read.

    Raises:
        OffsetsLostError: The cluster or the topic is another one, or the queue is of another kind.
    """
    kinds = {topic: type(key) for topic, key in fold.sources}
    for found in discovered:
        if kinds.get(found.partition.topic, type(found.partition.partition)) is not type(
            found.partition.partition
        ):
            raise OffsetsLostError(
                "the topic was read from a queue of another kind before",
                where=str(found.partition),
                hint="bring the old connection back, or fill another table",
            )
        known = fold.sources.get((found.partition.topic, found.partition.partition))
        if known is None:
            continue
        now = (found.identity.cluster_id, found.identity.topic_id)
        is_table = known.cluster_id in (LAKE_CLUSTER, LEDGER_CLUSTER, LISTED_CLUSTER)
        if now != (known.cluster_id, known.topic_id) and is_table:
            raise _other_table(found, known)
        if now != (known.cluster_id, known.topic_id):
            raise _lost(
                fold,
                found.partition,
                f"topic id {now[1]} in cluster {now[0]} is not the log that was read: "
                f"topic id {known.topic_id} in cluster {known.cluster_id}, "
                f"committed end {known.end}",
                hint="the topic was deleted and created again, or this is another cluster; "
                "rows already in the table are safe. Bring the old topic back, or accept this "
                "one in its place",
                evidence={
                    "committed_end": known.end,
                    "cluster_id_read": known.cluster_id,
                    "topic_id_read": known.topic_id,
                    "cluster_id_found": now[0],
                    "topic_id_found": now[1],
                },
                reset="--to earliest --accept-identity",
            )


def _other_table(found: DiscoveredPartition, known: SourceState) -> OffsetsLostError:
    what = "ledger of the table" if known.cluster_id == LEDGER_CLUSTER else "table"
    with_folder = " together with its folder `_sluiceway`" if what.startswith("ledger") else ""
    rows = f", of which {known.end} rows were read" if known.end else ""
    return OffsetsLostError(
        f"the {what} is not the same as before: {found.identity.topic_id} now, "
        f"{known.topic_id} before{rows}",
        where=str(found.partition),
        hint="the table was dropped and made again; rows of the route's own table are safe. Bring "
        f"the old table back{with_folder}, or fill another table from the new one",
    )


def check_described(
    partitions: Iterable[SourcePartition], bounds: Bounds, fold: Fold | None = None
) -> None:
    """Refuse to go on without knowing where a log begins and ends.

    Args:
        partitions: Partitions that have to be known.
        bounds: Bounds of partitions whose leaders answer.
        fold: State of the ledger that reads them; None when it does not yet.

    Raises:
        SourceUnavailableError: The cluster does not describe a partition.
    """
    for partition in partitions:
        if partition not in bounds:
            raise SourceUnavailableError(
                "it is gone, or no leader answers for it now; it is looked for again",
                where=str(partition),
                hint="" if fold is None else way_out_of(fold, partition),
            )


def way_out_of(fold: Fold, partition: SourcePartition) -> str:
    """What to do about a partition that will never come back."""
    return f"when it is gone for good: `{retire_command(fold, partition)}`"


def retire_command(fold: Fold, partition: SourcePartition) -> str:
    """The command that gives up a partition that is gone."""
    route, place = _named(fold, partition)
    return f"sluiceway offsets retire JOB{route} {place} --reason TEXT"


def _named(fold: Fold, partition: SourcePartition) -> tuple[str, str]:
    """Options of a command that name a route and a partition of it."""
    route = f" --route {fold.first_fence.route}" if fold.first_fence is not None else ""
    return route, f"--partition {partition.topic}:{partition.partition}"


def unpinned(fold: Fold, discovered: Iterable[DiscoveredPartition]) -> Iterator[SourcePartition]:
    """Partitions of which the ledger does not say yet where they begin."""
    for found in discovered:
        if (found.partition.topic, found.partition.partition) not in fold.sources:
            yield found.partition


def check_still_there(ranges: Iterable[RangeRecord], bounds: Bounds, copies: Bounds) -> None:
    """Refuse to commit what was read of a log that no broker knows afterwards (commit rule 13).

    Args:
        ranges: What was read.
        bounds: Log ends as the brokers say after the tasks; `plan_splits` judges them.
        copies: What can be read of the others.

    Raises:
        SourceUnavailableError: The leader does not answer, nor does a copy that has the range.
    """
    for span in ranges:
        one = SourcePartition(span.topic, span.partition)
        copy = copies.get(one)
        if copy is None or copy.start_offset > span.start:
            check_described([one], bounds)


def plan_splits(
    fold: Fold, bounds: Bounds, targets: Targets | None, copies: Bounds = NO_COPIES
) -> list[PlannedSplit]:
    """Splits of the next epoch, from the committed ends.

    A source partition without bounds is read from its copy as far as that goes. With nothing new
    there it is left out of the epoch, and the others go on.

    Args:
        fold: State of the ledger.
        bounds: Bounds of the source partitions that are read and whose leaders answer.
        targets: Where a bounded run ends; None reads on.
        copies: Bounds of copies of the others; see `SourceView.copies`.

    Raises:
        OffsetsLostError: The log starts after the committed end or ends before it.
        SourceUnavailableError: Nothing can be read of any source partition.
    """
    planned = []
    left = undescribed(fold, bounds)
    for (topic, number), known in sorted(fold.sources.items()):
        if known.retired:
            continue
        partition = SourcePartition(topic, number)
        place = bounds.get(partition)
        if place is None:
            planned += _from_copy(partition, known, copies.get(partition), targets)
            continue
        start = readable_start(fold, partition, place)
        stop = None if targets is None else targets.get(partition, known.end)
        if stop is not None and start >= stop:
            # Also when retention took all that a bounded run was to read: nothing is left of it,
            # and a later run counts the gap.
            continue
        # It belongs to the committed end; rows below the log's first offset are skipped.
        epoch = known.end_epoch if start == known.end else None
        leader = place.leader_epoch
        split = Split(
            partition,
            start,
            stop,
            epoch,
            new_leader=epoch is not None and leader != epoch,
            newest_slot=known.newest_slot,
            origin=known.origin,
            missing=known.missing,
        )
        planned.append(PlannedSplit(split, known.end, leader_epoch=leader))
    live = sum(not known.retired for known in fold.sources.values())
    if not planned and len(left) == live:
        check_described(left, bounds, fold)
    return planned


def up_to_copies(splits: Iterable[PlannedSplit], copied: Mapping[str, int]) -> list[PlannedSplit]:
    """The splits without rows of which another room has no copy yet.

    Args:
        splits: What would be read.
        copied: First offset without a copy, by `log_name`.
    """
    found = []
    for each in splits:
        one, stop = each.split.partition, each.split.stop_offset
        end = copied.get(log_name(one.topic, one.partition), 0)
        end = end if stop is None else min(end, stop)
        if each.split.start_offset < end:
            found.append(replace(each, split=replace(each.split, stop_offset=end)))
    return found


def _from_copy(
    partition: SourcePartition,
    known: SourceState,
    copy: LogBounds | None,
    targets: Targets | None,
) -> list[PlannedSplit]:
    """A split of what a copy has after the committed end; none when it has nothing of it.

    That its end is lower, or its start is higher, says nothing about the log.
    """
    if copy is None or not copy.start_offset <= known.end < copy.end_offset:
        return []
    stop = None
    if targets is not None:
        stop = min(targets.get(partition, copy.end_offset), copy.end_offset)
        if known.end >= stop:
            return []
    epoch = known.end_epoch
    split = Split(
        partition,
        known.end,
        stop,
        epoch,
        new_leader=epoch is not None,
        origin=known.origin,
        missing=known.missing,
    )
    return [PlannedSplit(split, known.end)]


def readable_start(fold: Fold, partition: SourcePartition, place: LogBounds) -> int:
    """First offset to read of a source partition that the fold knows.

    Raises:
        OffsetsLostError: The log starts after the committed end or ends before it.
    """
    known = fold.sources[partition.topic, partition.partition]
    if known.cluster_id == LAKE_CLUSTER:
        _check_rows_stay(partition, known, place)
    evidence = {
        "committed_end": known.end,
        "log_start": place.start_offset,
        "log_end": place.high_watermark,
        "generation": known.generation,
    }
    if known.end > place.high_watermark:
        raise _lost(
            fold,
            partition,
            f"the log ends at {place.high_watermark}, the committed end is {known.end}: "
            "it was truncated",
            hint="an unclean leader election or a restored broker; rows in the table are safe, "
            "but the log no longer continues them",
            evidence=evidence,
            reset="--to latest --accept-doubles",
        )
    if place.start_offset <= known.end:
        return known.end
    if not known.has_data and known.how in ("earliest", "discovered"):
        # Nothing was promised below the first readable offset: a counted gap.
        return place.start_offset
    lost = place.start_offset - known.end
    raise _lost(
        fold,
        partition,
        f"the log starts at {place.start_offset}, the committed end is {known.end}: "
        f"{lost} offsets were deleted before they were read",
        hint="raise the topic's retention; the lost range must be accepted by an operator",
        evidence={**evidence, "offsets_lost": lost},
        reset="--to earliest --accept-gap",
    )


def _check_rows_stay(partition: SourcePartition, known: SourceState, place: LogBounds) -> None:
    """Refuse a table of others that has removed rows since its reading began."""
    where, ids = str(partition), place.state_ids
    if place.removed_slot > known.newest_slot:
        raise rows_removed(where, place.removed_slot, ids, known.end)
    if known.end > place.high_watermark:
        what = f"it has {place.high_watermark:,} rows, {known.end:,} were read before"
        read = known.newest_slot if known.end_epoch is None else known.end_epoch
        raise rolled_back(where, read, ids, what)


def with_way_out(
    fold: Fold, partition: SourcePartition, failure: OffsetsLostError
) -> OffsetsLostError:
    """A task's loss with the command that resolves it.

    Called for a log that was truncated and has grown again: its bounds show nothing of that.

    Args:
        fold: State of the ledger.
        partition: Which log.
        failure: With `cut_at` in its evidence where the leader has said it.
    """
    known = fold.sources[partition.topic, partition.partition]
    cut_at = failure.evidence.get("cut_at")
    rest = "the rows that came in their place were not read. Read them too (rows that producers "
    reset = f"--to {cut_at} --accept-doubles"
    hint = f"rows in the table are safe; {rest}have sent again are then there twice)"
    if cut_at is None:
        reset = f"--to {known.end} --accept-gap"
        hint = "rows in the table are safe; it is unknown which rows below were read"
    evidence = {**failure.evidence, "generation": known.generation}
    return _lost(fold, partition, failure.message, hint=hint, evidence=evidence, reset=reset)


def _lost(
    fold: Fold,
    partition: SourcePartition,
    message: str,
    *,
    hint: str,
    evidence: Mapping[str, object],
    reset: str,
) -> OffsetsLostError:
    """The error with the command that resolves it: first as a preview, then with --execute."""
    route, place = _named(fold, partition)
    command = f"sluiceway offsets reset JOB{route} {place} {reset} --reason TEXT"
    error = OffsetsLostError(message, where=str(partition), hint=f"{hint}: `{command}`")
    look = f"sluiceway offsets show JOB{route}"
    error.with_report(evidence, (look, command, f"{command} --execute"))
    return error


_LOOKS = 5
_LEAST_LOOKS = 3
_MOST_SHARE = 0.25


class EpochPace:
    """The pace of one route. Owned by its session, used by one thread.

    An epoch takes longer than its tasks read: they have to begin, close their files and answer.
    Reading is cut by that much, as measured in the epochs before, so that commits follow each other
    by the interval. A quarter of it is the most, so that a slow store leaves time to read.

    Args:
        interval_s: Seconds from one commit to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._reported_s = interval_s
        self._rests_s: deque[float] = deque(maxlen=_LOOKS)

    def task_plans(self, planned: PlannedEpoch) -> dict[int, TaskPlan]:
        """The plan of each task. Called once the splits are dealt out."""
        self._reported_s = self._interval_s - self._rest_s()
        return planned.task_plans(self._reported_s)

    def set_answered(self, planned: PlannedEpoch) -> None:
        """The tasks that got the last plans have answered."""
        planned.answered = time.monotonic()
        rest_s = planned.answered - planned.started - self._reported_s
        # Tasks that had nothing more to read say nothing about it.
        if rest_s > 0:
            self._rests_s.append(rest_s)

    def _rest_s(self) -> float:
        if len(self._rests_s) < _LEAST_LOOKS:
            return 0.0
        return min(statistics.median(self._rests_s), self._interval_s * _MOST_SHARE)
