"""Messages of Kafka Connect with their own schema, read by columns with the schema's meaning.

`{"schema": ..., "payload": ...}`: nearly all messages of a topic have the same schema bytes. Each
such text is parsed once a task, and decides how the native module reads the payloads.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import cast

import numpy as np
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import MAX_DEPTH, parse_object
from sluiceway.convert.extra_keys import WRAPPED_SCHEMA, WRAPPER
from sluiceway.convert.fast_rows import FastRows, Rows
from sluiceway.convert.json_values import JsonObject
from sluiceway.convert.native_blocks import (
    FetchedPath,
    NativeColumn,
    NativeKind,
    NativeReader,
    inner_place,
    native_column,
    native_kind,
    native_struct,
)
from sluiceway.convert.typed_values import NS_PER_US, Day, Instant, TypedTime
from sluiceway.formats.connect_times import (
    CONNECT_TEXT_TIMES,
    CONNECT_TIMES,
    DECIMAL,
    VARIABLE_DECIMAL,
)
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.matrix import kind_of_type
from sluiceway.types.payloads import JoinedPayloads, taken_out
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StructType,
    TimestampType,
)
from sluiceway.types.typed_matrix import TypedKind, accepted_typed_kinds

MAX_SCHEMAS = 64
"""Most schema texts that a task keeps; messages with other texts are read one by one."""
MAX_PREFIX_BYTES = 1 << 20
_TRIED = 8
_SPACE = rb"[ \t\r\n]*"
_BEGIN = re.compile(rb'%b\{%b"schema"%b:%b(?=\{)' % ((_SPACE,) * 4))
_BETWEEN = re.compile(rb'%b,%b"payload"%b:%b(?=\{)' % ((_SPACE,) * 4))
_SCALE = re.compile(r"-?\d{1,4}", re.ASCII)
_MAX_SCALE = 1000
_NUMBERS = (IntegerType, FloatType, DecimalType)
_MOMENTS = (TimestampType, LocalTimestampType)
_UTC = "UTC"
_MEANT = frozenset({DECIMAL, VARIABLE_DECIMAL, *CONNECT_TIMES, *CONNECT_TEXT_TIMES})
_Node = Mapping[str, object]
_Place = tuple[DataType, str | None, Policy]
"""Target of values: type, unit and policy."""


class WrappedSchemas:
    """Schemas by the first bytes of messages. Created once a task, used by one thread."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, _Node] = {}
        self._last = b""

    def prefix_of(self, payload: bytes) -> bytes | None:
        """The first bytes of a message, up to its row; None where that is not known.

        A new text is parsed and kept, up to `MAX_SCHEMAS`.

        Args:
            payload: Any payload.
        """
        if self._last and payload.startswith(self._last):
            return self._last
        found = next((known for known in self._nodes if payload.startswith(known)), None)
        if found is None and len(self._nodes) < MAX_SCHEMAS:
            found = self._learn(payload)
        self._last = found or self._last
        return found

    def node(self, prefix: bytes) -> _Node:
        """The schema in a prefix from `prefix_of`."""
        return self._nodes[prefix]

    def parse(self, payload: bytes, *, lenient: bool) -> dict[str, object]:
        """As `parse_object`, which parses the schema of each message again.

        Called for messages that are read one by one.
        """
        prefix = self.prefix_of(payload)
        body = b"" if prefix is None else payload[len(prefix) :].rstrip(b" \t\r\n")
        inside = body[:-1]
        # The wrapper adds one level.
        few = inside.count(b"{") + inside.count(b"[") < MAX_DEPTH
        if prefix is not None and few and body.endswith(b"}"):
            try:
                found = parse_object(inside, lenient=lenient)
            except DirtyValueError:
                # The error's position counts from the start of the message.
                return parse_object(payload, lenient=lenient)
            return {WRAPPED_SCHEMA: self._nodes[prefix], WRAPPER: found}
        return parse_object(payload, lenient=lenient)

    def _learn(self, payload: bytes) -> bytes | None:
        begin = _BEGIN.match(payload)
        if begin is None:
            return None
        head = payload[:MAX_PREFIX_BYTES]
        try:
            text = head[begin.end() :].decode("utf-8", "surrogateescape")
            _, size = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
        end = begin.end() + len(text[:size].encode("utf-8", "surrogateescape"))
        between = _BETWEEN.match(payload, end)
        if between is None:
            return None
        prefix = payload[: between.end()]
        try:
            found = parse_object(prefix + b"{}}", lenient=False)
        except DirtyValueError:
            return None
        if isinstance(found, JsonObject):
            return None
        self._nodes[prefix] = cast("_Node", found[WRAPPED_SCHEMA])
        return prefix


@dataclass(slots=True)
class _Group:
    """Messages of one prefix, and their positions."""

    rows: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)


