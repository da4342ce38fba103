"""`backfill --dry-run`: what would be read again, and what rows it would give. Changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sluiceway.audit.open_table import OpenLedger, open_place
from sluiceway.audit.unit_preview import count_unit
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.route.clients import open_sink, open_source
from sluiceway.route.registry_columns import registry_columns
from sluiceway.route.route_plan import LedgerTerm, table_plan
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage
from sluiceway.types.log_key import LogKey
from sluiceway.upkeep.backfiller import refuse_open
from sluiceway.upkeep.partition_bodies import why_not_swapped
from sluiceway.upkeep.partition_requests import RowOrigin
from sluiceway.upkeep.prefix_history import PrefixHistory
from sluiceway.upkeep.rereading import LostRange, ReadSoFar, Rereading, with_kept
from sluiceway.worker.backfill_task import BackfillFiles

MOST_FILES = 10_000


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


def foresee(
    config: RouteConfig,
    ledger: OpenLedger,
    prefix: str,
    origin: RowOrigin,
    names: Sequence[str] = (),
) -> PlannedBackfill:
    """Read what would be read for a prefix, and count the rows.

    Args:
        config: The route.
        ledger: Its ledger, read to the tail.
        prefix: Folder of a partition or above several.
        origin: What is read.
        names: As in a `BackfillRequest`.

    Raises:
        WrongUsageError: The rows of this prefix can never be replaced.
        RequestRefusedError: Its rows cannot be replaced by these now.
        SluicewayError: Ledger, broker or table cannot be read.
    """
    fold = ledger.fold
    why = why_not_swapped(fold, prefix)
    if why:
        raise WrongUsageError(f"its rows cannot be replaced: {why}", where=prefix)
    if config.units is None:
        refuse_open(fold, prefix, origin)
    config = registry_columns(config)
    uuid = fold.first_fence.ledger if fold.first_fence is not None else ""
    sink, source = open_sink(config), open_source(config)
    try:
        plan = table_plan(config, sink.open(), LedgerTerm(uuid, fold.term, ledger.log.layout))
        if config.units is not None and origin is RowOrigin.INPUTS:
            counts = count_unit(config, plan, prefix)
            return PlannedBackfill((), 0, (), fold.rows_below(prefix), counts, {})
        refuse_open(fold, prefix, origin)
        reading = Rereading(source, lambda: plan, uuid, table=config.table)
        if origin is RowOrigin.OFFSETS:
            earlier = reading.earlier(ledger.log, prefix, fold.next_seq)
            rows = fold.rows_below(prefix)
            made = with_kept(reading.read(earlier, prefix, ""), rows)
            found = _ranges(earlier)
            return PlannedBackfill(found, 0, (), rows, made.counts, made.dirty_reasons)
        if origin is not RowOrigin.LEDGER:
            made = _made(reading, ledger, prefix, origin, names)
            rows = fold.rows_below(prefix)
            return PlannedBackfill((), 0, (), rows, made.counts, made.dirty_reasons)
        history = reading.history(ledger.log, prefix, fold.next_seq)
        lost = reading.lost(history)
        again = None if lost else reading.read(history, prefix, "")
    finally:
        sink.close()
        source.close()
    return PlannedBackfill(
        ranges=_ranges(history),
        replayed=sum(span.stop - span.start for span in history.spans),
        lost=tuple(lost),
        rows_before=fold.rows_below(prefix),
        counts=None if again is None else again.counts,
        dirty_reasons={} if again is None else again.dirty_reasons,
    )


def _ranges(history: PrefixHistory) -> tuple[RangeToRead, ...]:
    return tuple(
        RangeToRead(topic, partition, each.start, each.end)
        for (topic, partition), ranges in sorted(history.ranges.items())
        for each in ranges
    )


def _made(
    reading: Rereading, ledger: OpenLedger, prefix: str, origin: RowOrigin, names: Sequence[str]
) -> BackfillFiles:
    if origin is RowOrigin.FILES:
        return reading.read_files(names, prefix, "")
    if origin is RowOrigin.TABLE:
        return reading.read_table(names[0], prefix, "")[0]
    read = reading.inputs(ledger.log, ReadSoFar.of(ledger.fold), prefix)
    return reading.read_inputs(read, "")


def files_of(config: RouteConfig, pattern: str) -> tuple[str, ...]:
    """Files on the table's store whose names fit a pattern, in name order.

    Args:
        config: The route.
        pattern: Absolute, or a URI; `*`, `?` and `[...]` in the last part only.

    Raises:
        WrongUsageError: There is none, they are too many, or the pattern is of another store.
    """
    home = open_place(config)
    storage, path = open_storage(normalise_location(pattern), config.stores)
    folder, _, name = path.rpartition("/")
    if type(storage) is not type(home.storage) or "*" in folder:
        raise WrongUsageError(
            "expected files of one folder on the table's own store", where=pattern
        )
    found = sorted(
        status.path
        for status in storage.list(folder)
        if not status.is_dir and fnmatchcase(status.path.rpartition("/")[2], name)
    )
    if not found or len(found) > MOST_FILES:
        text = f"there are {len(found)} such files" if found else "there is no such file"
        raise WrongUsageError(text, where=pattern, hint=f"from 1 to {MOST_FILES} are read")
    return tuple(found)
