"""Some records of a route as its table would get them. Nothing is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sluiceway.audit.planned_route import PlannedRoute, PlannedStart
from sluiceway.audit.sql_preview import try_sql
from sluiceway.errors import NotInThisVersionError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.route.columns_to_add import ColumnsToAdd, merged_fields, state_with
from sluiceway.route.route_plan import LedgerTerm, table_plan
from sluiceway.sinks.contract import ColumnToHave, TableState
from sluiceway.sinks.files.field_ids import FIELD_IDS
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.sources.contract import SourceBatch, Split
from sluiceway.sources.topic_sample import read_splits
from sluiceway.types.log_key import LogKey
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.pipeline import RowPipeline, Written
from sluiceway.worker.plan import (
    LatePlace,
    ObservedField,
    Place,
    PlannedMetaColumn,
    RoutePlan,
    RowShare,
    TaskPlan,
)
from sluiceway.worker.row_files import NoFiles
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind

_READ_S = 120.0
_LOOKS = 5
"""How often a table may get columns: each pass may show fields that others contain."""
# The origin of every row is shown, whatever meta columns the table has.
_ORIGIN = {name: f"_sluiceway_{name}" for name in ("topic", "partition", "offset")}
_CHANGES = {
    RowKind.IMAGE: "row",
    RowKind.DELETE: "delete",
    RowKind.FIRST: "row",
    RowKind.FIRST_GONE: "left out",
    RowKind.TRUNCATE: "truncate",
    RowKind.FIRST_LOST: "left out",
}


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row that would be written.

    Attributes:
        folder: Folder of its partition, below the table's; empty without partition columns.
        values: Column -> value, as JSON has it.
        change: What it does to the row of its key, a word of `_CHANGES`; None in a table without a
            key.
    """

    topic: str
    partition: LogKey
    offset: int
    folder: str
    values: Mapping[str, Any]
    change: str | None = None


@dataclass(frozen=True, slots=True)
class PreviewDirty:
    """A record that would be kept as a dirty row; names as in `dirty show`."""

    topic: str
    partition: LogKey
    offset: int
    timestamp_ms: int | None
    stage: str
    reason: str
    path: str
    message: str
    value: Any


@dataclass(frozen=True, slots=True)
class Preview:
    """The outcome of the records.

    Attributes:
        counts: Counts of the records by outcome.
        columns: Columns of the table's files, in order.
        rows: By source partition and offset.
        dirty: Likewise.
        reasons: Reason of dirty rows -> how many.
        folders: Folder of a partition -> its rows.
        unfilled: Columns that no row fills although `unread` fields exist.
        unread: Fields that no column reads.
        added: Columns that the table would get for such fields, with their types.
        refused: Such fields that would get none, and why.
        tables: Tables that the run would make for values of the records (`route_by`).
        shared: Whether other routes of the same `route_by` have the rows that are left out.
        unit: The unit that the SQL ran over; empty for records. Its rows have the unit in place of
            a source partition, and their number in the result in place of an offset.
    """

    counts: RowCounts
    columns: tuple[str, ...]
    rows: tuple[PreviewRow, ...]
    dirty: tuple[PreviewDirty, ...]
    reasons: Mapping[str, int]
    folders: Mapping[str, int]
    unfilled: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    shared: bool = False
    unit: str = ""


NOTHING = Preview(NO_ROWS, (), (), (), {}, {})
"""The preview of no records."""


@dataclass(slots=True)
class _KeptRows(NoFiles):
    """Keeps in memory what would be written to files."""

    clean: list[tuple[Place, pa.RecordBatch]] = field(default_factory=list)
    dirty: list[pa.RecordBatch] = field(default_factory=list)

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """See `RowFiles`."""
        del shared
        self.clean.append((place, rows))

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""
        self.dirty.append(rows)


def preview_rows(route: PlannedRoute, splits: Sequence[Split]) -> Preview:
    """Read records and turn them into rows, by the code of a task.

    Rows are judged without the ledger's watermark: none of them is late because its hour was
    closed.

    Args:
        route: As a start would find it.
        splits: What to read, with stop offsets.

    Raises:
        TableMismatchError: The table's columns cannot be filled as the job file says.
        JobFileError: The declared columns cannot be filled.
        SluicewayError: A server does not answer or refuses.
    """
    return preview_batches(route, splits, read_splits(route.config.source, list(splits)))


