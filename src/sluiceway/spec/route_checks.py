"""What has to fit between the routes of a job file."""

import re
from collections.abc import Iterator, Sequence

from sluiceway.spec.document import Scalar
from sluiceway.spec.positions import Path, Positions
from sluiceway.spec.problems import JobFileProblem, quoted
from sluiceway.spec.routes import RouteTree, default_route_name, is_route_name
from sluiceway.spec.table_paths import table_path
from sluiceway.spec.topic_pattern import groups_in
from sluiceway.spec.values import is_lake_name


def check_routes(trees: Sequence[RouteTree]) -> Iterator[JobFileProblem]:
    """Check names and tables across routes. Called once per load of a file with `routes`.

    One table has one ledger, and a ledger has one route.

    Args:
        trees: Plain data of all routes; parts of the wrong shape are looked away from.
    """
    tables: dict[tuple[str, str], Positions] = {}
    names: dict[str, Positions] = {}
    locations: dict[str, Positions] = {}
    for tree in trees:
        positions = Positions(tree.root)
        table = _text(positions, table_path(positions, "name"))
        yield from _check_name(tree, table)
        if table:
            store = _text(positions, table_path(positions, "connection"))
            first = tables.setdefault((store, table.lower()), positions)
            if first is not positions:
                yield _again(
                    positions, "name", first, "list all its topics in one route, or a pattern"
                )
                continue
        yield from _check_unique_name(tree, table, names)
        location = _one_spelling(_text(positions, table_path(positions, "location")))
        if location and (first := locations.setdefault(location, positions)) is not positions:
            yield _again(positions, "location", first, "give each table a folder of its own")


def _one_spelling(location: str) -> str:
    """As locations are compared: `file:///x` and `/x`, `s3://b` and `s3a://b` are one."""
    text = re.sub(r"^file:/*(?=/)", "", location.rstrip("/"), flags=re.IGNORECASE)
    return re.sub(r"^(hdfs://[^/:]+):8020(?=/)", r"\1", re.sub(r"^s3n?://", "s3a://", text))


def _check_name(tree: RouteTree, table: str) -> Iterator[JobFileProblem]:
    written = Positions(tree.written)
    if not written.has(("name",)):
        return
    node = written.node(("name",))
    if not isinstance(node, Scalar) or not is_route_name(str(node.value)):
        text = "expected 1 to 64 of a-z, 0-9, `_`, `-`, not beginning with `_`, `-`"
        yield JobFileProblem(
            node.mark, f"{text}, got {written.came(('name',))}", "rename the route"
        )
    elif groups_in(table):
        text = "expected no name for routes that a pattern makes"
        yield JobFileProblem(written.key(("name",)), text, "remove it; their tables name them")


def _check_unique_name(
    tree: RouteTree, table: str, names: dict[str, Positions]
) -> Iterator[JobFileProblem]:
    written = Positions(tree.written)
    if not tree.name and (not is_lake_name(table) or groups_in(table)):
        return
    name = tree.name or default_route_name(table)
    first = names.setdefault(name, written)
    if first is not written:
        line = first.root.mark.line
        text = f"expected each route's name once, got {quoted(name)} again"
        yield JobFileProblem(
            written.root.mark, text, f"name one of them; the other is on line {line}"
        )


def _again(positions: Positions, key: str, first: Positions, todo: str) -> JobFileProblem:
    what = "table" if key == "name" else "location"
    path = table_path(positions, key)
    text = f"expected each {what} in one route, got {positions.came(path)} again"
    line = first.value(table_path(first, key)).line
    return JobFileProblem(positions.value(path), text, f"{todo} (line {line})")


def _text(positions: Positions, path: Path) -> str:
    if not positions.has(path):
        return ""
    node = positions.node(path)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
