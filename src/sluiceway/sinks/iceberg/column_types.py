"""Column types <-> Iceberg types; columns of a table compared with a route's columns.

Source: Iceberg table spec, "Schemas and Data Types" and "Schema Evolution".
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import count

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    BinaryType as IcebergBinary,
)
from pyiceberg.types import (
    BooleanType as IcebergBoolean,
)
from pyiceberg.types import (
    DateType as IcebergDate,
)
from pyiceberg.types import (
    DecimalType as IcebergDecimal,
)
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    TimestamptzType,
)
from pyiceberg.types import (
    FloatType as IcebergFloat,
)
from pyiceberg.types import (
    IntegerType as IcebergInteger,
)
from pyiceberg.types import (
    ListType as IcebergList,
)
from pyiceberg.types import (
    MapType as IcebergMap,
)
from pyiceberg.types import (
    StringType as IcebergString,
)
from pyiceberg.types import (
    StructType as IcebergStruct,
)
from pyiceberg.types import (
    TimestampType as IcebergTimestamp,
)

from sluiceway.types.hive_types import format_hive_type
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
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

_TO: Mapping[DataType, IcebergType] = {
    BooleanType(): IcebergBoolean(),
    IntegerType(8): IcebergInteger(),
    IntegerType(16): IcebergInteger(),
    IntegerType(32): IcebergInteger(),
    IntegerType(64): LongType(),
    FloatType(32): IcebergFloat(),
    FloatType(64): DoubleType(),
    StringType(): IcebergString(),
    BinaryType(): IcebergBinary(),
    DateType(): IcebergDate(),
    TimestampType(): IcebergTimestamp(),
    LocalTimestampType(): TimestamptzType(),
}
_FROM: Mapping[IcebergType, DataType] = {
    IcebergBoolean(): BooleanType(),
    IcebergInteger(): IntegerType(32),
    LongType(): IntegerType(64),
    IcebergFloat(): FloatType(32),
    DoubleType(): FloatType(64),
    IcebergString(): StringType(),
    IcebergBinary(): BinaryType(),
    IcebergDate(): DateType(),
    IcebergTimestamp(): TimestampType(),
    TimestamptzType(): LocalTimestampType(),
}


def to_iceberg(data_type: DataType, ids: Iterator[int] | None = None) -> IcebergType:
    """Iceberg's type for a column type.

    Called where a table is created or gets columns, and where one is compared.

    Args:
        data_type: Any column type; `tinyint` and `smallint` become int, text of limited length
            string, whose limits the decoder still checks.
        ids: Field ids for what is inside; a catalog gives its own when a table is created.
    """
    ids = ids or count(1)
    match data_type:
        case VarcharType() | CharType():
            return IcebergString()
        case DecimalType(precision, scale):
            return IcebergDecimal(precision, scale)
        case ListType(element):
            return IcebergList(next(ids), to_iceberg(element, ids), element_required=False)
        case MapType(key, value):
            return IcebergMap(
                next(ids),
                to_iceberg(key, ids),
                next(ids),
                to_iceberg(value, ids),
                value_required=False,
            )
        case StructType(fields):
            return IcebergStruct(
                *(
                    NestedField(next(ids), field.name, to_iceberg(field.type, ids), required=False)
                    for field in fields
                )
            )
        case _:
            return _TO[data_type]


def iceberg_schema(fields: tuple[Field, ...], *, key: tuple[str, ...] = ()) -> IcebergSchema:
    """A schema for a new table: every column optional except its key's, ids in order.

    `required` is a rule for input, which the decoder holds. Another writer could never fill a
    column with null that the table requires.
    """
    ids = count(1)
    named = {name.lower() for name in key}
    made = [
        NestedField(
            next(ids),
            field.name,
            to_iceberg(field.type, ids),
            required=field.name.lower() in named,
        )
        for field in fields
    ]
    return IcebergSchema(*made, identifier_field_ids=[of.field_id for of in made if of.required])


def from_iceberg(iceberg_type: IcebergType) -> DataType:
    """Column type of an Iceberg type.

    Raises:
        ValueError: No column type holds its values: time, uuid, fixed, nanoseconds, variant.
    """
    match iceberg_type:
        case IcebergDecimal():
            return DecimalType(iceberg_type.precision, iceberg_type.scale)
        case IcebergList():
            return ListType(from_iceberg(iceberg_type.element_type))
        case IcebergMap():
            key, value = iceberg_type.key_type, iceberg_type.value_type
            return MapType(from_iceberg(key), from_iceberg(value))
        case IcebergStruct():
            fields = iceberg_type.fields
            return StructType(tuple(Field(f.name, from_iceberg(f.field_type)) for f in fields))
        case _ if iceberg_type in _FROM:
            return _FROM[iceberg_type]
        case _:
            raise ValueError(f"{iceberg_type} is a type that is not written here")


def type_problem(  # noqa: PLR0911 - one answer a kind of type
    data_type: DataType, held: IcebergType, *, name: str
) -> str | None:
    """Why values of a column type cannot be written into a column of the table, or None.

    A column that the table has widened since still takes the narrower values: readers widen them.

    Args:
        data_type: What the route makes.
        held: What the table has.
        name: Name of the column, for the answer; inside of it with dots.
    """
    match data_type, held:
        case ListType(element), IcebergList():
            if held.element_required:
                return f"the items of {name} are required in the table, and may be null here"
            return type_problem(element, held.element_type, name=f"{name}.element")
        case MapType(key, value), IcebergMap():
            if held.value_required:
                return f"the values of {name} are required in the table, and may be null here"
            return type_problem(key, held.key_type, name=f"{name}.key") or type_problem(
                value, held.value_type, name=f"{name}.value"
            )
        case StructType(fields), IcebergStruct():
            return _struct_problem(fields, held, name)
        case DecimalType(precision, scale), IcebergDecimal():
            fits = held.scale == scale and held.precision >= precision
            return None if fits else _differs(name, data_type, held)
        case IntegerType(), LongType():
            return None
        case FloatType(), DoubleType():
            return None
        case ((ListType() | MapType() | StructType() | DecimalType()), _):
            return _differs(name, data_type, held)
        case _:
            same = to_iceberg(data_type) == held
            return None if same else _differs(name, data_type, held)


def _struct_problem(fields: tuple[Field, ...], held: IcebergStruct, name: str) -> str | None:
    inside = {field.name.lower(): field for field in held.fields}
    for field in fields:
        found = inside.pop(field.name.lower(), None)
        if found is None:
            return f"field {name}.{field.name} is missing"
        if found.required:
            return f"field {name}.{field.name} is required in the table, and may be null here"
        problem = type_problem(field.type, found.field_type, name=f"{name}.{field.name}")
        if problem is not None:
            return problem
    needed = [field.name for field in inside.values() if field.required]
    return f"field {name}.{needed[0]} is required, and nothing fills it" if needed else None


def _differs(name: str, data_type: DataType, held: IcebergType) -> str:
    return f"column {name} is {held}, expected {to_iceberg(data_type)} ({_hive(data_type)})"


def _hive(data_type: DataType) -> str:
    return format_hive_type(data_type)


def own_columns(
    schema: IcebergSchema, names: Collection[str]
) -> tuple[dict[str, NestedField], list[tuple[str, str]]]:
    """Columns of a table by name in lower case; of two that differ in case, the one of the name.

    Args:
        schema: Schema of the table.
        names: Names that the route fills, as it spells them.

    Returns:
        The columns; and pairs of which none is spelt as a name, where the first one is taken.
    """
    found: dict[str, NestedField] = {}
    twins: list[tuple[str, str]] = []
    for field in schema.fields:
        first = found.setdefault(field.name.lower(), field)
        if first is field or first.name in names:
            continue
        if field.name in names:
            found[field.name.lower()] = field
        else:
            twins.append((first.name, field.name))
    return found, twins


def find_column(schema: IcebergSchema, name: str) -> NestedField:
    """A column by its exact name, else by the one that differs in case only.

    Raises:
        ValueError: There is none.
    """
    try:
        return schema.find_field(name)
    except ValueError:
        return schema.find_field(name, case_sensitive=False)


def field_ids(schema: IcebergSchema, names: Collection[str] = ()) -> dict[str, int]:
    """Ids of all columns and of what is inside of them, by path in lower case.

    The items of a list are `.element`, keys and values of a map `.key` and `.value`.

    Args:
        schema: Schema of the table.
        names: Names that the route fills, see `own_columns`.
    """
    found: dict[str, int] = {}
    for field in own_columns(schema, names)[0].values():
        _add_ids(found, field.name.lower(), field.field_id, field.field_type)
    return found


def _add_ids(found: dict[str, int], path: str, field_id: int, kind: IcebergType) -> None:
    found[path] = field_id
    match kind:
        case IcebergStruct():
            for field in kind.fields:
                inside = f"{path}.{field.name.lower()}"
                _add_ids(found, inside, field.field_id, field.field_type)
        case IcebergList():
            _add_ids(found, f"{path}.element", kind.element_id, kind.element_type)
        case IcebergMap():
            _add_ids(found, f"{path}.key", kind.key_id, kind.key_type)
            _add_ids(found, f"{path}.value", kind.value_id, kind.value_type)
        case _:
            return
