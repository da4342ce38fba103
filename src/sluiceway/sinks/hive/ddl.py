"""Statements of Hive SQL that say what a route does to its table. For people: none is run."""

from collections.abc import Iterable, Sequence

from sluiceway.catalog.hive_table import HiveColumn, MetastoreTable
from sluiceway.sinks.contract import ColumnToHave


def create_statement(table: MetastoreTable) -> str:
    """`CREATE EXTERNAL TABLE`, as it would make the same table.

    Args:
        table: The table as it would be created, with its location.
    """
    layout = table.layout
    lines = [
        f"CREATE EXTERNAL TABLE {_name(table.database)}.{_name(table.name)} (",
        _columns(layout.columns),
        ")",
    ]
    if table.partition_columns:
        lines += ["PARTITIONED BY (", _columns(table.partition_columns), ")"]
    lines.append(f"ROW FORMAT SERDE {_text(layout.serde)}")
    if layout.serde_parameters:
        lines.append(f"WITH SERDEPROPERTIES ({_properties(layout.serde_parameters.items())})")
    lines += [
        f"STORED AS INPUTFORMAT {_text(layout.input_format)}",
        f"  OUTPUTFORMAT {_text(layout.output_format)}",
        f"LOCATION {_text(layout.location)}",
    ]
    properties = [each for each in table.parameters.items() if each[0] != "EXTERNAL"]
    if properties:
        lines.append(f"TBLPROPERTIES ({_properties(properties)})")
    return "\n".join(lines)


def add_columns_statement(table: MetastoreTable, columns: Sequence[ColumnToHave]) -> str:
    """`ALTER TABLE ... ADD COLUMNS`, and a change of each column whose structs get fields."""
    held = {column.name.lower() for column in table.layout.columns}
    name = f"{_name(table.database)}.{_name(table.name)}"
    added = [HiveColumn(each.name, each.type) for each in columns if each.name not in held]
    lines = []
    if added:
        lines.append(f"ALTER TABLE {name} ADD COLUMNS (\n{_columns(added)}\n) CASCADE")
    lines += [
        f"ALTER TABLE {name} CHANGE {_name(each.name)} {_name(each.name)} {each.type} CASCADE"
        for each in columns
        if each.name in held
    ]
    return ";\n".join(lines)


def _columns(columns: Sequence[HiveColumn]) -> str:
    return ",\n".join(f"  {_name(column.name)} {column.type}" for column in columns)


def _properties(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{_text(name)}={_text(value)}" for name, value in sorted(pairs))


def _name(text: str) -> str:
    return f"`{text}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)
    return f"'{shown}'"
