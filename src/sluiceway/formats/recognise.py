"""Recognises the payloads of a topic: plain JSON, a change log, or a registry's format."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import parse_object
from sluiceway.convert.schema_values import Meaning, MeantArray, MeantObject
from sluiceway.formats.changes.connect_values import SchemaView
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL, Envelope
from sluiceway.formats.connect_times import DECIMAL, VARIABLE_DECIMAL
from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn
from sluiceway.formats.schema_registry.frame import HEADER_BYTES, unframed
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.schema_header import HeaderFramed

MOST_KEPT = 1_000
_KEPT_BYTES = 64 << 20
_HALF = 2
_MOST_IDS = 10_000
_CONFIDENT = {
    # Further fields of every message; `type` or `op` alone proves nothing.
    DEBEZIUM.name: ({"source"}, {"before", "after"}),
    MAXWELL.name: ({"database"}, {"data"}),
    CANAL.name: ({"database"}, {"data"}),
}
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")
_INTEGER = re.compile(r"-?\d{1,4}")
_NO_ZONE = "a clock's on a wall: UTC is a guess, name a timezone"
_TIMES = {
    "org.apache.kafka.connect.data.Date": ("date", ""),
    "io.debezium.time.Date": ("date", ""),
    "org.apache.kafka.connect.data.Timestamp": ("timestamp", ""),
    "io.debezium.time.Timestamp": ("timestamp", _NO_ZONE),
    "io.debezium.time.MicroTimestamp": ("timestamp", _NO_ZONE),
    "io.debezium.time.NanoTimestamp": ("timestamp", _NO_ZONE),
}
_Message = Mapping[str, object]


@dataclass(slots=True)
class TopicContents:
    """The contents of a topic's sample. Used by one thread.

    Attributes:
        records: Number of records that were read.
        framed: How many of these begin like Confluent's wire format.
        schema_ids: Ids of a registry's schemas in these headers.
        plain: Survey of all JSON objects, whatever is in them.
        changes: Number of changes by kind of change log and kind of change.
        rows: For each kind of change log, a survey of the rows in its changes.
        declared: Types from a change's own schema: column -> name, and its settings.
        kept: Some of the payloads, without a registry's header, to try a proposal on.
    """

    records: int = 0
    framed: int = 0
    schema_ids: set[int] = field(default_factory=set)
    plain: JsonSurvey = field(default_factory=JsonSurvey)
    changes: dict[str, Counter[str]] = field(default_factory=dict)
    rows: dict[str, JsonSurvey] = field(default_factory=dict)
    declared: dict[str, tuple[str, Mapping[str, object]]] = field(default_factory=dict)
    with_schema: bool = False
    kept: list[bytes | None] = field(default_factory=list)
    _kept_bytes: int = 0

    def add(self, payload: bytes | None) -> None:
        """Add a record's value."""
        self.records += 1
        named = payload is not None and payload.startswith(b"\0") and len(payload) >= HEADER_BYTES
        if payload and (named or isinstance(payload, HeaderFramed)):
            self.framed += 1
            if named and len(self.schema_ids) < _MOST_IDS:
                self.schema_ids.add(int.from_bytes(payload[1:HEADER_BYTES], "big"))
        body = payload and unframed(payload)
        self.plain.add(body)
        if len(self.kept) < MOST_KEPT and self._kept_bytes < _KEPT_BYTES:
            self.kept.append(body)
            self._kept_bytes += len(body or b"")
        if not body:
            return
        try:
            found = parse_object(body, lenient=False)
        except DirtyValueError:
            return
        self._add_change(found)

    def _add_change(self, found: _Message) -> None:
        for envelope in (DEBEZIUM, MAXWELL, CANAL):
            inner = found.get(envelope.wrapper) if envelope.wrapper else None
            message = inner if isinstance(inner, dict) and "schema" in found else found
            marker = _marker(envelope, message)
            if marker is None:
                continue
            self.changes.setdefault(envelope.name, Counter())[marker] += 1
            row = _at(message, envelope.images[marker])
            if message is not found:
                row = _as_meant(found, (envelope.wrapper, *envelope.images[marker])) or row
            if row is not None:
                self.rows.setdefault(envelope.name, JsonSurvey()).add_object(row)
            if message is not found:
                self.with_schema = True
                self.declared |= dict(_schema_types(found.get("schema"), envelope.images[marker]))
            return

    @property
    def change_log(self) -> str | None:
        """The kind of change log, where at least half of all objects are its changes; else None."""
        for name, kinds in self.changes.items():
            if kinds.total() * _HALF >= self.plain.rows:
                return name
        return None

    @property
    def is_binary(self) -> bool:
        """Whether the content after a registry's header is no JSON: Avro or Protobuf."""
        return bool(self.framed) and self.plain.rows * _HALF < self.framed

    def row_columns(self) -> list[ProposedColumn]:
        """Columns of the rows in a change log, by its schema where there is one."""
        name = self.change_log
        found = self.rows[name].columns() if name in self.rows else []
        return [self._as_told(column) for column in found]

    def _as_told(self, column: ProposedColumn) -> ProposedColumn:
        if column.name not in self.declared or not column.type:
            return column
        name, settings = self.declared[column.name]
        kind, doubt = _TIMES.get(name, ("", ""))
        if name == DECIMAL:
            kind = _decimal_type(settings)
            if not kind:
                doubt = "decimals that no type holds whole; kept as text"
                return replace(column, type="string", as_text=True, doubts=(doubt,))
        elif name == VARIABLE_DECIMAL and not column.as_text:
            scale = _SCALE.search(column.type)
            kind = f"decimal({MAX_PRECISION},{scale[1] if scale else 0})"
            doubt = "decimals of any scale: name precision and scale"
        if not kind:
            return column
        doubts = (doubt,) if doubt else ()
        return replace(column, type=kind, as_text=False, doubts=doubts, zoned=doubt == _NO_ZONE)


