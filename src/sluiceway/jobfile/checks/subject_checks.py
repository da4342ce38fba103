"""Checks around `table.columns: from_registry`, as far as the job file alone allows."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table import FROM_REGISTRY, takes_from_registry
from sluiceway.jobfile.blocks.written_columns import (
    CHANGES,
    changes_of,
    written_columns,
    written_name,
)
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

_SUBJECT = ("table", "subject")
_COLUMNS = ("table", "columns")
_COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ORIGINS = ("path", "constant", "expression")


def check_subject(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Check where columns come from a registry's schema. Called once per load.

    Args:
        data: The file as plain data; parts of the wrong shape are ignored.
        positions: Positions in the file.
    """
    table, formats = mapping(data.get("table")), mapping(data.get("format"))
    subject = mapping(table.get("subject"))
    if not takes_from_registry(table):
        if "subject" in table:
            text = f"expected `subject` with `columns: {FROM_REGISTRY}` only"
            yield JobFileProblem(
                positions.key(_SUBJECT), text, "remove it, or take the columns from it"
            )
        return
    if "debezium" in formats:
        text = f"{quoted(FROM_REGISTRY)} with the format debezium, whose schemas are of envelopes,"
        todo = "list the columns"
        at = positions.value(_COLUMNS)
        yield JobFileProblem(at, f"{text} is not in this version", todo, not_yet=True)
    elif formats and not any("registry" in mapping(block) for block in formats.values()):
        text = f"expected a format with a `registry` for {quoted(FROM_REGISTRY)}"
        todo = "name one, or list the columns: the command `infer` prints them"
        yield JobFileProblem(positions.value(_COLUMNS), text, todo)
    topics = mapping(data.get("source")).get("topics")
    if "name" not in subject and not (isinstance(topics, tuple) and len(topics) == 1):
        text = f"expected the subject's name: {quoted(FROM_REGISTRY)} has no single topic to go by"
        yield JobFileProblem(
            positions.value(_COLUMNS), text, "write `subject: {name: NAME}` below `table`"
        )
    if "message" in subject and formats and "protobuf" not in formats:
        text = "expected `message` with the format protobuf only"
        yield JobFileProblem(positions.key((*_SUBJECT, "message")), text, "remove it")
    yield from _check_left_out(data, positions)
    yield from _check_overrides(data, positions)
    yield from _check_added(data, positions)
    yield from _check_gone(data, positions)


def _check_left_out(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    changes = changes_of(data)
    overrides = mapping(changes.get("override"))
    seen: set[str] = set()
    for index, field in _left_out(changes):
        place = (*CHANGES, "except", index)
        if field in seen:
            text = f"expected each field once, got {quoted(field)} again"
            yield JobFileProblem(positions.value(place), text, "remove one")
        elif field in overrides:
            line = positions.key((*CHANGES, "override", field)).line
            text = f"expected fields that are not overridden, got {quoted(field)}"
            yield JobFileProblem(positions.value(place), text, f"remove it here or on line {line}")
        seen.add(field)
    if not seen:
        return
    # An excluded field is a field that no column reads, and these settings decide about such
    # fields.
    formats, evolution = mapping(data.get("format")), mapping(data.get("table")).get("evolution")
    rule = ""
    if "json" in formats and evolution in ("add_columns", "quarantine"):
        rule = f"evolution: {evolution}"
    elif mapping(formats, "json").get("unknown_fields") == "dirty":
        rule = "unknown_fields: dirty"
    if rule:
        text = f"expected no `except` with `{rule}`, which is for fields that no column reads"
        todo = "override the fields with `transient: true`: they are read, and not in the table"
        yield JobFileProblem(positions.key((*CHANGES, "except")), text, todo)


def _check_overrides(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    for field, change in mapping(changes_of(data).get("override")).items():
        at = positions.key((*CHANGES, "override", field))
        if "." in field:
            first = field.partition(".")[0]
            text = f"expected a field at the top of the schema, got {quoted(field)}"
            todo = f"override {quoted(first)} as a whole, or add a column with `path: {field}`"
            yield JobFileProblem(at, text, todo)
        elif not _COLUMN_NAME.fullmatch(field) and "name" not in mapping(change):
            text = f"expected a `name` for {quoted(field)}, which no column can be called"
            yield JobFileProblem(at, text, "add one")


def _check_added(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Require a source for an added column's values: it has no field of its name."""
    keeper = mapping(data, "format", "json").get("extra_column")
    added = changes_of(data).get("add")
    for index, column in enumerate(added if isinstance(added, tuple) else ()):
        name = mapping(column).get("name")
        if not isinstance(name, str) or name == keeper:
            continue
        if not any(key in column for key in _ORIGINS):
            text = f"expected `path`, `constant` or `expression` for {quoted(name)}, got none"
            yield JobFileProblem(positions.value((*CHANGES, "add", index)), text, "add one of them")


def _check_gone(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Report references to a field by a name that no column has any more."""
    gone = _gone(data, positions)
    table = mapping(data.get("table"))
    listed = table.get("partition_by")
    users: list[tuple[Path, object]] = [
        (("table", "partition_by", index, "column"), mapping(part).get("column"))
        for index, part in enumerate(listed if isinstance(listed, tuple) else ())
    ]
    field = mapping(data.get("event_time")).get("field")
    users.append((("event_time", "field"), field))
    for path, name in users:
        first = name.partition(".")[0] if isinstance(name, str) else ""
        if first.lower() in gone:
            what, line = gone[first.lower()]
            text = f"expected a column, got {quoted(first)}, a field that is {what}"
            yield JobFileProblem(positions.value(path), text, f"correct it, or line {line}")


def _gone(data: Mapping[str, Any], positions: Positions) -> dict[str, tuple[str, int]]:
    """Fields without a column of their own name, in lower case -> why, and on which line."""
    changes = changes_of(data)
    gone = {}
    for index, field in _left_out(changes):
        line = positions.value((*CHANGES, "except", index)).line
        gone[field.lower()] = ("left out", line)
    names = set()
    for path, column in written_columns(data):
        name, overridden = column.get("name"), path[-1]
        if isinstance(overridden, str) and isinstance(name, str) and name != overridden:
            line = positions.value((*path, "name")).line
            gone[overridden.lower()] = (f"called {quoted(name)}", line)
        names.add(str(written_name(path, column)).lower())
    return {field: why for field, why in gone.items() if field not in names}


def _left_out(changes: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    found = changes.get("except")
    for index, field in enumerate(found if isinstance(found, tuple) else ()):
        if isinstance(field, str):
            yield index, field
