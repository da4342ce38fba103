"""Wrong variants of partitions that move, close, are announced or expire.

In most of them the fold tests nothing either: it would halt, and hide what goes wrong then.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sluiceway.job import partition_bodies, prepare
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.moved_partitions import MovedPartitions
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import FoldState
from sluiceway.ledger.live_files import removed_files
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import DataRecord, Record
from sluiceway.sinks.contract import DesiredPartition, TableSink


def placed_as_planned(record: DataRecord, fold: Fold) -> DataRecord:
    """Files keep the folder that they were planned with, wherever the partition is by then."""
    made = prepare.placed(record, fold)
    return replace(made, files=record.files)


def replace_unchecked(
    fold: Fold, intent: int, live: Sequence[Any], added: Sequence[Any]
) -> ReplaceRecord | None:
    """What has come since it was read is forgotten."""
    opened = fold.intents.get(intent)
    if opened is None:
        return None
    whole = replace(fold, partitions=dict(fold.partitions))
    state = whole.partitions[opened.partition]
    whole.partitions[opened.partition] = replace(state, files=len(live))
    body = partition_bodies.replace_body(whole, intent, live, added)
    return body and replace(body, removed=removed_files(live))


def take_replace_unchecked(fold: FoldState, body: ReplaceRecord, record: Record) -> None:
    """Nothing adds up, and nobody looks."""
    del fold, body, record


def abandon_nothing(held: HeldRoute) -> None:
    """What was begun under another driver is left open."""
    del held


def remove_at_once(moved: MovedPartitions, sink: TableSink) -> None:
    """Old folders go without a look at the metastore."""
    del sink
    for each in list(moved._waiting.values()):
        moved._remove(each.old)


def without_moved_files(patched: Callable[..., Any]) -> Callable[..., Any]:
    """Every call asks for what its own record has made, though others have followed."""

    def want(held: HeldRoute, since: int, *, anew: bool = False) -> None:
        del anew
        patched(held, since)

    return want


def never_moved(partitions: Sequence[DesiredPartition]) -> list[DesiredPartition]:
    """Where a partition was at first is where it is shown."""
    return [replace(each, location=each.first or each.location) for each in partitions]


def ready_when_closed(fold: Fold, prefix: str) -> Any:
    """Announce what the planner has closed, though epochs of before are in flight."""
    from sluiceway.ledger.fold_state import ClosedPrefix  # noqa: PLC0415

    known = fold.closed.get(prefix, ClosedPrefix(fold.next_seq - 1))
    ahead = replace(fold, closed={**fold.closed, prefix: known})
    return partition_bodies.ready_body(ahead, prefix)