def preview_batches(
    route: PlannedRoute, splits: Sequence[Split], batches: Iterable[SourceBatch]
) -> Preview:
    """As `preview_rows`, for records that are read already or come from elsewhere.

    Args:
        route: As a start would find it.
        splits: The splits of these records.
        batches: One batch for each split.

    Raises:
        NotInThisVersionError: The route computes whole units.
    """
    if splits and route.config.units is not None:
        raise NotInThisVersionError(
            "a route with `mode: recompute` makes rows of whole units; there is no preview of them",
            where=route.config.route,
            hint="run its SQL in Spark over the files of a unit: `sluiceway files JOB` lists them",
        )
    if not splits:
        return NOTHING
    records = list(batches)
    state, added, refused = route.table.state, dict[str, ColumnToHave](), dict[str, str]()
    share, tables = _share(route), tuple[str, ...]()
    for _ in range(_LOOKS):
        plan, written, kept = _read(route, state, share, splits, records)
        if share is not None and len(written.tables) > share.room:
            # As the run does: rows of tables for which there is no room are dirty.
            tables = written.tables[: share.room]
            share = replace(share, known=share.known | {*tables}, room=0)
            plan, written, kept = _read(route, state, share, splits, records)
        elif written.tables:
            tables = written.tables
        wanted = _to_add(route, state, plan, written.unknown_fields)
        refused = {ObservedField(*at, type="").name: why for at, why in wanted.refused.items()}
        if not wanted.desired:
            break
        # As the run does: the table gets columns, and the records are read again.
        further = [each.column for each in wanted.desired.values()]
        added |= {each.name: each for each in further}
        state = state_with(state, further, declared=route.config.columns is not None)
    names = tuple(rule.name for rule in plan.partitions)
    rows = sorted(_rows(kept.clean, names), key=_place)
    dirty = sorted(_dirty(kept.dirty), key=_place)
    folders: dict[str, int] = {}
    for row in rows:
        folders[row.folder] = folders.get(row.folder, 0) + 1
    unread = tuple(each.name for each in written.unknown_fields)
    told = tuple(f"{each.name} {each.type}" for each in added.values())
    return Preview(
        counts=written.counts,
        columns=tuple(rows[0].values) if rows else (),
        rows=tuple(rows),
        dirty=tuple(dirty),
        reasons=written.dirty_reasons,
        folders=dict(sorted(folders.items())),
        unfilled=(written.unfilled or ()) if rows and unread else (),
        unread=unread,
        added=told,
        refused=refused,
        tables=tables,
        shared=share is not None,
    )


def _share(route: PlannedRoute) -> RowShare | None:
    """The route's share of a `route_by`; the rest knows its tables, as in an epoch."""
    share = route.config.share
    if share is None or share.table is not None:
        return share
    known = ValueTableLog(route.storage, route.layout)
    if route.table.home:
        known.read_on()
    room = max(0, route.config.max_tables - len(known.tables))
    return replace(share, known=frozenset(known.tables), room=room)


def _read(
    route: PlannedRoute,
    state: TableState,
    share: RowShare | None,
    splits: Sequence[Split],
    batches: Sequence[SourceBatch],
) -> tuple[RoutePlan, Written, _KeptRows]:
    """Turn records into rows, for the table as it is or would be."""
    term = LedgerTerm("preview", 0, route.layout)
    plan = table_plan(route.config, state, term)
    kinds = {"partition": "partition_text"} if plan.text_keys else {}
    origin = tuple(PlannedMetaColumn(kinds.get(part, part), name) for part, name in _ORIGIN.items())
    # Nothing is written, and ids of table columns would be expected of the added columns, too.
    settings = tuple(each for each in plan.files.settings if each[0] != FIELD_IDS)
    files = replace(plan.files, settings=settings)
    task = TaskPlan(
        replace(plan, meta=(*plan.meta, *origin), files=files, share=share),
        0,
        0,
        tuple(splits),
        _READ_S,
    )
    kept = _KeptRows()
    if route.config.sql is not None:
        return plan, _read_by_sql(route.config, route.config.sql, task, batches, kept), kept
    writes = WriteBehind(TaskMemory(plan.memory_bytes))
    pipeline = RowPipeline(task, route.storage, writes.lane(), kept)
    try:
        for batch in batches:
            pipeline.write([batch])
        written = pipeline.close()
    except BaseException:
        pipeline.abort()
        raise
    finally:
        writes.close()
    return plan, written, kept


