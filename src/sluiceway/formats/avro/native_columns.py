"""Plans for the native module to read Avro: payloads of one schema -> columns, at any depth."""

from collections.abc import Iterator, Sequence

from sluiceway.convert.native_blocks import inner_place
from sluiceway.convert.typed_values import Day, Instant, LocalTime, TypedTime
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
from sluiceway.formats.native_rows import (
    MOMENTS,
    NEVER,
    NS_PER,
    NUMBERS,
    How,
    NativeRowReader,
    Place,
    column_kind,
    column_place,
    takes_kind,
    takes_text,
    unit_of,
    whole,
)
from sluiceway.host.native_module import native_module
from sluiceway.types.matrix import JsonKind, kind_of_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    Field,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
)
from sluiceway.types.typed_matrix import TypedKind, accepted_typed_kinds

_NULL = Primitive("null")
_UTC = "UTC"
_OF_NULL: How = ("null",)
_SIZES = {"float": 4, "double": 8}
_NAMED = {"null", "boolean", "int", "long"}


class NativeAvro(NativeRowReader):
    """Reads payloads of one schema into columns. Created once a schema and task."""

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
        kinds = [column_kind(column_place(field)) for field in schema.fields]
        plan = _Plan(connect=connect)
        wanted = [(of.path or (of.name,), number) for number, of in enumerate(schema.fields)]
        steps = plan.steps(node, wanted, schema.fields)
        if steps is None or None in kinds:
            return None
        columns = [(kind, of.required) for kind, of in zip(kinds, schema.fields, strict=True)]
        return cls(schema, module.AvroReader(columns, steps, plan.records))


class _Plan:
    """Plans the reading of one schema's records.

    Attributes:
        records: Records that are skipped, with the layout of their fields.
    """

    def __init__(self, *, connect: bool) -> None:
        self.records: list[list[How]] = []
        self._connect = connect
        self._numbers: dict[int, int] = {}

    # The record, by the paths of columns

    def steps(
        self,
        node: AvroRecord,
        wanted: Sequence[tuple[tuple[str, ...], int]],
        columns: Sequence[Field],
    ) -> list[How] | None:
        """How to read the fields of a record; None where that is not possible.

        Args:
            node: The record.
            wanted: For each column in the record: the path from there, and its number.
            columns: All columns.
        """
        names = {name for name, _ in node.fields}
        steps: list[How] = [("absent", n) for path, n in wanted if path[0] not in names]
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

    def _taker(self, node: Node, number: int, field: Field) -> How | None:
        how = self.how(node, column_place(field))
        return None if how == NEVER else ("column", number, how)

    def _inside(
        self,
        node: Node,
        wanted: Sequence[tuple[tuple[str, ...], int]],
        columns: Sequence[Field],
    ) -> How | None:
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

    def skip(self, node: Node) -> How:  # noqa: C901, PLR0911 - a case a kind
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

    def how(self, node: Node, place: Place) -> How:
        """How a value becomes a column's; `NEVER` where the slow path decides."""
        data_type, unit, policy = place
        match node:
            case Union(branches):
                found = [self.how(branch, place) for branch in branches]
                read = [how for how in found if how not in (NEVER, _OF_NULL)]
                return ("union", found) if read else NEVER
            case Primitive("null"):
                return _OF_NULL
            case Array(items) if isinstance(data_type, ListType) and least_bytes(items):
                inner = self.how(items, (data_type.element, unit, policy))
                return NEVER if inner == NEVER else ("list", least_bytes(items), inner)
            case Map(values) if isinstance(data_type, MapType):
                inner = self.how(values, (data_type.value, unit, policy))
                return NEVER if inner == NEVER else ("map", inner)
            case AvroRecord() if self._connect and is_variable_decimal(node):
                return self._variable(node, data_type)
            case AvroRecord() if isinstance(data_type, StructType):
                return self._struct(node, data_type, policy)
            case Array() | Map() | AvroRecord():
                return NEVER
            case _:
                return _plain(node, place)

    def _variable(self, node: AvroRecord, data_type: DataType) -> How:
        usual = [("scale", Primitive("int")), ("value", Primitive("bytes"))]
        is_number = isinstance(data_type, NUMBERS)
        return ("variable",) if is_number and node.fields == usual else NEVER

    def _struct(self, node: AvroRecord, data_type: StructType, policy: Policy) -> How:
        numbers = {field.name: number for number, field in enumerate(data_type.fields)}
        parts: list[How] = []
        met = set()
        for name, of in node.fields:
            if name not in numbers:
                parts.append(("skip", self.skip(of)))
                continue
            number = numbers[name]
            field = data_type.fields[number]
            met.add(number)
            how = self.how(of, inner_place(field, policy))
            if how == NEVER:
                return NEVER
            parts.append(("field", number, how, field.required))
        missing = [
            (number, field.required)
            for number, field in enumerate(data_type.fields)
            if number not in met
        ]
        return ("record", parts, missing)


