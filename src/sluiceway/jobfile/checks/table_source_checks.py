"""What a route cannot say that reads a table, and what two routes of a chain have in common."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table_target import ICEBERG, table_kind
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

_TABLE: Path = ("source", "table")
_UNIT: Path = ("source", "unit")
_OF_UNITS = ("unit", "when", "settle")
_OF_ROWS: tuple[tuple[Path, str], ...] = (
    (("where",), "write it into the SQL"),
    (("event_time",), "remove it: a unit is read whole"),
    (("ready", "allowed_lateness"), "remove it: a unit is announced when it is computed"),
    (("ready", "on_all_idle"), "remove it: a unit is announced when it is computed"),
    (("ready", "visible"), "remove it: readers see whole units only"),
    (("ready", "counts"), "remove it: the table that is read waits for counts"),
    (("retention",), "remove it: `partitions forget` lets go of units"),
    (("table", "meta"), "remove it: a row of a result comes from many records"),
    (("table", "key"), "remove it: a unit is replaced whole"),
    (("transform", "columns"), "remove it: the SQL reads the columns of the table"),
    (("source", "start"), "remove it: all units of the table are computed"),
    (("source", "on_correction"), "remove it: a unit whose rows are replaced is computed again"),
)
_HIVE_PROPERTY: tuple[Path, str] = (
    ("ready", "property"),
    "remove it: `success_file`, `webhook` and `kafka` say when a unit is computed",
)
_PLAIN_STARTS = ("earliest", "latest")
_NOT_YET: tuple[tuple[Path, str], ...] = (
    (("table", "key"), "a table with a `key` that is filled from another table"),
    (("ready", "counts"), "audited counts of a table that is filled from another table"),
)


_BOOTSTRAP: Path = ("source", "bootstrap")
_NOT_BOOTSTRAPPED: tuple[tuple[Path, str], ...] = (
    (("ready",), "announced hours of a route that reads a table first"),
    (("table", "key"), "a table with a `key` that reads a table first"),
    (("table", "subject"), "columns of a registry for a route that reads a table first"),
    (("format", "debezium"), "a change log for a route that reads a table first"),
    (("format", "canal"), "a change log for a route that reads a table first"),
    (("format", "maxwell"), "a change log for a route that reads a table first"),
)


def check_bootstrap(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse what a route cannot have that reads a table before its topics.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Where things stand.
    """
    source = mapping(data, "source")
    first = mapping(source, "bootstrap")
    if not first:
        return
    if not isinstance(source.get("topics"), tuple):
        text = "expected a list of `topics` with `bootstrap`, got none"
        yield JobFileProblem(positions.key(_BOOTSTRAP), text, "list the topics of the table's job")
    if positions.has(("source", "start")):
        text = "expected no `start` with `bootstrap`: the topics begin where the table ends"
        yield JobFileProblem(positions.key(("source", "start")), text, "remove one of them")
    own = mapping(data, "table", table_kind(data))
    if str(own.get("name")).lower() == str(first.get("table")).lower():
        text = f"expected another table than the route's own, got {quoted(str(first.get('table')))}"
        at = positions.value((*_BOOTSTRAP, "table"))
        yield JobFileProblem(at, text, "name the table that is read first")
    named = first.get("connection", own.get("connection"))
    known = mapping(data, "connections")
    kinds = mapping(known, named).keys() if isinstance(named, str) else ()
    if known and not {"metastore", "folder"} & set(kinds):
        text = f"expected the metastore or folder of the table, got {quoted(str(named))}"
        own_key = (*_BOOTSTRAP, "connection")
        given = positions.has(own_key)
        mark = positions.value(own_key) if given else positions.key(_BOOTSTRAP)
        yield JobFileProblem(mark, text, "write `connection` of it into `bootstrap`")
    if mapping(data, "table").get("evolution") in ("add_columns", "quarantine"):
        text = "expected `fail` or `follow_table` where a table is read first"
        yield JobFileProblem(positions.value(("table", "evolution")), text, "choose one")
    for path, what in _NOT_BOOTSTRAPPED:
        if positions.has(path):
            text = f"not in this version: {what}"
            yield JobFileProblem(positions.key(path), text, "remove it", not_yet=True)


