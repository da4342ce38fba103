"""What a record has to become: the row and the partition, or no row at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from .lane_reader import ReplayedRows
from .payload_rules import (
    EPOCH,
    UNITS_PER_S,
    BrokenPayloadError,
    ColumnType,
    Convert,
    as_int,
    column_type,
    parse_object,
)
from .reset_reader import Passage

CHUNK_ROWS = 50_000
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Hive writes each of these as three characters in a folder's name.
ESCAPED = frozenset([*map(chr, range(1, 32)), "\x7f", *"\"#%'*/:=?\\{[]^"])
KEYS = ("topic", "partition", "offset")
HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
RAW_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
}


class BrokerRecord(NamedTuple):
    """One record as the broker has it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file and the partition values that the metastore gives its folder."""

    path: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as the metastore and the file system show it.

    Attributes:
        columns: Data columns in order, name to Hive type.
        partition_keys: Names in order.
        files: Data files of the listed partitions.
        dirty_files: Files of the dirty rows.
        passages: Readings of the source partitions that an operator has moved.
        replayed: Rows of dirty files that lanes have read once more.
    """

    columns: Mapping[str, str]
    partition_keys: tuple[str, ...]
    files: tuple[TableFile, ...]
    dirty_files: tuple[str, ...]
    passages: tuple[Passage, ...] = ()
    replayed: tuple[ReplayedRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the job file says about the rows; the defaults are the demo's.

    Attributes:
        required: Columns that may not be null or missing.
        event_time: Payload path of the event time.
        event_time_unit: `s`, `ms`, `us` or `ns` since the epoch, or `iso8601` text.
        timezone: Zone of the partition texts.
        partition_by: Partition key to a pattern such as `yyyyMMdd`, or to `column:<name>`.
        paths: Payload path of columns that are not simply under their own name.
        time_units: Unit of timestamp columns that come as numbers.
        meta: Columns that hold the record's own data: name to topic, partition, offset, timestamp.
        tombstones: Records without a value are `dirty`, or with `skip` nowhere.
        dirty_glob: Where the dirty rows are; None is `_sluiceway/*/dirty` below the table.
    """

    required: frozenset[str] = frozenset({"order_id", "ts"})
    event_time: tuple[str, ...] = ("ts",)
    event_time_unit: str = "ms"
    timezone: str = "UTC"
    partition_by: Mapping[str, str] = field(default_factory=lambda: {"dt": "yyyyMMdd", "hr": "HH"})
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    time_units: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, str] = field(
        default_factory=lambda: {f"_{name}": name for name in (*KEYS, "timestamp")}
    )
    tombstones: str = "dirty"
    dirty_glob: str | None = None


def _lookup(payload: dict[str, Any], path: Sequence[str]) -> Any:
    found: Any = payload
    for key in path:
        if found is None:
            return None
        if type(found) is not dict:
            raise BrokenPayloadError(f"{key} is looked for in what is not an object")
        found = found.get(key)
    return found


class RowOracle:
    """Says of one record which row and partition it has to become."""

    def __init__(self, view: TableView, expectation: Expectation) -> None:
        self._spec = expectation
        self._zone = ZoneInfo(expectation.timezone)
        self._partition_keys = view.partition_keys
        self._prefixes: dict[int, tuple[str, ...]] = {}
        self.types: dict[str, ColumnType] = {
            name: column_type(hive, expectation.time_units.get(name))
            for name, hive in view.columns.items()
        }
        self._data: list[tuple[str, tuple[str, ...], Convert]] = [
            (name, expectation.paths.get(name, (name,)), kind.convert)
            for name, kind in self.types.items()
            if name not in expectation.meta
        ]
        self._meta = [
            (expectation.meta[name], pa.types.is_timestamp(kind.arrow))
            for name, kind in self.types.items()
            if name in expectation.meta
        ]
        self.order = [name for name, _, _ in self._data] + [
            name for name in self.types if name in expectation.meta
        ]
        unit = expectation.event_time_unit
        is_text = unit == "iso8601"
        self._event_time: Convert = column_type("timestamp").convert if is_text else as_int
        self._units_per_minute = UNITS_PER_S["us" if is_text else unit] * 60

    def row(self, record: BrokerRecord) -> tuple[Any, ...]:
        """Values in `order`, then the partition's texts; raises BrokenPayloadError."""
        if record.value is None:
            raise BrokenPayloadError("no value")
        payload = parse_object(record.value)
        values: list[Any] = []
        for name, path, convert in self._data:
            found = payload.get(path[0]) if len(path) == 1 else _lookup(payload, path)
            if found is not None:
                found = convert(found)
            elif name in self._spec.required:
                raise BrokenPayloadError(f"{name} is missing")
            values.append(found)
        return (*values, *self._meta_values(record), *self._partition(payload))

    def _meta_values(self, record: BrokerRecord) -> list[Any]:
        values = []
        for role, is_timestamp in self._meta:
            found = record.timestamp_ms if role == "timestamp" else getattr(record, role)
            values.append(found * 1000 if is_timestamp and found is not None else found)
        return values

    def _partition(self, payload: dict[str, Any]) -> tuple[str, ...]:
        if not self._partition_keys:
            return ()
        found = _lookup(payload, self._spec.event_time)
        if found is None:
            raise BrokenPayloadError("no event time")
        minute = self._event_time(found) // self._units_per_minute
        if (cached := self._prefixes.get(minute)) is None:
            cached = self._prefixes[minute] = self._prefix(minute)
        if "" not in cached:
            return cached
        return tuple(
            text or self._column_text(payload, key)
            for key, text in zip(self._partition_keys, cached, strict=True)
        )

    def _prefix(self, minute: int) -> tuple[str, ...]:
        try:
            moment = (EPOCH + timedelta(minutes=minute)).astimezone(self._zone)
        except OverflowError as error:
            raise BrokenPayloadError("the event time is no date") from error
        texts = []
        for key in self._partition_keys:
            text = self._spec.partition_by[key]
            for letters, number in (
                ("yyyy", f"{moment.year:04}"),
                ("MM", f"{moment.month:02}"),
                ("dd", f"{moment.day:02}"),
                ("HH", f"{moment.hour:02}"),
                ("mm", f"{moment.minute:02}"),
            ):
                text = text.replace(letters, number)
            texts.append("" if text.startswith("column:") else text)
        return tuple(texts)

    def _column_text(self, payload: dict[str, Any], key: str) -> str:
        name = self._spec.partition_by[key].removeprefix("column:")
        found = _lookup(payload, self._spec.paths.get(name, (name,)))
        if isinstance(found, list | dict | bool | float):
            raise BrokenPayloadError(f"{name} cannot name a partition")
        if found is None:
            return NULL_PARTITION
        if found == "":
            raise BrokenPayloadError(f"{name} would read back as null")
        text = str(found)
        # A file system holds 255 bytes a name, and no NUL; Hive's name for null is taken.
        size = len(f"{key}={text}".encode()) + 2 * sum(char in ESCAPED for char in text)
        if text == NULL_PARTITION or "\0" in text or size > 255:
            raise BrokenPayloadError(f"{name} cannot name a folder")
        return text


@dataclass(frozen=True, slots=True)
class Expected:
    """The broker's records, sorted by what they have to become."""

    fine: pa.Table
    broken: pa.Table
    tombstones: int


def expect(records: Iterable[BrokerRecord], view: TableView, spec: Expectation) -> Expected:
    """Read all records once and build the two tables that the files are compared with."""
    oracle = RowOracle(view, spec)
    fine_schema = pa.schema(
        [
            *((f"#{key}", RAW_TYPES[key]) for key in KEYS),
            *((name, oracle.types[name].arrow) for name in oracle.order),
            *((key, pa.string()) for key in view.partition_keys),
        ]
    )
    raw_schema = pa.schema(list(RAW_TYPES.items()))
    fine: list[pa.RecordBatch] = []
    rows: list[tuple[Any, ...]] = []
    broken: list[tuple[Any, ...]] = []
    tombstones = 0
    for record in records:
        if record.value is None and spec.tombstones == "skip":
            tombstones += 1
            continue
        try:
            rows.append((*record[:3], *oracle.row(record)))
        except BrokenPayloadError:
            headers = [{"name": name, "value": value} for name, value in record.headers]
            broken.append((*record[:6], headers))
        if len(rows) >= CHUNK_ROWS:
            fine.append(_batch(rows, fine_schema))
            rows.clear()
    fine.append(_batch(rows, fine_schema))
    return Expected(
        pa.Table.from_batches(fine, fine_schema),
        pa.Table.from_batches([_batch(broken, raw_schema)], raw_schema),
        tombstones,
    )


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
