"""Columns that a Hive table gets while it is filled. Values only, no I/O."""

from collections.abc import Sequence
from dataclasses import replace

from sluiceway.catalog.hive_table import HiveColumn, MetastoreTable
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.added_columns import added_properties
from sluiceway.sinks.contract import ColumnToHave
from sluiceway.types.evolution import is_extension
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import Schema


def columns_with(
    table: MetastoreTable, wanted: Sequence[ColumnToHave]
) -> tuple[tuple[HiveColumn, ...], dict[str, str]]:
    """The table's columns with those that it shall have.

    Returns:
        All columns, new ones last; and properties that say how the changed ones are read.

    Raises:
        TableMismatchError: A column is there with a type that the wanted one does not extend, or
            it is not the metastore that says which columns there are.
    """
    provider = table.parameters.get("spark.sql.sources.provider", "")
    if provider.lower() not in ("", "hive"):
        raise TableMismatchError(
            f"Spark keeps the columns of its {provider} tables in properties of its own",
            where=str(table),
            hint="alter it with Spark SQL",
        )
    columns = {column.name.lower(): column for column in table.layout.columns}
    changed = []
    for item in wanted:
        held = columns.get(item.name)
        if held is None:
            columns[item.name] = HiveColumn(item.name, item.type)
            changed.append(item)
        elif is_extension(held.type, item.type):
            columns[item.name] = HiveColumn(held.name, item.type)
            # Its key is what it was.
            changed.append(replace(item, key=item.name))
        elif not is_extension(item.type, held.type):
            raise TableMismatchError(
                f"column {held.name} is {held.type} and cannot become {item.type}",
                where=str(table),
                hint="somebody else has altered the table; start the job again",
            )
    return tuple(columns.values()), added_properties(changed)


def lacking_columns(table: MetastoreTable, expected: Schema) -> tuple[ColumnToHave, ...]:
    """What has to be added to the table so that it has the expected columns.

    A column that is there with a type which cannot be extended to the expected one is left out.

    Args:
        table: As the metastore has it.
        expected: Columns of the job file.
    """
    held = {column.name.lower(): column.type for column in table.layout.columns}
    found = []
    for field in expected.fields:
        name, wanted = field.name.lower(), format_hive_type(field.type)
        before = held.get(name)
        if before is None or (is_extension(before, wanted) and not is_extension(wanted, before)):
            # A value that lies deeper has no key at the payload's top.
            key = name if len(field.path) > 1 else (field.path or (field.name,))[0]
            found.append(ColumnToHave(name, wanted, key))
    return tuple(found)
