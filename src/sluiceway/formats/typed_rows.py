"""Rows of binary formats: a record's values -> the route's columns, exactly."""

from collections.abc import Mapping

from sluiceway.convert.exact_values import compile_field
from sluiceway.types.schema import Schema, inner_settings


class TypedRows:
    """Makes rows of records. Created once per task.

    Args:
        schema: The table's columns; `Field.path` says where in the record each one is.

    Raises:
        ValueError: No value of a format fits a column.
    """

    def __init__(self, schema: Schema) -> None:
        fields = [inner_settings(field) for field in schema.fields]
        self._readers = [compile_field(field, field.path or (field.name,)) for field in fields]

    def row(self, record: Mapping[str, object]) -> list[object]:
        """One value a column, as `pa.array` takes it for the column's Arrow type.

        Called once a payload.

        Args:
            record: Values by field: as in JSON, or as in `convert.typed_values`.

        Raises:
            DirtyValueError: The row is dirty; says why and where.
        """
        return [read(record) for read in self._readers]


def check_columns(schema: Schema) -> None:
    """Refuse columns that no format can fill. Called when a decoder is made.

    Raises:
        ValueError: There is no column, or two have the same name.
    """
    names = [field.name for field in schema.fields]
    if not names:
        raise ValueError("the table has no column to read")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"columns have the same name: {', '.join(twice)}")
