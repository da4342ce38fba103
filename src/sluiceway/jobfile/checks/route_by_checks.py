"""Rules for `route_by`: one source, a table for each value."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table_target import table_kind, table_path
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

VALUE_GROUP = "value"
_UNFIT: tuple[tuple[Path, str], ...] = (
    (("table", "key"), "rows of a key are followed in the order of one log"),
    (("transform",), "SQL reads the rows of one table"),
    (("source", "table"), "it routes the rows of topics"),
    (("source", "bootstrap"), "it routes the rows of topics"),
)


def check_route_by(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse a `route_by` that cannot make tables. Called once a route and load.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    if "route_by" not in data:
        if "max_tables" in data:
            text = "expected `max_tables` with `route_by` only"
            yield JobFileProblem(positions.key(("max_tables",)), text, "remove it")
        return
    for path, why in _UNFIT:
        if positions.has(path):
            name = ".".join(map(str, path))
            text = f"expected no `{name}` with `route_by`: {why}"
            yield JobFileProblem(positions.key(path), text, "remove one of them")
    table = mapping(data, "table", table_kind(data))
    path, found = table_path(positions, "name"), table.get("name")
    name = found if isinstance(found, str) else "a.{value}"
    if name.count("{value}") != 1:
        text = f"expected a name with {{value}} in it, got {quoted(name)}"
        yield JobFileProblem(positions.value(path), text, "write for example ods.{value}")
    elif "{value}" in name.rpartition(".")[0]:
        text = f"expected {{value}} in the table's own name, got {quoted(name)}"
        yield JobFileProblem(positions.value(path), text, "write for example ods.{value}")
    if isinstance(mapping(data, "source").get("topics"), str):
        text = "expected a list of topics with `route_by`, got a pattern"
        yield JobFileProblem(positions.value(("source", "topics")), text, "list the topics")
    if not isinstance(mapping(data, "table").get("columns"), tuple):
        text = "expected a list of `columns` with `route_by`: all its tables have them"
        yield JobFileProblem(positions.key(("route_by",)), text, "declare them under `table`")
