"""The block `routes`: from one file with many routes to a tree of nodes for each of them.

A route is a job file of its own: the file's blocks, overlaid with the route's keys. Nodes keep
their marks, so an error of a route is reported where it is written.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sluiceway.jobfile.blocks.models import JobBlocks, RouteEntry
from sluiceway.jobfile.blocks.table_target import HIVE, ICEBERG, table_path
from sluiceway.jobfile.document import Entry, Mapping, Node, Scalar, Sequence
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

MAX_ROUTES = 2500

_ROUTE_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,63}")
_HEAD = 47
_KNOWN = frozenset(info.alias or name for name, info in JobBlocks.model_fields.items())
_KNOWN_IN_ROUTE = frozenset(RouteEntry.model_fields)
# Blocks with one of several kinds: another kind replaces the file's, with all its keys.
_CHOICES: frozenset[Path] = frozenset({("source", "start"), ("format",)})
SOURCE_TABLE: Path = ("source", "table")
# A unit is read whole, and its values come from the table that is read.
_OF_ROWS = ("event_time", "retention", "transform", "where")
# What a block says of single rows; the rest holds for units too.
_OF_ROWS_IN: dict[str, tuple[str, ...]] = {
    "ready": ("allowed_lateness", "visible", "property", "on_all_idle", "counts"),
    "table": ("columns", "partition_by", "meta"),
    "source": ("on_correction",),
}
# Keys about topics do not apply to a table that a route reads instead.
_OF_TOPICS = ("connection", "topics", "start")
# Every route has its own; a value for all of them would be wrong for all but one.
_OWN: tuple[tuple[Path, str], ...] = (
    (("source", "topics"), "topics"),
    (SOURCE_TABLE, "source.table"),
    (("table", "hive", "name"), "table"),
    (("table", "hive", "location"), "table.hive.location"),
    (("table", "iceberg", "name"), "table"),
    (("table", "iceberg", "location"), "table.iceberg.location"),
    (("source", "start", "offsets"), "source.start.offsets"),
)
OWN_PATHS: frozenset[Path] = frozenset(
    {("source", "topics"), ("table", HIVE, "name"), ("table", ICEBERG, "name")}
)
"""A route's keys `topics` and `table`, and their places in the blocks."""

GIVEN_BY_ROUTES: frozenset[Path] = frozenset({("table",)})
"""Blocks whose kind each route may choose, so that the file need not."""


@dataclass(frozen=True, slots=True)
class RouteTree:
    """One route as a whole job file.

    Attributes:
        root: The merged tree.
        written: The route as it is in the file.
    """

    root: Mapping
    written: Mapping

    @property
    def name(self) -> str:
        """The route's given name; empty when there is none, or no text."""
        named = (entry.value for entry in self.written.entries if entry.key == "name")
        node = next(named, None)
        text = node.value if isinstance(node, Scalar) else None
        return text if isinstance(text, str) else ""


def has_routes(root: Node) -> bool:
    """Whether the file lists routes."""
    return Positions(root).has(("routes",))


def route_trees(root: Mapping) -> tuple[list[RouteTree], list[JobFileProblem]]:
    """The trees of a file's routes. Called once per load of a file that has the block.

    Args:
        root: The whole file, references resolved.

    Returns:
        A tree for each route that is a mapping, and problems of the block itself.
    """
    positions = Positions(root)
    listed = next(entry.value for entry in root.entries if entry.key == "routes")
    if not isinstance(listed, Sequence) or not 0 < len(listed.items) <= MAX_ROUTES:
        text = f"expected a list of 1 to {MAX_ROUTES} routes, got {positions.came(('routes',))}"
        return [], [JobFileProblem(listed.mark, text, "write - {topics: [...], table: db.name}")]
    problems = list(_shared_problems(root, positions))
    defaults = file_defaults(root)
    trees = []
    for index, item in enumerate(listed.items):
        if isinstance(item, Mapping):
            trees.append(_tree(defaults, item))
            problems.extend(_key_problems(item))
        else:
            came = positions.came(("routes", index))
            todo = "write {topics: [...], table: db.name}"
            problems.append(JobFileProblem(item.mark, f"expected a mapping, got {came}", todo))
    return trees, problems


def file_defaults(root: Mapping) -> Mapping:
    """The routes' common part: the file without `routes` and without unknown keys."""
    return Mapping(tuple(entry for entry in root.entries if entry.key in _KNOWN), root.mark)


