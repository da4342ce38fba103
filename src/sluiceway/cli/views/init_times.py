"""Fields with event times, and why other fields have none."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sluiceway.cli.views.init_text import EventTime, time_columns

if TYPE_CHECKING:
    from sluiceway.formats.json.survey import ProposedColumn


def inner_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Times inside of structs."""
    return [
        EventTime(".".join((column.name, *time.path)), time.unit)
        for column in columns
        for time in column.times
        if time.path and time.sure and column.type.startswith("struct<")
    ]


def mixed_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Fields of which some values are no times; those rows become dirty."""
    return [
        EventTime(column.name, time.unit)
        for column in columns
        for time in column.times
        if not time.sure and not time.path
    ]


def fitting(
    times: Sequence[EventTime],
    columns: "Sequence[ProposedColumn]",
    held: Mapping[str, str] | None,
) -> list[EventTime]:
    """The event times that a table's columns can hold.

    Args:
        times: Event times found in the payloads.
        columns: Columns found in the payloads.
        held: Column types of the table, by name in lower case; None when there is no table yet.
    """
    if held is None:
        return list(times)
    seen = {column.name: column.type.lower() for column in columns}
    found = []
    for each in times:
        top = each.field.partition(".")[0]
        needs = seen[top] if each.is_inner else "bigint" if each.unit else "timestamp"
        if held.get(top.lower()) == needs:
            found.append(each)
    return found


def why_no_time(
    columns: "Sequence[ProposedColumn]", name: str, held: Mapping[str, str] | None = None
) -> str:
    """Why a field has no event times, in words.

    Args:
        columns: Columns found in the payloads.
        name: The field as it was typed, or a path.
        held: See `fitting`.
    """
    times = (*time_columns(columns), *inner_times(columns), *mixed_times(columns))
    if held is not None and any(each.field == name for each in times):
        kind = held.get(name.partition(".")[0].lower(), "not there")
        return f"`{name[:60]}` is a time in records, but in the table its column is {kind}"
    top, _, inner = name.partition(".")
    shown = f"`{name[:60]}`"
    column = next((each for each in columns if each.name == top), None)
    if column is None:
        return f"no row has a field `{top[:60]}`"
    if inner and not column.type.startswith("struct<"):
        return f"{shown}: `{top[:60]}` is {column.type or 'no struct'}, which holds no field"
    doubts = [
        each.removeprefix(f"{inner}: ")
        for each in column.doubts
        if not inner or each.startswith(f"{inner}: ")
    ]
    if doubts:
        return f"{shown} cannot say when a row happened: {'; '.join(doubts)}"
    read = f", it is read as {column.type}" if not inner and column.type else ""
    return f"{shown} cannot say when a row happened: no times were seen in it{read}"