def check_table_source(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse what means something of topics only. Called once a route and load.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Where things stand.
    """
    source = mapping(data, "source")
    named = source.get("table")
    yield from _check_recompute(data, positions)
    if not isinstance(named, str):
        if "on_correction" in source:
            text = "expected `on_correction` with `source.table` only: records of topics stay"
            yield JobFileProblem(positions.key(("source", "on_correction")), text, "remove it")
        return
    if source.get("topics") != (named,):
        text = "expected either `topics` or `source.table`, got both"
        yield JobFileProblem(positions.key(_TABLE), text, "remove one of them")
    # A route that writes no `format` gets one at the place of its table.
    if positions.key(("format",)) != positions.key(_TABLE):
        text = "expected no `format` for a table that is read: its columns have types"
        yield JobFileProblem(positions.key(("format",)), text, "remove it")
    start = source.get("start", "earliest")
    if start not in _PLAIN_STARTS and "timestamp" not in mapping(start):
        text = "expected `earliest`, `latest` or a timestamp where a table is read"
        yield JobFileProblem(positions.value(("source", "start")), text, "choose one")
    own = mapping(data, "table", table_kind(data)).get("name")
    if isinstance(own, str) and own.lower() == named.lower():
        text = f"expected another table than the route's own, got {quoted(named)}"
        yield JobFileProblem(positions.value(_TABLE), text, "name the table that is read")
    if mapping(data, "table").get("evolution") in ("add_columns", "quarantine"):
        text = "expected `fail` or `follow_table` where a table is read"
        yield JobFileProblem(positions.value(("table", "evolution")), text, "choose one")
    yield from _check_redirect(data, positions)
    yield from _check_lake(data, positions)
    for path, what in _NOT_YET:
        if positions.has(path):
            text = f"{what} is not in this version"
            yield JobFileProblem(positions.key(path), text, "remove it", not_yet=True)


def _check_redirect(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """A rebuilt hour would have its redirected rows twice, and the other hour would lose them."""
    source, late = mapping(data, "source"), mapping(data, "event_time").get("late")
    follows = not _is_lake(data) and source.get("on_correction", "follow") == "follow"
    if late == "redirect" and follows:
        text = "`late: redirect` with `on_correction: follow` is not in this version"
        todo = "write `late: side_output` or `reopen`, or `on_correction: halt`"
        yield JobFileProblem(positions.value(("event_time", "late")), text, todo, not_yet=True)


def _is_lake(data: Mapping[str, Any]) -> bool:
    """Whether the table that is read is one of Iceberg."""
    named = mapping(data, "source").get("connection")
    return ICEBERG in mapping(data, "connections", str(named))


def _check_lake(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """What an Iceberg table does not have: folders, and corrections that can be followed."""
    source = mapping(data, "source")
    if not _is_lake(data):
        return
    if source.get("when") == "success":
        text = "expected `ready` or `settled` for an Iceberg table, which has no folders"
        yield JobFileProblem(positions.value(("source", "when")), text, "choose one")
    if source.get("on_correction") == "follow":
        text = "an Iceberg table whose rows are replaced is not followed in this version"
        mark = positions.value(("source", "on_correction"))
        todo = "write `ignore` to read on after such a snapshot, or `halt`"
        yield JobFileProblem(mark, text, todo, not_yet=True)


def _check_recompute(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """What a route has that computes units, and what only such a route has."""
    source = mapping(data, "source")
    if source.get("mode") != "recompute":
        for key in _OF_UNITS:
            if key in source:
                text = f"expected `{key}` together with `mode: recompute` only"
                yield JobFileProblem(positions.key(("source", key)), text, "add it, or remove this")
        return
    if not isinstance(source.get("table"), str):
        text = "expected `table` for `mode: recompute`, got none"
        yield JobFileProblem(positions.key(("source", "mode")), text, "name the table to read")
        return
    yield from _check_needed_keys(data, positions)
    # A Hive table's property is a time, and a unit is no time of its own.
    of_hive = () if ICEBERG in mapping(data, "table") else (_HIVE_PROPERTY,)
    for path, todo in (*_OF_ROWS, *of_hive):
        if positions.has(path):
            text = f"expected no `{path[-1]}` for `mode: recompute`"
            yield JobFileProblem(positions.key(path), text, todo)


def _check_needed_keys(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """What `mode: recompute` needs, and keys that go together."""
    source = mapping(data, "source")
    unit = source.get("unit")
    if not isinstance(unit, tuple) or not unit:
        text = "expected `unit` for `mode: recompute`, the partition columns that make a unit"
        yield JobFileProblem(positions.key(("source", "mode")), text, "add unit: [dt, hr]")
        unit = ()
    if "transform" not in data:
        text = "expected `transform.sql` for `mode: recompute`, got none"
        yield JobFileProblem(positions.key(("source", "mode")), text, "add transform: {sql: ...}")
    if source.get("when", "ready") != "settled" and "settle" in source:
        text = "expected `settle` together with `when: settled` only"
        yield JobFileProblem(positions.key(("source", "settle")), text, "add it, or remove this")
    parts = mapping(data, "table").get("partition_by")
    names = [mapping(each).get("name") for each in parts] if isinstance(parts, tuple) else []
    if unit and parts is not None and names != list(unit):
        text = f"expected the columns of `unit` as `partition_by`, got {', '.join(map(str, names))}"
        yield JobFileProblem(positions.key(("table", "partition_by")), text, "remove it")


def check_chains(routes: Sequence[tuple[RouteSpec, Positions]]) -> Iterator[JobFileProblem]:
    """Completeness is inherited only where both tables have the same times.

    Args:
        routes: Of one file.
    """
    filled = {spec.table.target.name.lower(): spec for spec, _ in routes}
    cycles: set[frozenset[str]] = set()
    for spec, positions in routes:
        if cycle := _cycle(spec, filled):
            if cycles >= {frozenset(cycle)}:
                continue
            cycles.add(frozenset(cycle))
            shown = " from ".join((*cycle, cycle[0]))
            text = f"expected tables that are not filled from themselves, got a cycle: {shown}"
            yield JobFileProblem(positions.value(_TABLE), text, "let one of them read topics")
            continue
        above = filled.get((spec.source.table or "").lower())
        is_lake = spec.source.table and spec.source_connection.iceberg is not None
        if spec.source.mode == "recompute":
            if above is not None and bool(is_lake) is (above.table.iceberg is not None):
                yield from _check_units(spec, above, positions)
            continue
        if is_lake:
            # Its hours are complete by the times of its own rows.
            continue
        if above is None or spec.ready is None:
            continue
        if above.ready is None:
            text = f"expected a table with the block `ready`, got {quoted(spec.source.table or '')}"
            todo = "announce its hours too: those of this route follow them"
            yield JobFileProblem(positions.value(_TABLE), text, todo)
        elif _times(above) != _times(spec):
            wanted = ", ".join(f"{name}: {pattern}" for name, pattern in _times(above))
            text = (
                f"expected the leading time columns of {spec.source.table}, for the block `ready`: "
                f"{wanted}"
            )
            todo = "partition both tables alike: hours of this one follow hours of that one"
            yield JobFileProblem(positions.value(("table", "partition_by")), text, todo)


def _cycle(spec: RouteSpec, filled: Mapping[str, RouteSpec]) -> list[str]:
    """The tables between a route and itself, each filled from the next; empty for most routes."""
    found: list[str] = []
    above: RouteSpec | None = spec
    while above is not None and (name := above.table.target.name.lower()) not in found:
        found.append(name)
        is_lake = above.source.table and above.source_connection.iceberg is not None
        above = filled.get((above.source.table or "").lower())
        if above is not None and bool(is_lake) is not (above.table.iceberg is not None):
            return []
    # A route that reads its own table is reported as that.
    return found if above is spec and len(found) > 1 else []


def _check_units(
    spec: RouteSpec, above: RouteSpec, positions: Positions
) -> Iterator[JobFileProblem]:
    """The unit of a route fits the table that another route of the file fills."""
    unit = [name.lower() for name in spec.source.unit]
    came = f"got {', '.join(unit)}"
    parts = [part.name.lower() for part in above.table.partition_by]
    if unit != parts[: len(unit)]:
        text = f"expected leading partition columns of {above.table.target.name}, {came}"
        todo = f"it is partitioned by {', '.join(parts) or 'nothing'}"
        yield JobFileProblem(positions.value(_UNIT), text, todo)
    elif spec.source.when in (None, "ready") and above.source.mode == "append":
        times = [name for name, _ in _times(above)]
        if above.ready is None:
            text = f"expected a table with the block `ready`, got {quoted(spec.source.table or '')}"
            todo = "announce its hours too, or write when: settled"
            yield JobFileProblem(positions.value(_TABLE), text, todo)
        elif unit != times:
            text = f"expected the times that {above.table.target.name} announces, {came}"
            todo = f"write unit: [{', '.join(times)}]"
            yield JobFileProblem(positions.value(_UNIT), text, todo)


def _times(spec: RouteSpec) -> list[tuple[str, str]]:
    found = []
    for part in spec.table.partition_by:
        if part.event_time is None:
            break
        found.append((part.name.lower(), part.event_time))
    return found