def _shared_problems(root: Mapping, positions: Positions) -> Iterator[JobFileProblem]:
    for path, key in _OWN:
        if positions.has(path):
            name = ".".join(str(step) for step in path)
            text = f"expected `{key}` in each route, got `{name}` for all of them"
            yield JobFileProblem(positions.key(path), text, "move it into the routes")


def _key_problems(route: Mapping) -> Iterator[JobFileProblem]:
    """Problems of a route's keys: source and target once each; a misspelt key gets its own."""
    written = Positions(route)
    if written.has(("source", "topics")):
        text = "expected `topics` next to `source`, got them inside of it"
        yield JobFileProblem(written.key(("source", "topics")), text, "move them out")
    given = {entry.key for entry in route.entries}
    for key in ("topics", "table"):
        if key == "topics" and written.has(SOURCE_TABLE):
            continue
        if key not in given and given <= _KNOWN_IN_ROUTE:
            yield JobFileProblem(route.mark, f"expected the key {quoted(key)}, got none", "add it")


def _tree(defaults: Mapping, route: Mapping) -> RouteTree:
    if Positions(route).has(SOURCE_TABLE):
        defaults = _not_of_topics(defaults)
    lowered = _lowered(route, table_path(Positions(defaults), "name"))
    if is_recompute(Positions(route)):
        defaults = _not_of_rows(defaults, is_lake=_is_lake(defaults, lowered))
    root = _merged(defaults, lowered, ())
    if not _uses_event_time(root) and not Positions(lowered).has(("event_time",)):
        root = _without(root, "event_time")
    return RouteTree(with_table_source(root), route)


def _without(root: Mapping, *keys: str) -> Mapping:
    return Mapping(tuple(entry for entry in root.entries if entry.key not in keys), root.mark)


def _not_of_topics(defaults: Mapping) -> Mapping:
    """What a file says for all routes, without what it says of topics."""
    kept = _without(defaults, "format")
    entries = (
        Entry(each.key, each.mark, _without(each.value, *_OF_TOPICS))
        if each.key == "source" and isinstance(each.value, Mapping)
        else each
        for each in kept.entries
    )
    return Mapping(tuple(entries), kept.mark)


def is_recompute(route: Positions) -> bool:
    """Whether a route, or a whole file, computes units of a table again."""
    path = ("source", "mode")
    node = route.node(path) if route.has(path) else None
    return isinstance(node, Scalar) and node.value == "recompute"


def _is_lake(defaults: Mapping, route: Mapping) -> bool:
    """Whether the table of a route is one of Iceberg."""
    given = Positions(route)
    of_file = Positions(defaults).has(("table", ICEBERG)) and not given.has(("table", HIVE))
    return of_file or given.has(("table", ICEBERG))


def _not_of_rows(defaults: Mapping, *, is_lake: bool) -> Mapping:
    """What a file says for all routes, without what it says of single rows and their columns."""
    kept = _without(defaults, *_OF_ROWS)
    # The property of an Iceberg table names units; that of a Hive table is a time.
    of_units = ("property",) if is_lake else ()
    left = {
        block: tuple(key for key in keys if key not in of_units)
        for block, keys in _OF_ROWS_IN.items()
    }
    entries = (
        Entry(each.key, each.mark, _without(each.value, *left[each.key]))
        if each.key in _OF_ROWS_IN and isinstance(each.value, Mapping)
        else each
        for each in kept.entries
    )
    return Mapping(tuple(entries), kept.mark)


def _unit_partitions(positions: Positions) -> Sequence:
    """The partition columns of a table whose units are computed; none where `unit` is no list."""
    path = ("source", "unit")
    unit = positions.node(path) if positions.has(path) else None
    if not isinstance(unit, Sequence):
        return Sequence((), positions.key(("source", "mode")))
    return Sequence(
        tuple(
            Mapping(
                (
                    Entry("name", each.mark, each),
                    Entry("constant", each.mark, Scalar("unit", "unit", each.mark)),
                ),
                each.mark,
            )
            for each in unit.items
        ),
        unit.mark,
    )