def _plain(node: Node, place: Place) -> How:  # noqa: C901, PLR0911, PLR0912 - a case a kind
    data_type, unit, _ = place
    match node:
        case Primitive("boolean"):
            is_text = takes_kind(place, JsonKind.BOOLEAN)
            return ("boolean",) if is_text or isinstance(data_type, BooleanType) else NEVER
        case Primitive("int" | "long" as name, None):
            return _whole(name, place)
        case Primitive("int" | "long" as name, Logical(of)):
            return _time(name, of, place)
        case Primitive("float" | "double" as name):
            return (name,) if isinstance(data_type, NUMBERS) else NEVER
        case Primitive("bytes", Logical("decimal", scale)):
            return ("decimal", scale, None) if isinstance(data_type, NUMBERS) else NEVER
        case Fixed(size, Logical("decimal", scale)) if 0 < size <= MAX_DECIMAL_BYTES:
            return ("decimal", scale, size) if isinstance(data_type, NUMBERS) else NEVER
        case Primitive("bytes", None):
            return ("bytes", None) if isinstance(data_type, BinaryType) else NEVER
        case Fixed(size, None):
            return ("bytes", size) if isinstance(data_type, BinaryType) else NEVER
        case Fixed(_, Logical("uuid")):
            return ("uuid",) if isinstance(data_type, StringType) else NEVER
        case Enum(symbols):
            return ("symbols", list(_encoded(symbols))) if takes_text(place) else NEVER
        case Primitive("string", Logical(of)) if of in CONNECT_TEXT_TIMES:
            in_zone = isinstance(data_type, DateType | MOMENTS) and unit is None
            return ("text",) if not in_zone and takes_text(place) else NEVER
        case Primitive("string"):
            return ("text",) if takes_text(place) else NEVER
        case _:
            return NEVER


def _encoded(symbols: Sequence[str]) -> Iterator[bytes]:
    """Lone surrogates become bytes that are no text, so that such a symbol is in doubt."""
    return (symbol.encode("utf-8", "surrogatepass") for symbol in symbols)


def _whole(name: str, place: Place) -> How:
    data_type, unit, _ = place
    if isinstance(data_type, MOMENTS) and unit is not None:
        return _moment(name, NS_PER[unit])
    return whole(name, place) or NEVER


def _moment(name: str, ns: int) -> How:
    return ("time", *unit_of(ns), name == "int")


def _time(name: str, logical: str, place: Place) -> How:
    """How to read numbers that are times by their schema."""
    data_type, unit, _ = place
    if logical in CONNECT_TIMES:
        is_time = isinstance(data_type, DateType | MOMENTS) and unit is None
        return _of_time(name, CONNECT_TIMES[logical](1), place) if is_time else _whole(name, place)
    if logical == "date":
        return _of_time(name, Day(1), place)
    kind, _, of = logical.rpartition("-")
    if kind == "timestamp":
        return _of_time(name, Instant(NS_PER[of]), place)
    if kind == "local-timestamp":
        return _of_time(name, LocalTime(NS_PER[of]), place)
    return NEVER


def _of_time(name: str, made: TypedTime, place: Place) -> How:
    """How to read numbers that count times; `made` is the time of 1."""
    data_type, _, policy = place
    taken = accepted_typed_kinds(kind_of_type(data_type), policy)
    match made:
        case Day():
            fits = isinstance(data_type, DateType) and TypedKind.DAY in taken
            return ("day",) if fits else NEVER
        case Instant(ns) if isinstance(data_type, MOMENTS) and TypedKind.INSTANT in taken:
            return _moment(name, ns)
        case LocalTime(ns) if isinstance(data_type, MOMENTS) and TypedKind.LOCAL_TIME in taken:
            return _moment(name, ns) if policy.timezone == _UTC else NEVER
        case _:
            return NEVER