class WrappedReader(FetchedPath):
    """Reads messages with their own schema. Created once a task, used by one thread.

    Args:
        schema: The columns, with their paths from the message.
        schemas: Shared with the reader of single messages.
    """

    def __init__(self, schema: Schema, schemas: WrappedSchemas) -> None:
        module = native_module()
        assert module is not None  # noqa: S101 - `for_schema` saw it
        super().__init__(module.Records)
        self._module = module
        self._schema = arrow_schema(schema)
        self._fields = [f for f in schema.fields if _path(f)[0] == WRAPPER]
        self._schemas = schemas
        self._readers: dict[bytes, NativeReader | None] = {}

    @classmethod
    def for_schema(cls, schema: Schema, schemas: WrappedSchemas) -> "WrappedReader | None":
        """Make the reader for a table. Called once a task.

        Args:
            schema: The columns, with units and policies passed on to inner fields.
            schemas: Shared with the reader of single messages.

        Returns:
            None without the native module, or where a column reads outside the row.
        """
        for one in schema.fields:
            path = _path(one)
            beside = path[0] != WRAPPER and (one.required or path[0] == WRAPPED_SCHEMA)
            if beside or path == (WRAPPER,):
                return None
        return None if native_module() is None else cls(schema, schemas)

    def read(self, payloads: list[bytes]) -> Iterator[FastRows]:
        """Read payloads; see `FastPath.read`."""
        yield from self._read_groups(payloads, np.arange(len(payloads)))

    def read_fetched(self, payloads: JoinedPayloads) -> tuple[FastRows, Rows]:
        """Read payloads where they were fetched to; see `FetchedPath.read_fetched`."""
        prefix = next(filter(None, map(self._prefix_of_one, payloads[:_TRIED])), None)
        reader = None if prefix is None else self._reader(prefix)
        if reader is None or prefix is None:
            left = np.array([row for row, one in enumerate(payloads) if one], np.int64)
            first, empty = FastRows([], [], left), np.delete(np.arange(len(payloads)), left)
        else:
            first, empty = reader.read_fetched(payloads)
            first = FastRows(
                [self._whole(one) for one in first.batches], first.rows, first.suspects
            )
        if not len(first.suspects):
            return first, empty
        batches, rows, suspects = list(first.batches), list(first.rows), []
        doubted = taken_out(payloads, first.suspects)
        for block in self._read_groups(doubted, first.suspects, read=prefix):
            batches += block.batches
            rows += block.rows
            suspects.append(block.suspects)
        return FastRows(batches, rows, np.sort(np.concatenate(suspects))), empty

    def _prefix_of_one(self, payload: bytes | None) -> bytes | None:
        return self._schemas.prefix_of(payload) if payload else None

    def _read_groups(
        self, payloads: Sequence[bytes], places: Rows, *, read: bytes | None = None
    ) -> Iterator[FastRows]:
        """Read payloads group by group.

        Args:
            payloads: Payloads of several schemas, or without one.
            places: Their positions.
            read: Prefix of payloads that were read, and doubted, before; None without any.
        """
        groups: dict[bytes | None, _Group] = {}
        for row, payload in enumerate(payloads):
            prefix = self._schemas.prefix_of(payload)
            group = groups.setdefault(prefix, _Group())
            group.rows.append(row)
            group.payloads.append(payload)
        for prefix, group in groups.items():
            reader = None if prefix is None or prefix == read else self._reader(prefix)
            rows = places[np.array(group.rows, np.int64)]
            if reader is None:
                yield FastRows([], [], rows)
                continue
            for block in reader.read(group.payloads):
                batches = [self._whole(one) for one in block.batches]
                yield FastRows(batches, [rows[of] for of in block.rows], rows[block.suspects])

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in their order; columns that are not in the row are null."""
        read = {one.name: column for one, column in zip(self._fields, batch.columns, strict=True)}
        arrays = [
            read[of.name] if of.name in read else pa.nulls(len(batch), of.type)
            for of in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _reader(self, prefix: bytes) -> NativeReader | None:
        if prefix not in self._readers:
            self._readers[prefix] = self._compiled(prefix)
        return self._readers[prefix]

    def _compiled(self, prefix: bytes) -> NativeReader | None:
        node = self._schemas.node(prefix)
        columns = [_column(of, node) for of in self._fields]
        if None in columns:
            return None
        reader = self._module.JsonReader(columns, prefix)
        return NativeReader(Schema(tuple(self._fields)), reader, self._module.Records)


def _path(of: Field) -> tuple[str, ...]:
    return of.path or (of.name,)


def _column(of: Field, node: object) -> NativeColumn | None:
    path = _path(of)[1:]
    for step in path:
        node = _below(node, step)
    kind = meant_kind((of.type, of.time_unit, of.policy), node)
    return None if kind is None else native_column(of, path, kind)


def _below(node: object, key: str) -> object:
    """The schema of an object's value under a key; None without one."""
    if not isinstance(node, dict):
        return None
    if node.get("type") == "map":
        return node.get("values")
    listed = node.get("fields")
    held = listed if isinstance(listed, list) else []
    named = [each for each in held if isinstance(each, dict) and each.get("field") == key]
    return named[-1] if named else None


