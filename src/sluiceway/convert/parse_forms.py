"""The form in which Arrow's parser reads each column, by what recent blocks needed.

A column is read in its narrow form until one of its numbers does not fit; then in the wide form,
for some blocks. The wide form costs more, and a failing narrow call costs all of it. No result
depends on the form.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import json as arrow_json

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

# Arrow multiplies a parsed decimal up to the column's scale and does not see that the product wraps
# around. It checks the digits that were parsed, so precision + scale within these bounds keeps
# every product in range.
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
        wide: Numbers of the columns in the wide form.

    Returns:
        One field for each first key; None when the fast path cannot read this table. It cannot read
        a map, no column at all, days as numbers, or two columns that want the same key in different
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
    """Whether a column holds numbers that the wide form reads differently."""
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
    """A decimal type with more places than `scale` and, in front, all that `precision` allows."""
    places = min(scale + WIDE_SPARE_PLACES, (SAFE_DIGITS_256 - precision + scale) // 2)
    return pa.decimal256(SAFE_DIGITS_256 - places, places)


WIDE_BLOCKS = 64


class ParseForms:
    """Forms of a table's columns. Created once a task, used by one thread.

    Args:
        schema: The table's columns.
        narrow: Schema with all columns in the narrow form.
        wide: Schema with every number in the wide form.
        refuses_extra: Whether the parser fails for keys that no column reads; else it ignores them.
    """

    def __init__(
        self, schema: Schema, narrow: pa.Schema, wide: pa.Schema, *, refuses_extra: bool = False
    ) -> None:
        self._extra = "error" if refuses_extra else "ignore"
        self._schema = schema
        self._wide_schema = wide
        self._numeric = frozenset(
            index for index, column in enumerate(schema.fields) if has_wide_form(column)
        )
        self._left: dict[int, int] = {}
        self._options = {
            frozenset[int](): self._requested(narrow),
            self._numeric: self._requested(wide),
        }
        self._current = frozenset[int]()

    @classmethod
    def for_schema(cls, schema: Schema, *, refuses_extra: bool = False) -> "ParseForms | None":
        """Make the forms for a table. Called once a task.

        Returns:
            None when the fast path cannot read such a table.
        """
        every = range(len(schema.fields))
        narrow, wide = parse_schema(schema, wide=()), parse_schema(schema, wide=every)
        if narrow is None or wide is None:
            return None
        return cls(schema, narrow, wide, refuses_extra=refuses_extra)

    def _requested(self, schema: pa.Schema) -> arrow_json.ParseOptions:
        return arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=self._extra
        )

    @property
    def options(self) -> arrow_json.ParseOptions:
        """The current options for the parser."""
        found = self._options.get(self._current)
        if found is None:
            # Two columns of one key have one form: then all are wide.
            mixed = parse_schema(self._schema, wide=self._current)
            found = self._requested(self._wide_schema if mixed is None else mixed)
            self._options[self._current] = found
        return found

    def widen(self, columns: Collection[int] | None = None) -> bool:
        """Use the wide form of columns from now on, for `WIDE_BLOCKS` blocks.

        Args:
            columns: Numbers of the columns; None for all.

        Returns:
            False when all of them that hold numbers had that form already.
        """
        wanted = self._numeric if columns is None else self._numeric.intersection(columns)
        if wanted <= self._current:
            return False
        self._left.update(dict.fromkeys(wanted, WIDE_BLOCKS))
        self._current = frozenset(self._left)
        return True

    def end_block(self) -> None:
        """Count a block; forms that were requested long ago are dropped."""
        if self._left:
            self._left = {index: left - 1 for index, left in self._left.items() if left > 1}
            self._current = frozenset(self._left)
