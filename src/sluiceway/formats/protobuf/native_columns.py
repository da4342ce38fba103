"""Plans for the native module to read Protobuf: one message -> columns, at any depth."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sluiceway.convert.native_blocks import inner_place
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
from sluiceway.formats.protobuf.reader import (
    DATE,
    DATE_PARTS,
    DECIMAL_PARTS,
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    meant_by,
)
from sluiceway.formats.protobuf.schema import EnumType, FieldType, MessageType
from sluiceway.formats.protobuf.wire import FIXED32, FIXED64, GROUP_BEGIN, LENGTH, VARINT
from sluiceway.host.native_module import native_module
from sluiceway.types.matrix import JsonKind, kind_of_type
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    DateType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StructType,
)
from sluiceway.types.typed_matrix import TypedKind, accepted_typed_kinds

_FIXED = {
    "fixed32": FIXED32, "sfixed32": FIXED32, "float": FIXED32,
    "fixed64": FIXED64, "sfixed64": FIXED64, "double": FIXED64,
}  # fmt: skip
_CHECKS: dict[str, How] = {
    **dict.fromkeys(("int32", "enum"), ("int32",)),
    **dict.fromkeys(("uint32", "sint32"), ("uint32",)),
    **dict.fromkeys(("int64", "uint64", "sint64"), ("varint",)),
    "bool": ("boolean",),
    **dict.fromkeys(("string", "bytes"), ("sized",)),
    **{kind: ("size", 4 if wire == FIXED32 else 8) for kind, wire in _FIXED.items()},
}
_TIME_PARTS = [("seconds", 1, "int64"), ("nanos", 2, "int32")]
_PART: dict[str, Place] = {
    "bytes": (BinaryType(), None, NO_POLICY),
    "int32": (IntegerType(32), None, NO_POLICY),
}


class _ColumnPath(NamedTuple):
    """A column: its path from a message on, its number there, and what it is."""

    path: tuple[str, ...]
    number: int
    place: Place
    required: bool = False


class NativeProtobuf(NativeRowReader):
    """Reads payloads of one message into columns. Created once a message and task."""

    @classmethod
    def for_message(
        cls, of: MessageType, schema: Schema, *, connect: bool
    ) -> "NativeProtobuf | None":
        """Make the reader for messages of a type.

        Args:
            of: The type.
            schema: The columns, with units and policies passed on to inner fields.
            connect: Whether messages have Kafka Connect's meaning.

        Returns:
            None where the module is not installed, or does not support such messages or columns.
        """
        module = native_module()
        kinds = [column_kind(column_place(field)) for field in schema.fields]
        if module is None or None in kinds:
            return None
        plan = _Plan(connect=connect)
        wanted = [
            _ColumnPath(of.path or (of.name,), number, column_place(of), of.required)
            for number, of in enumerate(schema.fields)
        ]
        try:
            message = plan.message(of, wanted)
        except RecursionError:
            return None
        if message is None or plan.refused:
            return None
        columns = [(kind, of.required) for kind, of in zip(kinds, schema.fields, strict=True)]
        return cls(schema, module.ProtobufReader(columns, message, plan.checks))


class _Plan:
    """Plans the reading of one message.

    Attributes:
        checks: Messages that no column reads, with their fields.
        refused: Whether something has no plan at all.
    """

    def __init__(self, *, connect: bool) -> None:
        self.checks: list[list[How]] = []
        self.refused = False
        self._connect = connect
        self._numbers: dict[int, int] = {}

    def message(
        self, of: MessageType, wanted: Sequence[_ColumnPath], *, in_entry: bool = False
    ) -> How | None:
        """How to read the fields of a message; None where that is not possible.

        Args:
            of: The message.
            wanted: The columns in it.
            in_entry: Whether it is an entry of a map: then each field has a value.
        """
        names = {field.name for field in of.fields}
        if len({field.number for field in of.fields}) < len(of.fields):
            return None
        absent = [(one.number, one.required) for one in wanted if one.path[0] not in names]
        oneofs = {field.oneof for field in of.fields} - {-1}
        places = {oneof: place for place, oneof in enumerate(sorted(oneofs))}
        fields: list[How] = []
        for field in sorted(of.fields, key=lambda field: field.number):
            here = [one for one in wanted if one.path[0] == field.name]
            takers = [
                self._taker(field, one, in_entry=in_entry) for one in here if not one.path[1:]
            ]
            if inner := [one._replace(path=one.path[1:]) for one in here if one.path[1:]]:
                takers.append(self._inside(field, inner))
            if None in takers:
                return None
            check = self._checked(field, read=bool(takers))
            fields.append((check, field.repeated, places.get(field.oneof), takers))
        return (fields, absent, len(places))

    def _taker(self, field: FieldType, one: _ColumnPath, *, in_entry: bool) -> How | None:
        data_type, unit, policy = one.place
        if isinstance(field.of, MessageType) and field.of.is_map_entry:
            if not isinstance(data_type, MapType):
                return None
            # A key is its text, whatever its type is.
            key = _ColumnPath(("key",), 0, (data_type.key, None, Policy(on_lossy="text")))
            value = _ColumnPath(("value",), 1, (data_type.value, unit, policy))
            entry = self.message(field.of, [key, value], in_entry=True)
            return None if entry is None else ("map", one.number, entry, one.required)
        if field.repeated:
            if not isinstance(data_type, ListType):
                return None
            how = self.how(field, (data_type.element, unit, policy))
            return None if how == NEVER else ("list", one.number, how, one.required)
        how = self.how(field, one.place)
        presence = field.has_presence and not in_entry
        return None if how == NEVER else ("one", one.number, how, presence, one.required)

    def _inside(self, field: FieldType, wanted: Sequence[_ColumnPath]) -> How | None:
        """Columns within a message, which may be absent."""
        of = field.of
        if not isinstance(of, MessageType) or field.repeated or _stands_for_value(of):
            return None
        message = self.message(of, wanted)
        return None if message is None else ("inside", message)

    # Values that no column reads

    def _checked(self, field: FieldType, *, read: bool) -> How:
        """Number and wire type of a field, and how to check its values."""
        if isinstance(field.of, MessageType):
            wire = GROUP_BEGIN if field.kind == "group" else LENGTH
            # A field that a column reads is checked by its reading.
            check = ("sized",) if read else self._message_check(field.of)
            return (field.number, wire, False, check)
        check = _CHECKS[field.kind]
        wire = LENGTH if check == ("sized",) else _FIXED.get(field.kind, VARINT)
        return (field.number, wire, field.repeated and wire != LENGTH, check)

    def _message_check(self, of: MessageType) -> How:
        if of.name in (TIMESTAMP, DURATION):
            self.refused |= not _is_time(of)
            return ("timestamp",) if of.name == TIMESTAMP else ("duration",)
        if id(of) not in self._numbers:
            self._numbers[id(of)] = number = len(self.checks)
            self.checks.append([])
            numbers = [field.number for field in of.fields]
            self.refused |= len(set(numbers)) < len(numbers)
            by_number = sorted(of.fields, key=lambda field: field.number)
            self.checks[number] = [self._checked(field, read=False) for field in by_number]
        return ("message", self._numbers[id(of)])

    # Values that columns read

    def how(self, field: FieldType, place: Place) -> How:
        """How a value becomes a column's; `NEVER` where the slow path decides."""
        if isinstance(field.of, MessageType):
            return self._message(field.of, place)
        if isinstance(field.of, EnumType):
            names = sorted((number, name.encode()) for number, name in field.of.names.items())
            return ("symbols", names) if takes_text(place) else NEVER
        return _scalar(field.kind, place)

    def _message(self, of: MessageType, place: Place) -> How:
        data_type, _, policy = place
        if of.name in (TIMESTAMP, DURATION):
            return _time(of, place)
        if of.name in WRAPPERS:
            held = self.message(of, [_ColumnPath(("value",), 0, place)])
            return NEVER if held is None or len(of.fields) != 1 else ("wrapper", held)
        if isinstance(data_type, StructType):
            fields = data_type.fields
            wanted = [
                _ColumnPath((field.name,), number, inner_place(field, policy), field.required)
                for number, field in enumerate(fields)
            ]
            held = self.message(of, wanted)
            return NEVER if held is None else ("struct", held, len(fields))
        if not self._connect or meant_by(of) is None:
            return NEVER
        if of.name == DATE:
            taken = accepted_typed_kinds(kind_of_type(data_type), policy)
            fits = isinstance(data_type, DateType) and TypedKind.DAY in taken
            held = self._parts(of, DATE_PARTS) if fits else None
            return NEVER if held is None else ("date", held)
        held = self._parts(of, DECIMAL_PARTS) if isinstance(data_type, NUMBERS) else None
        return NEVER if held is None else ("decimal", held)

    def _parts(self, of: MessageType, kinds: Mapping[str, str]) -> How | None:
        """Fields of a message that together are one value."""
        usual = not any(field.has_presence for field in of.fields if field.name in kinds)
        wanted = [
            _ColumnPath((name,), at, _PART[kind]) for at, (name, kind) in enumerate(kinds.items())
        ]
        return self.message(of, wanted) if usual else None


