"""The native fast path for Avro: payloads of one schema -> columns, nested to any depth.

A plan says for each value of the record how its bytes become a column's value, or that they are
skipped. Rows with a fault, and values without room in a column, are left to the slow path, with
which the kept rows agree.
"""

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from sluiceway.convert.native_blocks import NativeColumns, NativeKind, inner_place, native_kind
from sluiceway.convert.typed_values import NS_PER_US, Day, Instant, LocalTime, TypedTime
from sluiceway.formats.avro.column_scan import Ints
from sluiceway.formats.avro.fast_columns import BLOCK_BYTES
from sluiceway.formats.avro.reader import MAX_DECIMAL_BYTES, is_variable_decimal, least_bytes
from sluiceway.formats.avro.schema import (
    BIG_DECIMAL,
    Array,
    AvroRecord,
    Enum,
    Fixed,
    Logical,
    Map,
    Node,
    Primitive,
    Union,
)
from sluiceway.formats.connect_times import CONNECT_TEXT_TIMES, CONNECT_TIMES
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.matrix import JsonKind, accepted_kinds, kind_of_type
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
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
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)
from sluiceway.types.typed_matrix import TypedKind, accepted_typed_kinds

_Place = tuple[DataType, str | None, Policy]
"""Target of values: type, unit and policy."""
_How = tuple[object, ...]
_NULL = Primitive("null")
_UTC = "UTC"
# A column holds 2 GiB of text at most, made from a block in which a symbol takes one byte.
_MAX_SYMBOL = 32
_NEVER: _How = ("never",)
_OF_NULL: _How = ("null",)
_MOMENTS = TimestampType | LocalTimestampType
_TEXTS = StringType | VarcharType | CharType
_NUMBERS = IntegerType | FloatType | DecimalType
_NS_PER = {"millis": 1_000_000, "micros": 1000, "nanos": 1, "ms": 1_000_000, "us": 1000, "ns": 1,
           "s": 1_000_000_000}  # fmt: skip
_SIZES = {"float": 4, "double": 8}
_NAMED = {"null", "boolean", "int", "long"}


class NativeAvro:
    """Reads payloads of one schema into columns. Created once a schema and task.

    Args:
        schema: Schema of the columns.
        reader: The module's own reader.
    """

    def __init__(self, schema: Schema, reader: Any) -> None:
        self._schema = arrow_schema(schema)
        self._reader = reader

    @classmethod
    def for_schemas(cls, node: Node, schema: Schema, *, connect: bool) -> "NativeAvro | None":
        """Make the reader for records of a schema.

        Args:
            node: The schema that payloads were written with.
            schema: The columns, with units and policies passed on to inner fields.
            connect: Whether values have Kafka Connect's meaning.

        Returns:
            None where the module is not installed, or does not support such records or columns.
        """
        module = native_module()
        if module is None or not isinstance(node, AvroRecord):
            return None
        kinds = [_column_kind((of.type, of.time_unit, of.policy)) for of in schema.fields]
        plan = _Plan(connect=connect)
        wanted = [(of.path or (of.name,), number) for number, of in enumerate(schema.fields)]
        steps = plan.steps(node, wanted, schema.fields)
        if steps is None or None in kinds:
            return None
        columns = [(kind, of.required) for kind, of in zip(kinds, schema.fields, strict=True)]
        return cls(schema, module.AvroReader(columns, steps, plan.records))

    def read(
        self, payloads: Sequence[bytes], begins: Sequence[int]
    ) -> tuple[pa.RecordBatch, Ints, Ints]:
        """Read payloads; see `FastColumns.read`."""
        if len(payloads[0]) > BLOCK_BYTES:
            nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
            return nothing, np.arange(0), np.arange(len(payloads))
        array, suspects = self._reader.read(list(payloads), list(begins))
        batch = pa.record_batch(NativeColumns(self._schema, array))
        left = np.frombuffer(suspects, np.int64)
        kept = np.arange(len(payloads))
        return batch, np.delete(kept, left) if len(left) else kept, left


