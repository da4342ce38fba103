"""Wrong variants of partitions that move, close, are announced or expire.

In most of them the fold tests nothing either: it would halt, and hide what goes wrong then.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from sluiceway.errors import SluicewayError
from sluiceway.followers import desired
from sluiceway.followers.files import Publisher
from sluiceway.followers.moved_partitions import MovedPartitions, OldFolder
from sluiceway.ledger import placing
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix, FoldState, PartitionState
from sluiceway.ledger.garbage import Decided, Decision, Staged
from sluiceway.ledger.partition_records import ReadyCause, ReadyRecord, ReplaceRecord
from sluiceway.ledger.places import moved_prefix
from sluiceway.ledger.records import DataRecord
from sluiceway.route import route_start
from sluiceway.route.committer import EpochCommitter
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_context import RouteContext
from sluiceway.route.side_records import put_requested
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.upkeep import partition_bodies, replacing
from sluiceway.upkeep.record_queue import Build, RecordQueue
from sluiceway.upkeep.replacing import Rewrite, Staging


def placed_as_planned(record: DataRecord, fold: Fold) -> DataRecord:
    """Files keep the folder that they were planned with, wherever the partition is by then."""
    return replace(placing.placed(record, fold), files=record.files)


def replace_what_was_read(
    fold: Fold, intent: int, live: Sequence[FileRecord], added: Iterable[FileRecord]
) -> ReplaceRecord | None:
    """What has come since it was read is left behind."""
    opened = fold.intents.get(intent)
    if opened is None:
        return None
    state = replace(fold.partitions[opened.partition], files=len(live))
    as_read = replace(fold, partitions={**fold.partitions, opened.partition: state})
    return partition_bodies.replace_body(as_read, intent, live, added)


def rewrite_from_the_first(works: Sequence[Any], rewrite: Rewrite) -> None:
    """All of a group are rewritten from the files of the first one."""

    def crossed(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        made = rewrite([replace(each, live=staged[0].live) for each in staged])
        return [
            one if isinstance(one, SluicewayError) else _valued(one, each.live[0].values)
            for each, one in zip(staged, made, strict=True)
        ]

    _REWRITE_ALL(works, crossed)


_REWRITE_ALL = replacing._rewrite_all


def _valued(files: Sequence[FileRecord], values: tuple[str | None, ...]) -> list[FileRecord]:
    return [replace(file, values=values) for file in files]


def take_any_rows(work: Any, added: Sequence[FileRecord]) -> None:
    """They are not counted."""
    work._added = list(added)
    work._record_queue.log.storage.sync_folder(work.folder)


def check_the_first(
    record_queue: RecordQueue, works: Sequence[Any], build_of: Callable[[Any], Build]
) -> None:
    """Whether files have come is looked at for the first of a group, and holds for all of it."""
    first = next((work for work in works if work.is_open), None)

    def build(work: Any) -> Build:
        if work is first:
            return build_of(work)

        def unchecked(fold: Fold) -> ReplaceRecord | None:
            work._state = replace(fold.partitions[work.partition])
            body = replace_what_was_read(fold, work._seq, work._live, work._added)
            work._body = body
            return body

        return unchecked

    _PUT_REPLACES(record_queue, works, build)


_PUT_REPLACES = replacing._put_replaces


def same_folder(partition: str, seq: int, uuid: str) -> str:
    """One folder for all moves of a partition."""
    del seq, uuid
    return f"{moved_prefix(partition)}0-{'0' * 32}/{partition.rpartition('/')[2]}"


def ready_when_asked(
    fold: Fold, prefix: str, at_us: int | None = None, because: ReadyCause | None = None
) -> ReadyRecord | None:
    """Announce what the planner has closed, though epochs of before are in flight."""
    known = fold.closed.get(prefix, ClosedPrefix(max(fold.next_seq - 1, 0)))
    closed = replace(fold, closed={**fold.closed, prefix: known})
    return partition_bodies.ready_body(closed, prefix, at_us, because)


def closed_or_not(fold: FoldState, prefix: str, where: str) -> ClosedPrefix:
    """The fold takes READY for what is open."""
    del where
    below = [state.last_seq for state in fold.below(prefix)]
    return fold.closed.setdefault(prefix, ClosedPrefix(max([0, *below])))


def serve_before_publishing(held: OwnedRoute, timeout_s: float) -> bool:
    """Background work has its records put before the epoch's files have their names."""
    fold = held.owned.fold
    newest = max(fold.unpublished, default=0)
    if isinstance(fold.unpublished.get(newest), DataRecord):
        before, fold.published_through = fold.published_through, fold.next_seq
        put_requested(held, lambda _: None)
        fold.published_through = before
    return _WAIT_PUBLISHED(held, timeout_s)


_WAIT_PUBLISHED = OwnedRoute.wait_published


def recover_from_the_start(context: RouteContext, committer: EpochCommitter) -> None:
    """All records are published again, whatever has become of their files."""
    owned = context.state.owned
    publisher = Publisher(owned.storage, owned.layout, context.log)
    for record, _ in owned.log.records():
        if isinstance(record.body, DataRecord):
            publisher.publish(record.body)
    _RECOVER(context, committer)


_RECOVER = route_start.recover


def remove_at_once(
    self: MovedPartitions,
    moved: Sequence[DesiredPartition],
    old: Sequence[OldFolder],
    through: int,
) -> None:
    """Old folders go as soon as the REPLACE has its slot."""
    _TAKE(self, moved, old, through)
    for each in list(self._waiting.values()):
        self._remove(each, cast("Any", _AsWanted()))


class _AsWanted:
    """A metastore in which everything is as it should be."""

    def shown(self, wanted: Sequence[DesiredPartition]) -> dict[tuple[str, ...], str]:
        return {each.values: each.location for each in wanted if each.exists}


_TAKE = MovedPartitions.add


def always_shown(*_: object) -> bool:
    """Readers are sent to the new folder, whatever the metastore says."""
    return True


def shown_for_ever(
    fold: Any, layout: Any, state: PartitionState, *, seen: bool = True
) -> DesiredPartition:
    """A partition that was let go is still wanted."""
    del seen
    return replace(_DESIRED(fold, layout, state), exists=True)


_DESIRED = desired.desired_partition


def intent_over(decided: Decided, item: Staged) -> Decision:
    """Staged files of background work go while it goes on."""
    del decided
    return Decision(item.name, removable=True, reason="it is old")
