"""What Arrow's JSON parser is asked for: the tree of keys that the columns' paths make.

Two forms: the narrow one reads each value as its column's type; the wide one reads numbers as
wide decimals, which also takes `12.0`, "12" and too great numbers, so that the check that
follows finds the rows instead of the parser failing without naming one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa

from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    Field,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StructType,
    TimestampType,
)

# Arrow multiplies a parsed decimal up to the column's scale and does not see that the product
# wraps around. It checks the digits that were parsed, so precision + scale within these bounds
# keeps every product in range.
SAFE_DIGITS_128 = 38
SAFE_DIGITS_256 = 76
WIDE_SPARE_PLACES = 20
_INTEGER_DIGITS = 19


@dataclass(slots=True)
class _Keys:
    """Keys below one object, each with its Arrow type or its own keys."""

    children: dict[str, "_Keys | pa.DataType"] = field(default_factory=dict)


def parse_schema(schema: Schema, *, wide: Collection[int]) -> pa.Schema | None:
    """Make the schema that Arrow's parser reads payloads with.

    Called a few times a task.

    Args:
        schema: The table's columns.
        wide: Numbers of the columns that are wanted in the wide form.

    Returns:
        One field for each first key; None when the fast path cannot read this table: a map, no
        column at all, days that come as numbers, or two columns that want the same key in different
        types.
    """
    tree = _Keys()
    for index, column in enumerate(schema.fields):
        found = _parse_type(column.type, column.time_unit, wide=index in wide)
        if found is None or not _place(tree, column.path or (column.name,), found):
            return None
    if not tree.children:
        return None
    return pa.schema([(key, _to_arrow(child)) for key, child in tree.children.items()])


def has_wide_form(column: Field) -> bool:
    """Whether there are numbers in a column that the wide form reads otherwise."""
    narrow, wide = (_parse_type(column.type, column.time_unit, wide=wide) for wide in (False, True))
    return narrow != wide


def _place(tree: _Keys, keys: tuple[str, ...], leaf: "_Keys | pa.DataType") -> bool:
    """Put a leaf or a tree under its keys; False when something else is there."""
    *above, last = keys
    for key in above:
        child = tree.children.setdefault(key, _Keys())
        if not isinstance(child, _Keys):
            return False
        tree = child
    there = tree.children.setdefault(last, leaf)
    if isinstance(there, _Keys) and isinstance(leaf, _Keys) and there is not leaf:
        return all(_place(there, (key,), child) for key, child in leaf.children.items())
    return there is leaf or (not isinstance(there, _Keys) and there == leaf)


def _to_arrow(node: "_Keys | pa.DataType") -> pa.DataType:
    if not isinstance(node, _Keys):
        return node
    return pa.struct([(key, _to_arrow(child)) for key, child in node.children.items()])


def _parse_type(
    data_type: DataType, time_unit: str | None, *, wide: bool
) -> "_Keys | pa.DataType | None":
    match data_type:
        case MapType():
            return None
        case DateType() if time_unit is not None:
            return None
        case StructType(fields):
            return _parse_struct(fields, wide=wide)
        case ListType(element):
            inner = _parse_type(element, time_unit, wide=wide)
            return None if inner is None else pa.list_(_to_arrow(inner))
        case TimestampType() | LocalTimestampType() if time_unit is None:
            return pa.string()
        case TimestampType() | LocalTimestampType():
            return _scalar_type(IntegerType(64), wide=wide)
        case _:
            return _scalar_type(data_type, wide=wide)


def _scalar_type(data_type: DataType, *, wide: bool) -> pa.DataType:
    match data_type:
        case DateType() | BinaryType():
            return pa.string()
        case IntegerType() if wide:
            return _wide_type(_INTEGER_DIGITS, 0)
        case DecimalType(precision, scale):
            return _decimal_type(precision, scale, wide=wide)
        case _:
            return arrow_type(data_type)


def _parse_struct(fields: tuple[Field, ...], *, wide: bool) -> _Keys | None:
    keys = _Keys()
    for inner in fields:
        found = _parse_type(inner.type, inner.time_unit, wide=wide)
        if found is None:
            return None
        keys.children[inner.name] = found
    return keys if keys.children else None


def _decimal_type(precision: int, scale: int, *, wide: bool) -> pa.DataType:
    if wide:
        return _wide_type(precision, scale)
    if precision + scale <= SAFE_DIGITS_128:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale)


def _wide_type(precision: int, scale: int) -> pa.DataType:
    """Room for more places than `scale` and, in front, for all that `precision` allows."""
    places = min(scale + WIDE_SPARE_PLACES, (SAFE_DIGITS_256 - precision + scale) // 2)
    return pa.decimal256(SAFE_DIGITS_256 - places, places)
