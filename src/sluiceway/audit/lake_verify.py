"""Checks of one route's lake table: property, snapshots and files against the ledger."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation, Snapshot

from sluiceway.audit.open_table import LedgerPlace, open_place, refuse_foreign_table
from sluiceway.audit.table_files import ListedTableFile, TableFiles
from sluiceway.audit.verify import VerifyReport
from sluiceway.errors import NotInThisVersionError, TableNotFoundError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.places import is_below
from sluiceway.ledger.records import DataRecord, RangeRecord, table_files
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.sinks.iceberg.identifier_key import identifier_names
from sluiceway.sinks.iceberg.publish.lake_table import LEDGER_PROPERTY
from sluiceway.sinks.iceberg.table_history import (
    SUMMARY_COMPACTION,
    SUMMARY_FROM,
    SUMMARY_LEDGER,
    SUMMARY_THROUGH,
    LastSnapshot,
    Lineage,
    lineage,
    read_through,
    record_hash,
)
from sluiceway.storage.locations import normalise_location, path_below
from sluiceway.storage.registry import open_storage

_KIND = "keys"


def check_keyed_rows(
    table: Any, config: RouteConfig, ranges: Iterable[RangeRecord], report: VerifyReport
) -> None:
    """Read the keys of a table, and which records its rows are from.

    Args:
        table: The table as its catalog has it.
        config: Config of a route with a key.
        ranges: Offset ranges that the slots in the table have read.
        report: Called with each problem.
    """
    if config.key is None:
        return
    # The table may have got columns since the route started.
    key = list(config.key.columns or identifier_names(table.metadata))
    names = {column.part: column.column for column in config.meta}
    wanted = [*key, names["offset"], *(names[k] for k in ("topic", "partition") if k in names)]
    rows = table.scan(selected_fields=tuple(dict.fromkeys(wanted)), case_sensitive=False).to_arrow()
    distinct = rows.group_by(key).aggregate([]).num_rows
    if distinct != rows.num_rows:
        twice = rows.num_rows - distinct
        report.add(_KIND, "table", f"{twice} rows have a key that another row has")
    if report.foreign:
        report.unchecked.append("offsets of the table's rows: it has foreign snapshots")
        return
    unread = _not_read(rows, names, ranges)
    if unread:
        report.add(_KIND, "table", f"{unread} rows are from offsets that no record has read")


def _not_read(rows: pa.Table, names: dict[str, str], ranges: Iterable[RangeRecord]) -> int:
    """Rows whose offset is in no range."""
    known = np.zeros(rows.num_rows, bool)
    offsets = rows[names["offset"]].to_numpy()
    spans: dict[tuple[str, object], list[tuple[int, int]]] = {}
    for each in ranges:
        spans.setdefault((each.topic, each.partition), []).append((int(each.start), int(each.end)))
    for (topic, partition), found in spans.items():
        of = pc.equal(rows[names["partition"]], partition)
        if "topic" in names:
            of = pc.and_(of, pc.equal(rows[names["topic"]], topic))
        mine = np.asarray(of)
        begin, end = min(start for start, _ in found), max(end for _, end in found)
        known |= mine & (offsets >= begin) & (offsets < end)
    return int((~known).sum())


_IDENTITY, _LAKE = "identity", "lake"


@dataclass(slots=True)
class _Ledger:
    """What the log says, slot by slot.

    Attributes:
        rows: Clean rows by slot.
        replaced: Rows that a SWAP has removed, by slot.
        files: Committed clean files by slot, at their final names next to the ledger.
        ranges: Offset ranges that slots have read.
        hashes: Hashes of the ledger's records.
    """

    fold: Fold = field(default_factory=Fold)
    rows: dict[int, int] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)
    files: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    ranges: dict[int, tuple[RangeRecord, ...]] = field(default_factory=dict)
    hashes: list[str] = field(default_factory=list)

    def rows_of(self, first: int, last: int) -> int:
        """Rows of slots `first` to `last`."""
        return sum(count for slot, count in self.rows.items() if first <= slot <= last)

    def rows_through(self, last: int) -> int:
        """Rows that are left of slots up to `last`."""
        replaced = sum(count for slot, count in self.replaced.items() if slot <= last)
        return self.rows_of(0, last) - replaced


def verify_lake(config: RouteConfig, *, deep: bool) -> VerifyReport:
    """Compare a route's ledger with its lake table. Changes nothing.

    Args:
        config: The route.
        deep: Also read the table whole: no offset twice, as many rows as the ledger has.

    Raises:
        LedgerMismatchError: Another job or route fills the table.
        LedgerCorruptError: The log is damaged.
        SluicewayError: Something could not be asked; nothing is concluded then.
    """
    place = open_place(config)
    refuse_foreign_table(place)
    report = VerifyReport(deep=deep, lake=True)
    ledger = _read(place, report)
    first = ledger.fold.first_fence
    catalog = open_catalog(dict(config.catalog.options), config.table.timeout_s)
    try:
        name = (config.table.database, config.table.table)
        table = catalog.load(name)
        if table is None or first is None:
            report.unchecked.append("the table has no ledger yet")
            return report
        held = table.metadata.properties.get(LEDGER_PROPERTY, "none")
        if held.partition("@")[0] != first.ledger:
            said = f"the property {LEDGER_PROPERTY} is {held}, the ledger is {first.ledger}"
            report.add(_IDENTITY, ".".join(name), said)
        through = read_through(table.metadata.properties, first.ledger, where=".".join(name))
        _check_through(table, through, ledger, report)
        # A snapshot of a keyed table has the last change of each key, not the rows of a slot.
        counted = config.key is None
        _check_snapshots(table, first.ledger, ledger, report, counted=counted)
        _check_files(table, config, report)
        _check_waiting(place, ledger, -1 if through is None else through.slot, report)
        report.unchecked.append("the broker's topics and log ends: not looked at for lake tables")
        if deep and report.verified and config.key is not None:
            slots = range(0 if through is None else through.slot + 1)
            ranges = [span for slot in slots for span in ledger.ranges.get(slot, ())]
            check_keyed_rows(table, config, ranges, report)
        elif deep and report.verified:
            _check_rows(table, config, ledger, through, report)
    finally:
        catalog.close()
    return report


def _read(place: LedgerPlace, report: VerifyReport) -> _Ledger:
    ledger = _Ledger()
    for record, raw in LedgerLog(place.storage, place.layout).records():
        ledger.fold.apply(record, raw)
        ledger.hashes.append(record_hash(raw))
        report.records += 1
        body = record.body
        if files := table_files(body):
            ledger.rows[record.seq] = sum(int(file.rows) for file in files)
            ledger.files[record.seq] = [(file.staged, file.final) for file in files]
        if isinstance(body, SwapRecord):
            ledger.replaced[record.seq] = int(body.rows_before)
            report.swapped += int(body.rows_after - body.rows_before)
        if isinstance(body, DataRecord):
            ledger.ranges[record.seq] = body.ranges
    counts = ledger.fold.counts
    report.rows, report.dirty_rows = int(counts.written), int(counts.dirty)
    report.filtered, report.skipped = int(counts.filtered), int(counts.skipped)
    report.expanded = int(counts.expanded)
    brought_in = int(ledger.fold.lanes.late.written)
    report.late_rows, report.offsets = int(counts.late) - brought_in, int(counts.read)
    report.rows += brought_in + report.swapped
    report.brought_in = brought_in
    return ledger


def _check_through(
    table: Any, through: LastSnapshot | None, ledger: _Ledger, report: VerifyReport
) -> None:
    if through is None:
        return
    if through.slot >= len(ledger.hashes) or ledger.hashes[through.slot] != through.record_hash:
        report.add(_LAKE, f"slot {through.slot}", "the table's property names another record")
    match lineage(table.metadata, through):
        case Lineage.LOST:
            said = "it is not in the history of main: rolled back or replaced"
            report.add(_LAKE, f"snapshot {through.snapshot_id}", said)
        case Lineage.UNPROVEN:
            report.unchecked.append("snapshots after ours were expired: history not followed")
        case Lineage.GOOD:
            return


def _ours(table: Any, ledger: str) -> Iterator[tuple[int, int, int, int]]:
    """First slot, last slot, rows and id of our snapshots that still exist."""
    for snapshot in sorted(table.metadata.snapshots, key=lambda each: each.sequence_number):
        told = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if told.get(SUMMARY_LEDGER) == ledger:
            slots = int(told[SUMMARY_FROM]), int(told[SUMMARY_THROUGH])
            yield *slots, int(told.get("added-records", 0)), snapshot.snapshot_id


def _check_snapshots(
    table: Any, uuid: str, ledger: _Ledger, report: VerifyReport, *, counted: bool
) -> None:
    ends: dict[int, int] = {}
    for first, last, rows, name in _ours(table, uuid):
        where = f"snapshot {name}"
        behind = _slot_behind(table, name, ends)
        if behind is not None and first != behind + 1:
            report.add(_LAKE, where, f"it begins at slot {first}, the one before ends at {behind}")
        if counted and rows != ledger.rows_of(first, last):
            said = f"it added {rows} rows, slots {first} to {last} have"
            report.add(_LAKE, where, f"{said} {ledger.rows_of(first, last)}")
        ends[name] = last
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in ends and not _is_compaction(snapshot, uuid):
            report.foreign.append(f"snapshot {snapshot.snapshot_id}: {operation_of(snapshot)}")


def _slot_behind(table: Any, name: int, ends: Mapping[int, int]) -> int | None:
    """Last slot of our snapshot before another writer's; None when those between were expired."""
    snapshot = table.metadata.snapshot_by_id(name)
    while snapshot is not None and snapshot.parent_snapshot_id is not None:
        parent = snapshot.parent_snapshot_id
        if parent in ends:
            return ends[parent]
        snapshot = table.metadata.snapshot_by_id(parent)
    return None


