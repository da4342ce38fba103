"""Tests of a job: sample records, and the rows that they have to become."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sluiceway.audit.given_records import GivenRecord, records_of_lines
from sluiceway.audit.row_preview import Preview, PreviewDirty, PreviewRow
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile import document
from sluiceway.jobfile.blocks.values import instant_us
from sluiceway.jobfile.document import Node, Scalar, read_document
from sluiceway.jobfile.loader import read_job_file
from sluiceway.jobfile.problems import JobFileProblem, job_file_error, quoted
from sluiceway.sinks.partition_path import requested_folder

PARTITION, CHANGE = "$partition", "$change"
"""Keys of an expected row: its folder, and what it does to the row of its key."""

_CASE = frozenset({"name", "route", "records", "rows", "dirty"})
_VALUES = ("text", "json", "base64", "hex")
_RECORD = frozenset({*_VALUES, "key", "topic", "partition", "timestamp", "headers"})
_DIRTY = frozenset({"reason", "path", "stage", "topic", "partition", "offset"})
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class RowTest:
    """One test.

    Attributes:
        route: Name of the route; empty when the job has only one.
        rows: Expected rows, each with the columns that count; None compares no rows.
        dirty: Expected dirty records, each with the fields that count.
    """

    name: str
    route: str
    records: tuple[GivenRecord, ...]
    rows: tuple[Mapping[str, Any], ...] | None
    dirty: tuple[Mapping[str, Any], ...]


class _WrongError(Exception):
    """A value of the file that is not possible."""

    def __init__(self, node: Node, text: str, todo: str) -> None:
        super().__init__(text)
        self.problem = JobFileProblem(node.mark, text, todo)


def read_tests(path: Path) -> tuple[RowTest, ...]:
    """The tests of a file.

    Raises:
        JobFileError: It cannot be read or is not valid; each problem with its line.
        WrongUsageError: A file of records that it names cannot be read.
    """
    found = read_document(read_job_file(path))
    if found.root is None or found.problems:
        raise job_file_error(str(path), found.problems)
    try:
        cases = _items(found.root, "a list of tests")
        return tuple(_case(case, number, path) for number, case in enumerate(cases, 1))
    except _WrongError as error:
        raise job_file_error(str(path), [error.problem]) from error


def _case(node: Node, number: int, path: Path) -> RowTest:
    told = _keys(node, _CASE, "a test")
    if "records" not in told:
        raise _WrongError(node, "expected `records`, got none", "give the test some")
    records = told["records"]
    if isinstance(records, Scalar) and isinstance(records.value, str):
        given = tuple(records_of_lines(path.parent / records.value))
    else:
        given = tuple(map(_record, _items(records, "a list of records, or a file of lines")))
    rows = told.get("rows")
    wanted = None if rows is None else tuple(_plain_items(rows, path, None))
    dirty = tuple(_plain_items(told["dirty"], path, _DIRTY)) if "dirty" in told else ()
    name = _text(told["name"]) if "name" in told else f"test {number}"
    return RowTest(name, _text(told["route"]) if "route" in told else "", given, wanted, dirty)


def _items(node: Node, what: str) -> tuple[Node, ...]:
    if not isinstance(node, document.Sequence):
        raise _WrongError(node, f"expected {what}", "begin its items with `- `")
    return node.items


def _keys(node: Node, known: frozenset[str] | None, what: str) -> dict[str, Node]:
    if not isinstance(node, document.Mapping):
        raise _WrongError(node, f"expected {what} as a mapping", "write `key: value`")
    told = {entry.key: entry.value for entry in node.entries}
    for key in told:
        if known is not None and key not in known:
            text = f"expected one of {', '.join(sorted(known))}, got {quoted(key)}"
            raise _WrongError(node, text, "correct or remove it")
    return told


def _text(node: Node) -> str:
    if not isinstance(node, Scalar) or node.value is None:
        raise _WrongError(node, "expected one text", "write one value")
    return node.value if isinstance(node.value, str) else node.text


def _record(node: Node) -> GivenRecord:
    if isinstance(node, Scalar):
        return GivenRecord(None if node.value is None else _text(node).encode())
    told = _keys(node, _RECORD, "a record: its text, or a mapping")
    forms = [form for form in _VALUES if form in told]
    if len(forms) > 1:
        raise _WrongError(node, f"expected one of {', '.join(_VALUES)}", "leave one")
    value = _value(forms[0], told[forms[0]]) if forms else None
    number = _plain(told["partition"]) if "partition" in told else Decimal(0)
    headers = _keys(told["headers"], None, "headers") if "headers" in told else {}
    return GivenRecord(
        value,
        key=_key(told["key"]) if "key" in told else None,
        topic=_text(told["topic"]) if "topic" in told else "",
        partition=int(number) if isinstance(number, Decimal) else str(number),
        timestamp_ms=_moment_ms(told["timestamp"]) if "timestamp" in told else None,
        headers=tuple((name, _text(each).encode()) for name, each in headers.items()),
    )


def _key(node: Node) -> bytes:
    return _text(node).encode() if isinstance(node, Scalar) else _json(node).encode()


def _value(form: str, node: Node) -> bytes | None:
    if isinstance(node, Scalar) and node.value is None and form != "json":
        return None
    try:
        match form:
            case "json":
                return _json(node).encode()
            case "base64":
                return base64.b64decode(_text(node), validate=True)
            case "hex":
                return bytes.fromhex(_text(node))
            case _:
                return _text(node).encode()
    except (ValueError, binascii.Error) as error:
        raise _WrongError(node, f"expected bytes as {form}: {error}", "correct it") from error


def _moment_ms(node: Node) -> int:
    text = _text(node)
    at_us = instant_us(text)
    if at_us is None and not text.isdigit():
        todo = "write it in quotes with its zone, or milliseconds since 1970"
        raise _WrongError(node, "expected a time such as `2026-11-20T08:00:00Z`", todo)
    return int(text) if at_us is None else at_us // 1000


def _json(node: Node) -> str:
    """A value as JSON, with the digits of numbers as they are written."""
    match node:
        case document.Mapping():
            pairs = (f"{json.dumps(each.key)}: {_json(each.value)}" for each in node.entries)
            return f"{{{', '.join(pairs)}}}"
        case document.Sequence():
            return f"[{', '.join(map(_json, node.items))}]"
        case Scalar(value=int() | float(), text=text) if _JSON_NUMBER.fullmatch(text):
            return text
        case Scalar():
            return json.dumps(node.value, ensure_ascii=False)


def _plain(node: Node) -> Any:
    """A value for comparison: numbers as decimals."""
    match node:
        case document.Mapping():
            return {each.key: _plain(each.value) for each in node.entries}
        case document.Sequence():
            return [_plain(each) for each in node.items]
        case Scalar(value=bool() | None | str()):
            return node.value
        case Scalar():
            return Decimal(node.text)


def _plain_items(
    node: Node, path: Path, known: frozenset[str] | None
) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        yield from _lines(path.parent / node.value)
        return
    for item in _items(node, "a list, or a file of JSON lines"):
        _keys(item, known, "its fields")
        yield _plain(item)


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, record in enumerate(records_of_lines(path), 1):
        try:
            found = json.loads(record.value or b"", parse_float=Decimal, parse_int=Decimal)
        except ValueError as error:
            raise WrongUsageError(f"line {number} is no JSON: {error}", where=str(path)) from error
        if not isinstance(found, dict):
            raise WrongUsageError(f"line {number} is no JSON object", where=str(path))
        yield found


def differences(test: RowTest, found: Preview) -> Iterator[str]:
    """Differences between the expected and the actual outcome, in words.

    Args:
        test: What is expected.
        found: What became of its records; rows and dirty rows are in the records' order.
    """
    if test.rows is not None:
        yield from _row_differences(test.rows, found.rows)
    for place, row in enumerate(found.dirty):
        told: dict[str, Any] = {"reason": row.reason, "path": row.path, "stage": row.stage}
        told |= {"topic": row.topic, "partition": row.partition, "offset": row.offset}
        if place >= len(test.dirty):
            yield f"{_at(row)} is dirty: {row.reason} {row.path}: {row.message}"
            continue
        for name, wanted in test.dirty[place].items():
            if not same(wanted, told[name]):
                yield f"{_at(row)}: {name} is {_shown(told[name])}, wanted {_shown(wanted)}"
    for wanted_dirty in test.dirty[len(found.dirty) :]:
        yield f"no record is dirty as wanted: {_shown(wanted_dirty)}"


def _row_differences(
    wanted: Sequence[Mapping[str, Any]], rows: Sequence[PreviewRow]
) -> Iterator[str]:
    for place, row in enumerate(rows[: len(wanted)]):
        told = {**row.values, PARTITION: row.folder, CHANGE: row.change}
        for name, value in wanted[place].items():
            text = (
                requested_folder(value) if name == PARTITION and isinstance(value, str) else value
            )
            if name not in told:
                yield f"row {place + 1}, of {_at(row)}: the table has no column {_shown(name)}"
            elif not same(text, told[name]):
                is_now = f"{name} is {_shown(told[name])}, wanted {_shown(value)}"
                yield f"row {place + 1}, of {_at(row)}: {is_now}"
    for row in rows[len(wanted) :]:
        yield f"{_at(row)} became a row that is not wanted: {_shown(row.values)}"
    for each in wanted[len(rows) :]:
        yield f"a wanted row is not there: {_shown(each)}"


def _at(row: PreviewRow | PreviewDirty) -> str:
    return f"record {row.topic}[{row.partition}]@{row.offset}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_number)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _number(value: Any) -> Any:
    """A decimal as JSON has numbers; anything else as text."""
    if not isinstance(value, Decimal):
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


def same(wanted: Any, found: Any) -> bool:
    """Whether a value of a row equals the expected one: numbers by value, times by instant.

    Args:
        wanted: The expected value, numbers as decimals.
        found: As `row_preview.plain_value` has it.
    """
    match wanted, found:
        case (Mapping(), Mapping()):
            keys = wanted.keys() | found.keys()
            return all(same(wanted.get(key), found.get(key)) for key in keys)
        case (list(), list()):
            return len(wanted) == len(found) and all(map(same, wanted, found))
        case (bool() | None, _) | (_, bool() | None):
            return wanted is found
        case (Decimal(), int() | float() | str()):
            return _same_number(wanted, found)
        case (str(), str()):
            return wanted == found or _same_instant(wanted, found)
        case _:
            return bool(wanted == found)


def _same_number(wanted: Decimal, found: float | str) -> bool:
    try:
        return float(wanted) == found if isinstance(found, float) else wanted == Decimal(found)
    except ArithmeticError:
        return False


def _same_instant(wanted: str, found: str) -> bool:
    try:
        times = [datetime.fromisoformat(text) for text in (wanted, found)]
    except ValueError:
        return False
    # A row's times are instants, shown as clocks in UTC show them.
    first, second = (at if at.tzinfo else at.replace(tzinfo=UTC) for at in times)
    return first == second
