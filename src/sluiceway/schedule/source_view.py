"""What the brokers say now, asked once for all routes of a connection."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluiceway.errors import Fatal, SourceUnavailableError, TopicNotFoundError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.sources.contract import (
    LAKE_CLUSTER,
    DiscoveredPartition,
    HandOver,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)


def _now_us() -> int:
    return process_clock().now_us()


@dataclass(frozen=True, slots=True)
class SourceView:
    """Partitions and log ends of the topics asked for, read at one moment.

    Attributes:
        by_topic: Partitions of each topic that the cluster has, in order.
        bounds: Bounds of these partitions; a partition without a leader that answers is left out.
        missing: Topic -> why it is not there.
        read_at_us: When the brokers were asked, by this driver's clock, which does not step.
        copies: For partitions not in `bounds`: what can be read of them all the same. It
            says nothing of where a log ends; see `SourceClient.copies`.
    """

    by_topic: Mapping[str, tuple[DiscoveredPartition, ...]]
    bounds: Mapping[SourcePartition, LogBounds]
    missing: Mapping[str, Fatal]
    read_at_us: int = field(default_factory=_now_us)
    copies: Mapping[SourcePartition, LogBounds] = field(default_factory=dict)

    def present(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The topics of a route that the cluster has."""
        return tuple(topic for topic in topics if topic not in self.missing)

    def has(self, one: SourcePartition) -> bool:
        """Whether the cluster has a partition of that name."""
        return any(found.partition == one for found in self.by_topic.get(one.topic, ()))

    @property
    def is_of_lakes(self) -> bool:
        """Whether its logs are Iceberg tables. One source has answered: all of them are, or none.

        Asked for each route of a job in each epoch, so it looks at the first log alone.
        """
        first = next((each for listed in self.by_topic.values() for each in listed), None)
        return first is not None and first.identity.cluster_id == LAKE_CLUSTER

    def of(self, topics: Iterable[str]) -> tuple[DiscoveredPartition, ...]:
        """Partitions of a route's topics.

        Raises:
            TopicNotFoundError: The cluster does not have one of them.
        """
        found: list[DiscoveredPartition] = []
        for topic in topics:
            if topic in self.missing:
                raise self.missing[topic]
            found += self.by_topic[topic]
        return tuple(found)


def view_of_route(view: SourceView, fold: Fold) -> SourceView:
    """A view with the logs that a route reads of Iceberg tables. Others stay as they are.

    Such a table is one log, partition 0, until a snapshot that removes rows is passed over. Then
    the next one begins, whose key is that snapshot's number (`passed_over`).

    Args:
        view: What was asked for all routes.
        fold: Ledger of one of them.
    """
    if not view.is_of_lakes:
        return view
    by_topic, bounds = dict(view.by_topic), dict(view.bounds)
    for found in (each for listed in view.by_topic.values() for each in listed):
        topic, base = found.partition.topic, found.newest_slot
        keys = [key for name, key in fold.sources if name == topic and isinstance(key, int)]
        one = SourcePartition(topic, max(keys, default=0))
        if keys:
            base = fold.sources[topic, one.partition].newest_slot
        by_topic[topic] = (replace(found, partition=one, newest_slot=base),)
        place = bounds.pop(found.partition, None)
        if place is not None:
            left = tuple(each for each in place.removals if each.slot > base)
            end = left[0].end if left else place.end_offset
            bounds[one] = replace(place, end_offset=end, high_watermark=end, removals=left)
    return replace(view, by_topic=by_topic, bounds=bounds)


def passed_over(fold: Fold, view: SourceView) -> HandOver | None:
    """Where a table is read on after a snapshot that has removed rows; None before that is due.

    Args:
        fold: State of the ledger.
        view: As `view_of_route` has it.
    """
    if not view.is_of_lakes:
        return None
    for found in (each for listed in view.by_topic.values() for each in listed):
        one = found.partition
        known, place = fold.sources.get((one.topic, one.partition)), view.bounds.get(one)
        removals = () if place is None else place.removals
        if known is None or known.retired or not removals or known.end != removals[0].end:
            continue
        gone = removals[0]
        reason = f"snapshot {gone.slot} removed {gone.removed:,} rows and added {gone.added:,}"
        then = replace(
            found, partition=SourcePartition(one.topic, gone.slot), newest_slot=gone.slot
        )
        return HandOver(known.topic_id, gone.slot, ((then, gone.start),), reason)
    return None