def _is_compaction(snapshot: Snapshot, ledger: str) -> bool:
    """Whether we made it by compaction."""
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return told.get(SUMMARY_COMPACTION) == ledger


def operation_of(snapshot: Snapshot) -> str:
    """What a snapshot did, in the word of Iceberg's table spec."""
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value


def changes_rows(snapshot: Snapshot, ledger: str) -> bool:
    """Whether a snapshot may have brought or taken rows that the ledger does not know.

    A snapshot that replaces files holds the same rows by the spec: a compaction, whoever ran it.
    """
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    ours = told.get(SUMMARY_LEDGER) == ledger
    return not ours and operation_of(snapshot) != Operation.REPLACE.value


def _check_files(table: Any, config: RouteConfig, report: VerifyReport) -> None:
    location = table.metadata.location.rstrip("/")
    storage, root = open_storage(location, config.stores)
    for task in table.scan().plan_files():
        report.files += 1
        path = task.file.file_path
        inside = path_below(location, path)
        if inside is None:
            continue
        found = storage.status(f"{root}/{inside}")
        if found is None or found.size_bytes != task.file.file_size_in_bytes:
            state = "is gone" if found is None else f"has {found.size_bytes} bytes"
            report.add("file_missing", path, f"the file {state}, the manifest names it")