def _as_meant(message: _Message, path: tuple[str, ...]) -> dict[str, object]:
    """The row in a message, with values by the message's schema; empty without a row."""
    return {key: _read_as(value) for key, value in SchemaView(message).meant_at(path).items()}


def _read_as(value: object) -> object:
    """A value of `convert.schema_values` as a column reads it."""
    if isinstance(value, Meaning):
        return value.value
    if isinstance(value, MeantArray):
        return [_read_as(item) for item in value]
    if isinstance(value, MeantObject):
        meant = value.meaning.value
        is_object = isinstance(meant, dict)
        return {key: _read_as(held) for key, held in value.items()} if is_object else meant
    return value


def _decimal_type(settings: Mapping[str, object]) -> str:
    """Type of a decimal whose schema names its scale; empty where no type holds it."""
    precision, scale = (
        int(text) if _INTEGER.fullmatch(text := str(settings.get(name, usual))) else usual
        for name, usual in (("connect.decimal.precision", MAX_PRECISION), ("scale", 0))
    )
    # A scale below zero stands for zeros before the point.
    precision, scale = max(precision - min(scale, 0), scale), max(scale, 0)
    return f"decimal({min(precision, MAX_PRECISION)},{scale})" if scale <= MAX_PRECISION else ""


def _marker(envelope: Envelope, message: _Message) -> str | None:
    """The kind of the change, if the message is one of this change log; else None."""
    all_of, one_of = _CONFIDENT[envelope.name]
    if not all_of <= message.keys() or not one_of & message.keys():
        return None
    marker = message.get(envelope.marker[0])
    return marker if isinstance(marker, str) and marker in envelope.images else None


def _at(message: _Message, path: Iterable[str]) -> dict[str, object] | None:
    found: object = message
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _schema_types(
    schema: object, path: Iterable[str]
) -> Iterable[tuple[str, tuple[str, Mapping[str, object]]]]:
    """For each field of the row: the name of its type, and the type's settings."""
    node: object = schema
    for key in path:
        node = next((each for each in _fields(node) if each.get("field") == key), None)
    for each in _fields(node):
        name, settings = each.get("name"), each.get("parameters")
        if isinstance(name, str):
            plain = settings if isinstance(settings, dict) else {}
            yield str(each.get("field")), (name, plain)


def _fields(node: object) -> list[Mapping[str, object]]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