def _scalar(kind: str, place: Place) -> How:
    data_type, unit, _ = place
    match kind:
        case "bool":
            is_text = takes_kind(place, JsonKind.BOOLEAN)
            return ("boolean",) if is_text or isinstance(data_type, BooleanType) else NEVER
        case "string":
            return ("text",) if takes_text(place) else NEVER
        case "bytes":
            return ("bytes",) if isinstance(data_type, BinaryType) else NEVER
        case "float" | "double":
            return (kind,) if isinstance(data_type, NUMBERS) else NEVER
        case _ if isinstance(data_type, MOMENTS) and unit is not None:
            return ("moment", kind, *unit_of(NS_PER[unit]))
        case _:
            return whole(kind, place) or NEVER


def _time(of: MessageType, place: Place) -> How:
    data_type, _, policy = place
    if not _is_time(of):
        return NEVER
    if of.name == DURATION:
        return ("duration",) if isinstance(data_type, NUMBERS) else NEVER
    taken = accepted_typed_kinds(kind_of_type(data_type), policy)
    fits = isinstance(data_type, MOMENTS) and TypedKind.INSTANT in taken
    return ("timestamp",) if fits else NEVER


def _is_time(of: MessageType) -> bool:
    """Whether a time has the fields that it has by definition."""
    fields = [(field.name, field.number, field.kind) for field in of.fields]
    return sorted(fields) == sorted(_TIME_PARTS) and not any(each.repeated for each in of.fields)


def _stands_for_value(of: MessageType) -> bool:
    return of.name in WRAPPERS or of.name in (TIMESTAMP, DURATION)