def _check_waiting(place: LedgerPlace, ledger: _Ledger, through: int, report: VerifyReport) -> None:
    """Files that wait for their snapshot lie next to the ledger, or are still staged."""
    for slot, files in ledger.files.items():
        for staged, final in files if slot > through else ():
            report.files += 1
            named = place.storage.has_file(place.layout.final(final))
            if not named and not place.storage.has_file(place.layout.attempt(staged)):
                said = "it waits for its snapshot, and is neither staged nor next to the ledger"
                report.add("file_missing", final, said)


def _check_rows(
    table: Any,
    config: RouteConfig,
    ledger: _Ledger,
    through: LastSnapshot | None,
    report: VerifyReport,
) -> None:
    """Each offset once, as many rows as are published."""
    names = {column.part: column.column for column in config.meta}
    wanted = 0 if through is None else ledger.rows_through(through.slot)
    uuid = "" if ledger.fold.first_fence is None else ledger.fold.first_fence.ledger
    foreign = any(changes_rows(each, uuid) for each in table.metadata.snapshots)
    if foreign or not {"partition", "offset"} <= names.keys():
        report.unchecked.append(
            "rows of the table: it has foreign snapshots that change rows, or no columns of "
            "partition and offset"
        )
        return
    keys = [names[kind] for kind in ("topic", "partition", "offset") if kind in names]
    found = table.scan(selected_fields=tuple(keys)).to_arrow()
    if found.num_rows != wanted:
        report.add("offsets", "table", f"it has {found.num_rows} rows, the ledger {wanted}")
    distinct = found.group_by(keys).aggregate([]).num_rows
    if distinct != found.num_rows:
        twice = found.num_rows - distinct
        report.add("offsets", "table", f"{twice} rows have an offset that another row has")


def lake_files(config: RouteConfig, below: str = "") -> TableFiles:
    """The live data files of a lake table, those of other writers too. Changes nothing.

    Args:
        config: The route.
        below: A partition, or a folder above some; empty for the whole table.

    Raises:
        TableNotFoundError: The catalog does not have the table.
        NotInThisVersionError: Some files have deleted rows, which a list of files cannot say.
        MetastoreUnavailableError: The catalog does not answer.
    """
    where = f"{config.table.database}.{config.table.table}"
    catalog = open_catalog(dict(config.catalog.options), config.table.timeout_s)
    try:
        table = catalog.load((config.table.database, config.table.table))
        if table is None:
            raise TableNotFoundError(
                "the catalog does not have the table",
                where=where,
                hint="`sluiceway run JOB` creates it; if that runs, its log says what it waits for",
            )
        metadata = table.metadata
        ledger = metadata.properties.get(LEDGER_PROPERTY, "").partition("@")[0]
        through = read_through(metadata.properties, ledger, where=where)
        name, found = below.strip("/"), []
        for task in table.scan().plan_files():
            if task.delete_files:
                raise NotInThisVersionError(
                    "files of the table have deleted rows, which a list of files does not show",
                    where=where,
                    hint="read it with an engine that knows Iceberg",
                )
            file = task.file
            spec = metadata.specs()[file.spec_id]
            partition = spec.partition_to_path(file.partition, metadata.schema())
            if name and not is_below(partition, name):
                continue
            values = tuple(part.partition("=")[2] for part in partition.split("/") if part)
            path = str(file.file_path)
            path = normalise_location(path) if path.startswith("file:") else path
            size, rows = file.file_size_in_bytes, file.record_count
            found.append(ListedTableFile(partition, values, path, int(rows), int(size)))
    finally:
        catalog.close()
    return TableFiles(-1 if through is None else through.slot, tuple(found))
