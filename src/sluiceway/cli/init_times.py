"""Fields that say when a row happened, and why another one does not."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sluiceway.cli.init_text import EventTime, time_columns

if TYPE_CHECKING:
    from sluiceway.formats.json.survey import ProposedColumn

_INNER_NUMBER = re.compile(r"(?P<path>[\w.]+): may be (?P<unit>s|ms|us|ns) since 1970")
_INNER_TEXT = re.compile(r"(?P<path>[\w.]+): times as text")
_MIXED = re.compile(r"text that looks like (?P<kinds>.+)")
_NO_TIMES = {"text", "empty"}
_TIMES = ({"instant"}, {"local time"})


def inner_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Times inside of structs, by the doubts that a look at their values left."""
    found = []
    for column in columns:
        if not column.type.startswith("struct<"):
            continue
        for doubt in column.doubts:
            told = _INNER_NUMBER.match(doubt) or _INNER_TEXT.match(doubt)
            if told is not None:
                unit = told.groupdict().get("unit") or ""
                found.append(EventTime(f"{column.name}.{told['path']}", unit))
    return found


def mixed_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Fields of texts that are times but for some; those rows become dirty."""
    return [EventTime(column.name) for column in columns if any(_are_mixed(column.doubts))]


def _are_mixed(doubts: Sequence[str]) -> Iterator[bool]:
    for doubt in doubts:
        told = _MIXED.fullmatch(doubt)
        if told is not None:
            kinds = {each.partition(" ")[2] for each in told["kinds"].split(", ")}
            yield kinds - _NO_TIMES in _TIMES


def fitting(
    times: Sequence[EventTime],
    columns: "Sequence[ProposedColumn]",
    held: Mapping[str, str] | None,
) -> list[EventTime]:
    """Those that the columns of a table can hold.

    Args:
        times: Of the payloads.
        columns: That were seen in them.
        held: Of the table, by name in lower case; None when there is no table yet.
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
    """Why a field is no event time, in words.

    Args:
        columns: That were seen.
        name: The field as it was typed, perhaps a path.
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
