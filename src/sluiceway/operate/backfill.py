"""`backfill --dry-run`: what would be read again, and what rows it would give. Changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.audit.open_table import OpenLedger
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.route.clients import open_sink, open_source
from sluiceway.route.registry_columns import registry_columns
from sluiceway.route.route_plan import LedgerTerm, table_plan
from sluiceway.types.log_key import LogKey
from sluiceway.upkeep.partition_bodies import why_not_swapped
from sluiceway.upkeep.rereading import LostRange, Rereading


@dataclass(frozen=True, slots=True)
class RangeToRead:
    """Offsets `[start, end)` of a source partition."""

    topic: str
    partition: LogKey
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedBackfill:
    """What a backfill would do now.

    Attributes:
        replayed: Dirty rows that were replayed and are read again with the ranges.
        lost: What the broker does not have any more: with any of it nothing is done.
        rows_before: Rows that the prefix has.
        counts: Where the rows go that are read; None where something is lost.
    """

    ranges: tuple[RangeToRead, ...]
    replayed: int
    lost: tuple[LostRange, ...]
    rows_before: int
    counts: SwapCounts | None
    dirty_reasons: dict[str, int]


def foresee(config: RouteConfig, ledger: OpenLedger, prefix: str) -> PlannedBackfill:
    """Read what made a prefix, and count the rows.

    Args:
        config: The route.
        ledger: Its ledger, read to the tail.
        prefix: Folder of a partition or above several.

    Raises:
        WrongUsageError: The rows of this prefix can never be replaced.
        SluicewayError: Ledger, broker or table cannot be read.
    """
    fold = ledger.fold
    why = why_not_swapped(fold, prefix)
    if why:
        raise WrongUsageError(f"its rows cannot be replaced: {why}", where=prefix)
    config = registry_columns(config)
    uuid = fold.first_fence.ledger if fold.first_fence is not None else ""
    sink, source = open_sink(config), open_source(config)
    try:
        plan = table_plan(config, sink.open(), LedgerTerm(uuid, fold.term, ledger.log.layout))
        reading = Rereading(source, lambda: plan, uuid)
        history = reading.history(ledger.log, prefix, fold.next_seq)
        lost = reading.lost(history)
        made = None if lost else reading.read(history, prefix, "")
    finally:
        sink.close()
        source.close()
    return PlannedBackfill(
        ranges=tuple(
            RangeToRead(topic, partition, each.start, each.end)
            for (topic, partition), ranges in sorted(history.ranges.items())
            for each in ranges
        ),
        replayed=sum(span.stop - span.start for span in history.spans),
        lost=tuple(lost),
        rows_before=fold.rows_below(prefix),
        counts=None if made is None else made.counts,
        dirty_reasons={} if made is None else made.dirty_reasons,
    )


def offsets_of(ranges: Sequence[RangeToRead]) -> int:
    """How many offsets there are in all."""
    return sum(each.end - each.start for each in ranges)
