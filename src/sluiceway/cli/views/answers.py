"""Answers for programs: one document per command, one form of times, routes and errors.

A document of several routes has them in `routes`, one object each that begins with `route`; a job
with one route has one there. `error` of the whole answer or of a route holds what could not be done
or read. All moments are milliseconds since the epoch (UTC) and all durations milliseconds: their
names end with `_ms`.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from sluiceway.cli.options import OutputFormat
from sluiceway.errors import SluicewayError

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig

FoundT = TypeVar("FoundT")

# Internal endings of names, and how many of their units are a millisecond.
_UNITS = {"_us": 0.001, "_s": 1000}
_RATES = ("_per_s",)
# Maps with keys that others chose: columns, fields of payloads, folders, topics. These are no
# times.
_KEYED_BY_OTHERS = frozenset(
    {
        *("values", "partitions", "reasons", "dirty_reasons", "still_dirty", "ignored_fields"),
        *("unfilled_columns", "topics_refused", "topics_sharing", "settings", "evidence"),
        "announced_to",
    }
)
_NEVER_BROKEN = 1 << 30


def print_document(document: Mapping[str, Any], output: OutputFormat) -> None:
    """Write one answer to standard output.

    Args:
        document: Values of JSON and dataclasses of them; times under their internal names, such as
            `begin_us` or `timeout_s`.
        output: As JSON, on one line; or as YAML, after a line `---`.
    """
    write_plain(in_milliseconds(document), output)


def write_plain(value: Any, output: OutputFormat) -> None:
    """As `print_document`, for values that are written unchanged."""
    if output is not OutputFormat.YAML:
        sys.stdout.write(json.dumps(value) + "\n")
        return
    from ruamel.yaml import YAML  # noqa: PLC0415 - seldom asked for
    from ruamel.yaml.scalarstring import walk_tree  # noqa: PLC0415

    yaml = YAML()
    yaml.explicit_start, yaml.width = True, _NEVER_BROKEN
    # Values of JSON only: YAML has no enums and tuples.
    document = json.loads(json.dumps(value))
    walk_tree(document)
    yaml.dump(document, sys.stdout)


def in_milliseconds(value: Any) -> Any:
    """The value for JSON, with every time in milliseconds and under such a name.

    Maps whose keys others chose stay as they are: a column `took_us` keeps its value.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return in_milliseconds(asdict(value))
    if isinstance(value, Mapping):
        return dict(_in_milliseconds(str(name), each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return [in_milliseconds(each) for each in value]
    return value


def _in_milliseconds(name: str, value: Any) -> tuple[str, Any]:
    if name in _KEYED_BY_OTHERS and isinstance(value, Mapping):
        return name, dict(value)
    unit = next((unit for unit in _UNITS if name.endswith(unit)), None)
    is_time = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if unit is None or name.endswith(_RATES) or not is_time:
        return name, in_milliseconds(value)
    whole = None if value is None else _whole_ms(value, unit)
    return name.removesuffix(unit) + "_ms", whole


def _whole_ms(value: float, unit: str) -> int:
    # Rounded down, so that two times keep their order.
    return int(value) // 1000 if unit == "_us" else int(value * _UNITS[unit])


def error_fields(error: SluicewayError) -> dict[str, Any]:
    """An error for programs; the same fields in every answer."""
    return {
        "code": error.code,
        "exit_code": error.exit_code,
        # The lines after the first are the problems, in words.
        "message": error.message.partition("\n")[0] if error.problems else error.message,
        "where": error.where,
        "hint": error.hint,
        "commands": list(error.commands),
        "evidence": dict(error.evidence),
        "problems": [
            {"line": each.line, "column": each.column, "problem": each.text, "todo": each.todo}
            for each in error.problems
        ],
    }


def read_each(
    routes: "Sequence[RouteConfig]",
    look: "Callable[[RouteConfig], FoundT]",
    output: OutputFormat,
) -> list[FoundT | SluicewayError]:
    """Run `look` for each of the routes; an error of one does not stop the others.

    Raises:
        SluicewayError: The only route has failed, and the answer is in words: then its error is the
            answer.
    """
    found: list[FoundT | SluicewayError] = []
    for route in routes:
        try:
            found.append(look(route))
        except SluicewayError as error:
            if len(routes) == 1 and output is OutputFormat.TABLE:
                raise
            found.append(error)
    return found


def route_answers(
    routes: "Sequence[RouteConfig]",
    found: Sequence[FoundT | SluicewayError],
    plain: Callable[[FoundT], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """The field `routes` of an answer.

    Args:
        routes: The routes, in order.
        found: Answer or error of each route, as `read_each` returns it.
        plain: Turns an answer without error into JSON.
    """
    return [
        {"route": route.route, "error": error_fields(each)}
        if isinstance(each, SluicewayError)
        else {"route": route.route, **plain(each)}
        for route, each in zip(routes, found, strict=True)
    ]


def raise_code(
    found: Sequence[FoundT | SluicewayError], code: Callable[[FoundT], int] = lambda _: 0
) -> None:
    """End the command with the highest exit code of its routes; go on when all are well.

    Args:
        found: As `read_each` returns it.
        code: Exit code of an answer without error.

    Raises:
        typer.Exit: With that code.
    """
    codes = (each.exit_code if isinstance(each, SluicewayError) else code(each) for each in found)
    highest = max(codes, default=0)
    if highest:
        raise typer.Exit(highest)