def read_source_view(source: SourceClient, topics: Iterable[str]) -> SourceView:
    """Ask a cluster about topics. Called before and after the tasks of each epoch.

    Raises:
        SourceUnavailableError: No broker answers, or no leader and no copy.
    """
    # Before they answer: what comes while they do is not in their answers.
    read_at_us = _now_us()
    wanted = sorted(set(topics))
    if not wanted:
        return SourceView({}, {}, {})
    missing: dict[str, Fatal] = {}
    try:
        discovered = source.discover(wanted)
    except TopicNotFoundError:
        discovered, missing = _without_missing(source, wanted)
    except Fatal:
        # A right that was revoked for one topic says nothing of the others.
        each, missing = _one_by_one(source, wanted)
        discovered = tuple(each)
    by_topic: dict[str, list[DiscoveredPartition]] = {
        topic: [] for topic in wanted if topic not in missing
    }
    for found in discovered:
        by_topic[found.partition.topic].append(found)
    bounds, copies = _ends(source, [found.partition for found in discovered])
    grouped = {topic: tuple(each) for topic, each in by_topic.items()}
    return SourceView(grouped, bounds, missing, read_at_us, copies)


def read_route_view(source: SourceClient, topics: Iterable[str], fold: Fold) -> SourceView:
    """Ask a cluster about the topics of one route; see `view_of_route`.

    Raises:
        SourceUnavailableError: As in `read_source_view`.
    """
    return view_of_route(read_source_view(source, topics), fold)


def _ends(
    source: SourceClient, partitions: Sequence[SourcePartition]
) -> tuple[Mapping[SourcePartition, LogBounds], Mapping[SourcePartition, LogBounds]]:
    """Bounds as leaders return them, and copies of the others."""
    if not partitions:
        return {}, {}
    try:
        bounds = source.bounds(partitions)
    except SourceUnavailableError:
        copies = source.copies(partitions)
        if not copies:
            raise
        return {}, copies
    left = [one for one in partitions if one not in bounds]
    return bounds, source.copies(left) if left else {}


def _without_missing(
    source: SourceClient, wanted: Sequence[str]
) -> tuple[tuple[DiscoveredPartition, ...], dict[str, Fatal]]:
    """Ask for all listed topics at once, for the others one by one: few are missing."""
    listed = set(source.list_topics())
    suspects = [topic for topic in wanted if topic not in listed]
    rest = [topic for topic in wanted if topic in listed]
    found, missing = _one_by_one(source, suspects)
    try:
        return (*(source.discover(rest) if rest else ()), *found), missing
    except TopicNotFoundError:
        more, gone = _one_by_one(source, rest)
        return (*more, *found), missing | gone


def _one_by_one(
    source: SourceClient, topics: Iterable[str]
) -> tuple[list[DiscoveredPartition], dict[str, Fatal]]:
    found: list[DiscoveredPartition] = []
    missing: dict[str, Fatal] = {}
    for topic in topics:
        try:
            found += source.discover([topic])
        except Fatal as error:
            missing[topic] = error
    return found, missing


def is_same_log(one: SourcePartition, known: SourceState, view: SourceView) -> bool:
    """Whether a name still stands for the log that the ledger knows: the same cluster and topic."""
    identities = {found.partition: found.identity for found in view.by_topic.get(one.topic, ())}
    return identities.get(one) == SourceIdentity(known.cluster_id, known.topic_id)


def undescribed(
    fold: Fold, bounds: Mapping[SourcePartition, LogBounds]
) -> tuple[SourcePartition, ...]:
    """Source partitions that are read and of which no leader says where they end, in order.

    They keep their committed ends, and hold the watermark: it is unknown what they have.
    """
    live = (key for key, known in sorted(fold.sources.items()) if not known.retired)
    return tuple(one for one in (SourcePartition(*key) for key in live) if one not in bounds)
