"""Partition specs of a table and of a route; values of files as records have them and as Iceberg.

A record holds the value of each partition field as text, the one that Iceberg shows to people:
`2026-11-20-08` for an hour. Manifests hold it typed.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Context, Decimal

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import BooleanType, DateType, DecimalType, IntegerType, LongType, StringType

from sluiceway.errors import InvariantError, TableMismatchError
from sluiceway.sinks.iceberg.column_types import find_column
from sluiceway.sinks.lake_options import LakeField

_FIRST_PARTITION_ID = 1000
_EPOCH_YEAR = 1970
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_MONTHS = 12
_HOURS = 24
# Decimals of a table have up to 38 digits, Python's own context rounds to 28.
_EXACT = Context(prec=76)


def spec_to_create(fields: Sequence[LakeField], schema: IcebergSchema) -> PartitionSpec:
    """The partition spec of a new table."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=find_column(schema, field.column).field_id,
                field_id=_FIRST_PARTITION_ID + index,
                transform=transform_of(field),
                name=field.name,
            )
            for index, field in enumerate(fields)
        )
    )


def transform_of(field: LakeField) -> "Transform[object, object]":
    """Iceberg's transform of a field."""
    return parse_transform(field.transform)


def find_spec(
    specs: Sequence[PartitionSpec], default: int, fields: Sequence[LakeField], schema: IcebergSchema
) -> PartitionSpec:
    """The spec of a table that the route's partition rules make values for.

    The default one if it fits, else an older one: files may be added under any spec.

    Raises:
        TableMismatchError: None of them fits; says what the table has.
    """
    ordered = sorted(specs, key=lambda spec: (spec.spec_id != default, -spec.spec_id))
    wanted = [_key(field, schema) for field in fields]
    for spec in ordered:
        if sorted((f.source_id, str(f.transform)) for f in spec.fields) == sorted(wanted):
            return spec
    held = ordered[0]
    raise TableMismatchError(
        f"the table is partitioned by {_spec_text(held, schema)}, the job file says "
        f"{', '.join(f'{f.transform}({f.column})' for f in fields) or 'nothing'}",
        hint="write table.partition_by as the table has it; an Iceberg column is partitioned by "
        "{column: NAME, transform: identity | year | month | day | hour | bucket[N] | "
        "truncate[W]}",
    )


def _key(field: LakeField, schema: IcebergSchema) -> tuple[int, str]:
    try:
        source = find_column(schema, field.column).field_id
    except ValueError:
        return -1, field.transform
    return source, str(transform_of(field))


def _spec_text(spec: PartitionSpec, schema: IcebergSchema) -> str:
    named = []
    for field in spec.fields:
        column = schema.find_column_name(field.source_id) or f"a dropped column {field.source_id}"
        named.append(f"{field.transform}({column})")
    return ", ".join(named) or "nothing"


def partition_record(
    texts: Sequence[str | None],
    fields: Sequence[LakeField],
    spec: PartitionSpec,
    schema: IcebergSchema,
) -> Record:
    """A file's partition as a manifest of `spec` holds it.

    Args:
        texts: Values as the ledger's record has them, one for each of `fields`.
        fields: Fields of the route.
        spec: Spec that `find_spec` has found for them, in whatever order of its own.
        schema: A schema of the table that has the source columns.

    Raises:
        InvariantError: A text is none of the transform.
    """
    by_key = {_key(field, schema): (field, text) for field, text in zip(fields, texts, strict=True)}
    values = []
    for field in spec.fields:
        _, text = by_key[field.source_id, str(field.transform)]
        values.append(None if text is None else _value(text, field, schema))
    return Record(*values)


def _value(text: str, field: PartitionField, schema: IcebergSchema) -> object:
    try:
        if isinstance(field.transform, IdentityTransform):
            return _plain_value(text, schema.find_type(field.source_id))
        return transformed_value(text, str(field.transform), schema.find_type(field.source_id))
    except (ValueError, ArithmeticError) as error:
        raise InvariantError(
            f"{text!r} is no value of the partition field {field.name}: {error}"
        ) from error


def transformed_value(text: str, transform: str, source: object) -> object:
    """What a manifest holds for the shown text of a transformed value.

    Raises:
        ValueError: The text is none.
    """
    name = transform.partition("[")[0]
    if name == "bucket":
        return int(text)
    if name == "truncate":
        return _plain_value(text, source)
    if name == "day":
        return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    parts = [int(part) for part in text.split("-")]
    if name == "year" and len(parts) == 1:
        return parts[0] - _EPOCH_YEAR
    if name == "month" and len(parts) == 2:  # noqa: PLR2004 - year and month
        return (parts[0] - _EPOCH_YEAR) * _MONTHS + parts[1] - 1
    if name == "hour" and len(parts) == 4:  # noqa: PLR2004 - year, month, day and hour
        days = date(*parts[:3]).toordinal() - _EPOCH_ORDINAL
        return days * _HOURS + parts[3]
    raise ValueError(f"{text!r} is no {name}")


def _plain_value(text: str, kind: object) -> object:
    match kind:
        case StringType():
            return text
        case BooleanType():
            return {"true": True, "false": False}[text]
        case IntegerType() | LongType():
            return int(text)
        case DateType():
            return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
        case DecimalType():
            return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
        case _:
            raise ValueError(f"a column of type {kind} gives no partition values here")