def meant_kind(  # noqa: PLR0911 - a case a type
    place: _Place, node: object
) -> NativeKind | None:
    """The native module's type for values with such a schema; agrees with `SchemaView`.

    Args:
        place: Target of the values.
        node: Connect's schema of the values; anything else has no meaning.

    Returns:
        None where the module cannot read them.
    """
    data_type, unit, policy = place
    if not isinstance(node, dict):
        return native_kind(*place)
    name, kind = node.get("name"), node.get("type")
    if name == DECIMAL and not isinstance(data_type, BinaryType):
        return _number(place, _scale_of(node), any_scale=False)
    if name == VARIABLE_DECIMAL and not isinstance(data_type, StructType | MapType):
        return _number(place, None, any_scale=True)
    match data_type:
        case ListType(element) if kind == "array":
            inner = meant_kind((element, unit, policy), node.get("items"))
            return None if inner is None else ("list", inner)
        case MapType(key, value) if kind == "map" and not _is_meant(node.get("keys")):
            plain = native_kind(MapType(key, BooleanType()), None, NO_POLICY)
            inner = meant_kind((value, unit, policy), node.get("values"))
            return None if inner is None or plain is None else (*plain[:2], inner)
        case StructType(fields) if kind in ("struct", "map"):
            kinds = {
                each.name: meant_kind(inner_place(each, policy), _below(node, each.name))
                for each in fields
            }
            return native_struct(fields, kinds)
        case ListType() | MapType() | StructType():
            return _never(place) if _is_meant(node) else native_kind(*place)
        case DateType() | TimestampType() | LocalTimestampType() if unit is None:
            return _time(place, name)
        case _:
            return native_kind(*place)


def _is_meant(node: object) -> bool:
    """Whether the schema gives some value in it a meaning that JSON does not have."""
    if not isinstance(node, dict):
        return False
    listed = node.get("fields")
    inner = [*(listed if isinstance(listed, list) else []), *map(node.get, ("items", "keys"))]
    named = node.get("name")
    said = isinstance(named, str) and named in _MEANT
    return said or any(_is_meant(each) for each in (*inner, node.get("values")))


def _never(place: _Place) -> NativeKind | None:
    """Type of a place whose values, except null, go to the slow path."""
    plain = native_kind(place[0], None, NO_POLICY)
    return None if plain is None else ("never", plain)


def _scale_of(node: _Node) -> int | None:
    parameters = node.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    if not isinstance(scale, str) or not _SCALE.fullmatch(scale) or abs(int(scale)) > _MAX_SCALE:
        return None
    return int(scale)


def _number(place: _Place, scale: int | None, *, any_scale: bool) -> NativeKind | None:
    inner = native_kind(*place)
    if not isinstance(place[0], _NUMBERS) or inner is None or (scale is None and not any_scale):
        return _never(place)
    return ("connect", inner, scale)


def _time(place: _Place, name: object) -> NativeKind | None:
    """Type of times whose column has no unit."""
    data_type, _, policy = place
    if not isinstance(name, str) or name not in _MEANT:
        is_zoned = isinstance(data_type, _MOMENTS) and policy.timezone is not None
        # A text without an offset is in doubt, and one with an offset needs no zone.
        return ("instant",) if is_zoned and policy.format is None else native_kind(*place)
    if name in CONNECT_TEXT_TIMES:
        in_utc = isinstance(data_type, DateType) or policy.timezone == _UTC
        if policy.format is None and in_utc:
            # Local time in UTC, which a Z at its end says as well.
            return native_kind(data_type, None, NO_POLICY)
        return _never(place)
    made = CONNECT_TIMES[name](1)
    taken = accepted_typed_kinds(kind_of_type(data_type), policy)
    if isinstance(made, Day):
        fits = isinstance(data_type, DateType) and TypedKind.DAY in taken
        return ("day",) if fits else _never(place)
    return _moment(data_type, policy, made) or _never(place)


def _moment(data_type: DataType, policy: Policy, made: TypedTime) -> NativeKind | None:
    """Type of numbers that count times; `made` is the time of 1."""
    kind = TypedKind.INSTANT if isinstance(made, Instant) else TypedKind.LOCAL_TIME
    if not isinstance(data_type, _MOMENTS) or isinstance(made, Day):
        return None
    if kind not in accepted_typed_kinds(kind_of_type(data_type), policy):
        return None
    if kind is TypedKind.LOCAL_TIME and policy.timezone != _UTC:
        return None
    common = gcd(made.ns, NS_PER_US)
    return ("moment", made.ns // common, NS_PER_US // common)