class _Plan:
    """Plans the reading of one schema's records.

    Attributes:
        records: Records that are skipped, with the layout of their fields.
    """

    def __init__(self, *, connect: bool) -> None:
        self.records: list[list[_How]] = []
        self._connect = connect
        self._numbers: dict[int, int] = {}

    # The record, by the paths of columns

    def steps(
        self,
        node: AvroRecord,
        wanted: Sequence[tuple[tuple[str, ...], int]],
        columns: Sequence[Field],
    ) -> list[_How] | None:
        """How to read the fields of a record; None where that is not possible.

        Args:
            node: The record.
            wanted: For each column in the record: the path from there, and its number.
            columns: All columns.
        """
        names = {name for name, _ in node.fields}
        steps: list[_How] = [("absent", n) for path, n in wanted if path[0] not in names]
        for name, of in node.fields:
            here = [(path[1:], number) for path, number in wanted if path[0] == name]
            takers = [self._taker(of, number, columns[number]) for path, number in here if not path]
            inner = [(path, number) for path, number in here if path]
            if inner:
                takers.append(self._inside(of, inner, columns))
            if None in takers:
                return None
            made = [taker for taker in takers if taker is not None]
            made = made or [("skip", self.skip(of))]
            steps.append(made[0] if len(made) == 1 else ("each", made))
        return steps

    def _taker(self, node: Node, number: int, field: Field) -> _How | None:
        how = self.how(node, (field.type, field.time_unit, field.policy))
        return None if how == _NEVER else ("column", number, how)

    def _inside(
        self,
        node: Node,
        wanted: Sequence[tuple[tuple[str, ...], int]],
        columns: Sequence[Field],
    ) -> _How | None:
        """Columns within a record, which may be null."""
        branch, record = None, node
        if isinstance(node, Union):
            held = [place for place, one in enumerate(node.branches) if one != _NULL]
            if len(node.branches) != 2 or len(held) != 1:  # noqa: PLR2004 - null and another
                return None
            branch, record = held[0], node.branches[held[0]]
        if not isinstance(record, AvroRecord):
            return None
        steps = self.steps(record, wanted, columns)
        return None if steps is None else ("inside", steps, branch, [n for _, n in wanted])

    # Values that no column reads

    def skip(self, node: Node) -> _How:  # noqa: C901, PLR0911 - a case a kind
        """How to skip a value."""
        match node:
            case Primitive(_, Logical("decimal")):
                return ("digits", None)
            case Primitive(_, Logical(name)) if name == BIG_DECIMAL:
                return ("big-decimal",)
            case Primitive(name):
                known = ("size", _SIZES[name]) if name in _SIZES else ("sized",)
                return (name,) if name in _NAMED else known
            case Fixed(size, Logical("decimal")):
                return ("digits", size)
            case Fixed(size):
                return ("size", size)
            case Enum(symbols):
                return ("enum", len(symbols))
            case Array(items):
                return ("array", least_bytes(items), self.skip(items))
            case Map(values):
                return ("map", self.skip(values))
            case Union(branches):
                return ("union", [self.skip(branch) for branch in branches])
            case AvroRecord(fields=fields):
                if id(node) not in self._numbers:
                    self._numbers[id(node)] = number = len(self.records)
                    self.records.append([])
                    self.records[number] = [self.skip(of) for _, of in fields]
                return ("record", self._numbers[id(node)])

    # Values that columns read

    def how(self, node: Node, place: _Place) -> _How:
        """How a value becomes a column's; `_NEVER` where the slow path decides."""
        data_type, unit, policy = place
        match node:
            case Union(branches):
                found = [self.how(branch, place) for branch in branches]
                read = [how for how in found if how not in (_NEVER, _OF_NULL)]
                return ("union", found) if read else _NEVER
            case Primitive("null"):
                return _OF_NULL
            case Array(items) if isinstance(data_type, ListType) and least_bytes(items):
                inner = self.how(items, (data_type.element, unit, policy))
                return _NEVER if inner == _NEVER else ("list", least_bytes(items), inner)
            case Map(values) if isinstance(data_type, MapType):
                inner = self.how(values, (data_type.value, unit, policy))
                return _NEVER if inner == _NEVER else ("map", inner)
            case AvroRecord() if self._connect and is_variable_decimal(node):
                return self._variable(node, data_type)
            case AvroRecord() if isinstance(data_type, StructType):
                return self._struct(node, data_type, policy)
            case Array() | Map() | AvroRecord():
                return _NEVER
            case _:
                return _plain(node, place)

    def _variable(self, node: AvroRecord, data_type: DataType) -> _How:
        usual = [("scale", Primitive("int")), ("value", Primitive("bytes"))]
        is_number = isinstance(data_type, _NUMBERS)
        return ("variable",) if is_number and node.fields == usual else _NEVER

    def _struct(self, node: AvroRecord, data_type: StructType, policy: Policy) -> _How:
        numbers = {field.name: number for number, field in enumerate(data_type.fields)}
        parts: list[_How] = []
        met = set()
        for name, of in node.fields:
            if name not in numbers:
                parts.append(("skip", self.skip(of)))
                continue
            number = numbers[name]
            field = data_type.fields[number]
            met.add(number)
            how = self.how(of, inner_place(field, policy))
            if how == _NEVER:
                return _NEVER
            parts.append(("field", number, how, field.required))
        missing = [
            (number, field.required)
            for number, field in enumerate(data_type.fields)
            if number not in met
        ]
        return ("record", parts, missing)


