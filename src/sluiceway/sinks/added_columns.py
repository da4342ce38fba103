"""Columns that a route adds to its table, and the properties by which it knows them again."""

from collections.abc import Iterable, Mapping
from zoneinfo import available_timezones

from sluiceway.errors import TableMismatchError
from sluiceway.sinks.contract import ColumnToHave
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import DataType, Field

KEY_PROPERTY = "sluiceway.key."
"""Before a column's name, in the table's properties: its key in the payload, if spelt otherwise.

A metastore keeps names of columns in lower case only."""
PATH_MARK = "$."
"""Before keys with dots between, in that property: of a value that is not at the payload's top."""
TIMEZONE_PROPERTY = "sluiceway.timezone."
"""Before a column's name: the zone of times that name none; of columns that a route has added."""


def added_field(name: str, kind: DataType, table: str, properties: Mapping[str, str]) -> Field:
    """A column that the job file does not declare, by the properties of its table.

    Args:
        name: Name of the column, as the table has it.
        kind: Its type.
        table: For the error.
        properties: Properties of the table.

    Raises:
        TableMismatchError: Its property names no zone.
    """
    key = properties.get(f"{KEY_PROPERTY}{name.lower()}")
    zone = properties.get(f"{TIMEZONE_PROPERTY}{name.lower()}")
    if zone is not None and zone not in available_timezones():
        raise TableMismatchError(
            f"the property {TIMEZONE_PROPERTY}{name.lower()} names no time zone: {zone[:60]!a}",
            where=table,
            hint="set it to an IANA name such as UTC or Asia/Shanghai, or remove it",
        )
    policy = NO_POLICY if zone is None else Policy(timezone=zone)
    path: tuple[str, ...] = () if key is None else (key,)
    if key is not None and key.startswith(PATH_MARK):
        path = tuple(key.removeprefix(PATH_MARK).split("."))
    return Field(name, kind, path=path, policy=policy)


def added_properties(columns: Iterable[ColumnToHave]) -> dict[str, str]:
    """The properties by which `added_field` knows columns that a table gets."""
    found = {}
    for each in columns:
        if each.key != each.name:
            found[f"{KEY_PROPERTY}{each.name}"] = each.key
        if each.timezone:
            found[f"{TIMEZONE_PROPERTY}{each.name}"] = each.timezone
    return found