def with_table_source(root: Mapping) -> Mapping:
    """A route that reads a table, with all that goes without saying: see `SourceSpec`.

    Args:
        root: As a whole job file; a route that reads topics stays as it is.
    """
    positions = Positions(root)
    if not positions.has(SOURCE_TABLE):
        return root
    mark, named = positions.key(SOURCE_TABLE), positions.node(SOURCE_TABLE)
    given: dict[str, Node] = {"topics": Sequence((named,), mark)}
    connection = table_path(positions, "connection")
    if positions.has(connection):
        given["connection"] = positions.node(connection)
    source = Mapping(tuple(Entry(key, mark, node) for key, node in given.items()), mark)
    # Dirty rows of it are JSON.
    rows = Mapping((Entry("json", mark, Mapping((), mark)),), mark)
    implied = [Entry("source", mark, source), Entry("format", mark, rows)]
    if is_recompute(positions):
        parts = _unit_partitions(positions)
        columns = Entry("columns", parts.mark, Scalar("from_sql", "from_sql", parts.mark))
        table = Mapping((Entry("partition_by", parts.mark, parts), columns), parts.mark)
        implied.append(Entry("table", parts.mark, table))
    return _merged(Mapping(tuple(implied), root.mark), root, ())


def _lowered(route: Mapping, name: Path) -> Mapping:
    """A route as written -> the blocks of a job file, each in the file's place.

    Args:
        route: The route as written.
        name: Path of a table's name in the file.
    """
    parts: list[Entry] = []
    for entry in route.entries:
        if entry.key == "topics":
            parts.append(_wrapped(entry, "source", "topics"))
        elif entry.key == "table" and not isinstance(entry.value, Mapping):
            parts.append(_wrapped(entry, *map(str, name)))
        elif entry.key in _KNOWN_IN_ROUTE and entry.key != "name":
            parts.append(entry)
    merged = Mapping((), route.mark)
    for part in parts:
        merged = _merged(merged, Mapping((part,), route.mark), ())
    return merged


def _wrapped(entry: Entry, *path: str) -> Entry:
    node: Node = entry.value
    for key in reversed(path):
        entry = Entry(key, entry.mark, node)
        node = Mapping((entry,), entry.mark)
    return entry


def _merged(base: Mapping, over: Mapping, path: Path) -> Mapping:
    """Merge mappings key by key and replace everything else; the reader bounds the depth."""
    entries = {entry.key: entry for entry in base.entries}
    if path == ("table",):
        # A route's table of one kind replaces the file's table of the other kind.
        for given, other in ((HIVE, ICEBERG), (ICEBERG, HIVE)):
            if any(entry.key == given for entry in over.entries):
                entries.pop(other, None)
    for entry in over.entries:
        held = entries.get(entry.key)
        inner = (*path, entry.key)
        if held is None or not _goes_on(held.value, entry.value, inner):
            entries[entry.key] = entry
        elif isinstance(held.value, Mapping) and isinstance(entry.value, Mapping):
            entries[entry.key] = Entry(
                entry.key, entry.mark, _merged(held.value, entry.value, inner)
            )
    # With the file's own mark, all routes report a block that the whole file lacks at one place.
    return Mapping(tuple(entries.values()), over.mark if path else base.mark)


def laid_over(base: Mapping, over: Mapping) -> Mapping:
    """A file's tree with the keys of another one laid over it, as those of a route are."""
    return _merged(base, over, ())


def _goes_on(held: Node, over: Node, path: Path) -> bool:
    if not isinstance(held, Mapping) or not isinstance(over, Mapping):
        return False
    same = {entry.key for entry in over.entries} <= {entry.key for entry in held.entries}
    return path not in _CHOICES or same


def _uses_event_time(root: Mapping) -> bool:
    positions = Positions(root)
    if not positions.has(("table", "partition_by")):
        return True
    node = positions.node(("table", "partition_by"))
    items = node.items if isinstance(node, Sequence) else ()
    return any(
        entry.key == "event_time"
        for item in items
        if isinstance(item, Mapping)
        for entry in item.entries
    )


def is_route_name(text: str) -> bool:
    """Whether a route can have this name; it is a part of paths and of group names."""
    return _ROUTE_NAME.fullmatch(text) is not None


def default_route_name(table: str) -> str:
    """Name of the route that fills a table: `ods-orders` for `ods.orders`.

    Two tables never give the same name. Hive's names hold no `-`; names that do not fit, or are
    nested, get a hash.

    Args:
        table: `database.table`, in any case.
    """
    text = table.lower().replace(".", "-")
    plain = text.count("-") == 1
    if plain and is_route_name(text):
        return text
    head = text.lstrip("_-")[:_HEAD] or "table"
    whole = text if plain else table.lower()
    return f"{head}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"