def _column_kind(place: _Place) -> NativeKind | None:
    """Type of the column that the module builds; the plan says how to read it."""
    data_type, unit, policy = place
    match data_type:
        case ListType(element):
            inner = _column_kind((element, unit, policy))
            return None if inner is None else ("list", inner)
        case MapType(StringType() | IntegerType() as key, value):
            inner, keys = _column_kind((value, unit, policy)), native_kind(key, None, NO_POLICY)
            return None if inner is None or keys is None else ("map", keys, inner)
        case StructType(fields):
            kinds = [(f.name, False, _column_kind(inner_place(f, policy))) for f in fields]
            names = {field.name for field in fields}
            fits = fields and len(names) == len(fields) and all(kind for _, _, kind in kinds)
            return ("struct", kinds) if fits else None
        case MapType():
            return None
        case BinaryType():
            return ("bytes",)
        case DateType():
            return ("date",)
        case _:
            return native_kind(data_type, unit, NO_POLICY)


def _plain(node: Node, place: _Place) -> _How:  # noqa: C901, PLR0911, PLR0912 - a case a kind
    data_type, unit, _ = place
    match node:
        case Primitive("boolean"):
            return ("boolean",) if isinstance(data_type, BooleanType) else _NEVER
        case Primitive("int" | "long" as name, None):
            return _whole(name, place)
        case Primitive("int" | "long" as name, Logical(of)):
            return _time(name, of, place)
        case Primitive("float" | "double" as name):
            return (name,) if isinstance(data_type, _NUMBERS) else _NEVER
        case Primitive("bytes", Logical("decimal", scale)):
            return ("decimal", scale, None) if isinstance(data_type, _NUMBERS) else _NEVER
        case Fixed(size, Logical("decimal", scale)) if 0 < size <= MAX_DECIMAL_BYTES:
            return ("decimal", scale, size) if isinstance(data_type, _NUMBERS) else _NEVER
        case Primitive("bytes", None):
            return ("bytes", None) if isinstance(data_type, BinaryType) else _NEVER
        case Fixed(size, None):
            return ("bytes", size) if isinstance(data_type, BinaryType) else _NEVER
        case Fixed(_, Logical("uuid")):
            return ("uuid",) if isinstance(data_type, StringType) else _NEVER
        case Enum(symbols):
            short = all(len(symbol) <= _MAX_SYMBOL for symbol in symbols)
            fits = short and _takes_text(place)
            return ("symbols", list(_encoded(symbols))) if fits else _NEVER
        case Primitive("string", Logical(of)) if of in CONNECT_TEXT_TIMES:
            in_zone = isinstance(data_type, DateType | _MOMENTS) and unit is None
            return ("text",) if not in_zone and _takes_text(place) else _NEVER
        case Primitive("string"):
            return ("text",) if _takes_text(place) else _NEVER
        case _:
            return _NEVER


def _takes_text(place: _Place) -> bool:
    """Whether the column reads texts as JSON's are read."""
    data_type = place[0]
    nested = isinstance(data_type, ListType | MapType | StructType | BinaryType)
    return not nested and native_kind(*place) is not None


def _encoded(symbols: Sequence[str]) -> Iterator[bytes]:
    """Lone surrogates become bytes that are no text, so that such a symbol is in doubt."""
    return (symbol.encode("utf-8", "surrogatepass") for symbol in symbols)


def _whole(name: str, place: _Place) -> _How:
    data_type, unit, policy = place
    if isinstance(data_type, _NUMBERS):
        return (name,)
    if isinstance(data_type, _MOMENTS) and unit is not None:
        return _moment(name, _NS_PER[unit])
    if isinstance(data_type, _TEXTS):
        taken = accepted_kinds(kind_of_type(data_type), policy, unit)
        return (name,) if JsonKind.NUMBER in taken else _NEVER
    return _NEVER


def _moment(name: str, ns: int) -> _How:
    common = gcd(ns, NS_PER_US)
    return ("time", ns // common, NS_PER_US // common, name == "int")


def _time(name: str, logical: str, place: _Place) -> _How:
    """How to read numbers that are times by their schema."""
    data_type, unit, _ = place
    if logical in CONNECT_TIMES:
        is_time = isinstance(data_type, DateType | _MOMENTS) and unit is None
        return _of_time(name, CONNECT_TIMES[logical](1), place) if is_time else _whole(name, place)
    if logical == "date":
        return _of_time(name, Day(1), place)
    kind, _, of = logical.rpartition("-")
    if kind == "timestamp":
        return _of_time(name, Instant(_NS_PER[of]), place)
    if kind == "local-timestamp":
        return _of_time(name, LocalTime(_NS_PER[of]), place)
    return _NEVER


def _of_time(name: str, made: TypedTime, place: _Place) -> _How:
    """How to read numbers that count times; `made` is the time of 1."""
    data_type, _, policy = place
    taken = accepted_typed_kinds(kind_of_type(data_type), policy)
    match made:
        case Day():
            fits = isinstance(data_type, DateType) and TypedKind.DAY in taken
            return ("day",) if fits else _NEVER
        case Instant(ns) if isinstance(data_type, _MOMENTS) and TypedKind.INSTANT in taken:
            return _moment(name, ns)
        case LocalTime(ns) if isinstance(data_type, _MOMENTS) and TypedKind.LOCAL_TIME in taken:
            return _moment(name, ns) if policy.timezone == _UTC else _NEVER
        case _:
            return _NEVER