def _read_by_sql(
    config: RouteConfig,
    rule: SqlRule,
    task: TaskPlan,
    batches: Sequence[SourceBatch],
    kept: _KeptRows,
) -> Written:
    """As a task would write them, after the SQL."""
    found = try_sql(config, rule, task, batches)
    for values, late, rows in found.rows:
        kept.write(LatePlace(values) if late else values, rows)
    for rows in found.dirty:
        kept.write_dirty(rows)
    first = found.answers[0]
    return Written(
        attempt="",
        files=(),
        dirty_files=(),
        counts=found.counts,
        dirty_reasons=found.reasons,
        notes=first.notes,
        totals=(),
        timings_ms={},
        dirty_samples=(),
        unknown_fields=first.unknown_fields,
        unfilled=first.unfilled,
    )


def _to_add(
    route: PlannedRoute, state: TableState, plan: RoutePlan, seen: Iterable[ObservedField]
) -> ColumnsToAdd:
    """The columns that the run would give its table for fields that no column reads."""
    found = ColumnsToAdd(route.config, plan, state)
    if plan.samples == "dirty":
        found.add(merged_fields(seen), ())
    return found


def _place(row: PreviewRow | PreviewDirty) -> tuple[str, LogKey, int]:
    return row.topic, row.partition, row.offset


def _rows(
    clean: Sequence[tuple[Place, pa.RecordBatch]], names: Sequence[str]
) -> Iterator[PreviewRow]:
    for place, batch in clean:
        late = isinstance(place, LatePlace)
        values = place.values if isinstance(place, LatePlace) else place
        folder = partition_folder(tuple(names), values)
        for row in batch.to_pylist():
            topic, partition, offset = (row.pop(name) for name in _ORIGIN.values())
            kind = row.pop(KIND_COLUMN, None)
            shown = {name: plain_value(value) for name, value in row.items()}
            change = None if kind is None else _CHANGES[RowKind(kind)]
            named = f"{folder} (late)" if late else folder
            yield PreviewRow(topic, partition, offset, named, shown, change)


def _dirty(batches: Sequence[pa.RecordBatch]) -> Iterator[PreviewDirty]:
    for batch in batches:
        for row in batch.to_pylist():
            given = {name: row[name] for name in PreviewDirty.__slots__ if name != "value"}
            yield PreviewDirty(**given, value=plain_value(row["value"]))


def plain_value(value: Any) -> Any:
    """A value of a row as JSON has it: exact numbers, times and bytes as text."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"hex": value.hex()}
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict():
            return {str(key): plain_value(each) for key, each in value.items()}
        case list() | tuple():
            return [plain_value(each) for each in value]
        case _:
            return value


def newest_splits(starts: Sequence[PlannedStart], records: int) -> list[Split]:
    """The last records of each log, as many as asked for in all."""
    return _shared(starts, records, lambda each, share: max(each.log_start, each.log_end - share))


def next_splits(starts: Sequence[PlannedStart], records: int) -> list[Split]:
    """The records that a run would begin with."""
    return _shared(starts, records, lambda each, _: max(each.offset, each.log_start))


def oldest_splits(starts: Sequence[PlannedStart], records: int) -> list[Split]:
    """The first records of each log."""
    return _shared(starts, records, lambda each, _: each.log_start)


def _shared(starts: Sequence[PlannedStart], records: int, begin: Any) -> list[Split]:
    """Splits of all logs; where one log has too few records, the others fill up."""
    splits, left = [], records
    by_size = sorted(starts, key=lambda each: each.log_end - begin(each, records))
    for position, each in enumerate(by_size):
        share = -(-left // (len(by_size) - position))
        first = begin(each, share)
        if each.base >= 0:
            first = max(first, each.offset)
        stop = min(each.log_end, first + share)
        if first < stop:
            splits.append(Split(each.partition, first, stop, newest_slot=each.base))
            left -= stop - first
    return sorted(splits, key=lambda split: split.partition)
