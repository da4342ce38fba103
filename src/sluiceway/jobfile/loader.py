"""A job file's path -> checked values, or one error with all its problems."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sluiceway.errors import Fatal, JobFileError
from sluiceway.jobfile.blocks.models import JobFileBlocks, JobSpec, RouteSpec
from sluiceway.jobfile.blocks.routes import (
    GIVEN_BY_ROUTES,
    OWN_PATHS,
    RouteTree,
    default_route_name,
    file_defaults,
    has_routes,
    is_route_name,
    route_trees,
    with_table_source,
)
from sluiceway.jobfile.blocks.table_names import check_table_names
from sluiceway.jobfile.blocks.table_target import table_path
from sluiceway.jobfile.blocks.topic_pattern import groups_in
from sluiceway.jobfile.blocks.transform import sql_places
from sluiceway.jobfile.blocks.values import NOT_YET, WRONG_KEY, is_lake_name
from sluiceway.jobfile.checks.checks import cross_check
from sluiceway.jobfile.checks.shape import RENAMED_VALUES, Shape, check_shape
from sluiceway.jobfile.checks.table_source_checks import check_chains
from sluiceway.jobfile.document import MAX_BYTES, Node, Scalar, read_document
from sluiceway.jobfile.document import Mapping as MappingNode
from sluiceway.jobfile.positions import Path, Positions, places_in
from sluiceway.jobfile.problems import JobFileProblem, Mark, job_file_error, quoted
from sluiceway.jobfile.references import resolve_references
from sluiceway.jobfile.room_overlay import (
    file_digest,
    home_of,
    lay_room,
    name_problems,
    room_problems,
    rooms_mark,
    shared_connections,
)


def check_routes(trees: Sequence[RouteTree]) -> Iterator[JobFileProblem]:
    """Check names and tables across routes. Called once per load of a file with `routes`.

    One table has one ledger, and a ledger has one route.

    Args:
        trees: Plain data of all routes; parts of the wrong shape are ignored.
    """
    tables: dict[tuple[str, str], Positions] = {}
    names: dict[str, Positions] = {}
    locations: dict[str, Positions] = {}
    for tree in trees:
        positions = Positions(tree.root)
        table = positions.text(table_path(positions, "name"))
        yield from _check_name(tree, table)
        if table:
            store = positions.text(table_path(positions, "connection"))
            first = tables.setdefault((store, table.lower()), positions)
            if first is not positions:
                yield _again(
                    positions, "name", first, "list all its topics in one route, or a pattern"
                )
                continue
        yield from _check_unique_name(tree, table, names)
        location = _one_spelling(positions.text(table_path(positions, "location")))
        if location and (first := locations.setdefault(location, positions)) is not positions:
            yield _again(positions, "location", first, "give each table a folder of its own")


def _one_spelling(location: str) -> str:
    """A location for comparison: `file:///x` and `/x`, `s3://b` and `s3a://b` are the same."""
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


_A_MAPPING = "a mapping"
_EXPECTED = {
    "string_type": ("text", "put it into quotes"),
    "int_type": ("a whole number", "write digits only"),
    "float_type": ("a number", "write digits without quotes, such as 0.01"),
    "float_parsing": ("a number", "write digits without quotes, such as 0.01"),
    "bool_type": ("true or false", "write one of the two, without quotes"),
    "tuple_type": ("a list", "write [a, b], or items that begin with `-`"),
    "mapping_type": (_A_MAPPING, "write keys and values"),
    "dict_type": (_A_MAPPING, "write keys and values"),
    "model_type": (_A_MAPPING, "write keys and values"),
    "model_attributes_type": (_A_MAPPING, "write keys and values"),
    "too_short": ("at least one item", "add one"),
    "too_long": ("fewer items", "split the job"),
}


MoreChecks = Callable[[Mapping[str, Any], Positions], Iterator[JobFileProblem]]
"""(a route as plain data, its positions) -> problems that only upper layers can see.

Ignores parts of the wrong shape, as the checks of this layer do."""


def no_more_checks(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Default of `inspect_job`: no further checks."""
    del data, positions
    yield from ()


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A valid job file.

    Attributes:
        spec: Its contents.
        positions: Positions for later checks; one for each route of `spec`.
        source_path: The path as the user gave it.
    """

    spec: JobSpec
    positions: tuple[Positions, ...]
    source_path: FilePath

    def wrong_value(
        self, path: Path, expected: str, todo: str, *, route: int = 0
    ) -> JobFileProblem:
        """Make the problem of the value at `path`; later checks collect and raise them.

        Args:
            path: Path such as `("table", "columns", 2, "type")`.
            expected: The expected value.
            todo: What the user does.
            route: Position of the route in `spec.routes`.
        """
        positions = self.positions[route]
        text = f"expected {expected}, got {positions.came(path)}"
        return JobFileProblem(positions.value(path), text, todo)

    def error(self, problems: list[JobFileProblem]) -> Fatal:
        """Make the error that carries `problems`, at least one."""
        return job_file_error(str(self.source_path), problems)


@dataclass(frozen=True, slots=True)
class InspectedJob:
    """A job file and all its problems.

    Attributes:
        job: Its readable routes, valid or not; None when there is none.
        problems: All problems; empty when the file is valid.
    """

    job: LoadedJob | None
    problems: tuple[JobFileProblem, ...]


def load_job(path: FilePath, *, environ: Mapping[str, str] | None = None) -> LoadedJob:
    """Read and check a job file. Called once, at the edge; reads the file and its references.

    Args:
        path: The file.
        environ: Variables for `${env:NAME}`; None takes the process's own.

    Raises:
        JobFileError: The file cannot be read or is not valid; holds every problem.
        NotInThisVersionError: It only has problems with keys or values of later versions.
    """
    return parse_job(read_job_file(path), path, os.environ if environ is None else environ)


def parse_job(content: bytes, path: FilePath, environ: Mapping[str, str]) -> LoadedJob:
    """Check the bytes of a job file. As `load_job`, for bytes that are already read.

    Raises:
        JobFileError: The content is not valid; holds every problem.
        NotInThisVersionError: It only has problems with keys or values of later versions.
    """
    found = inspect_job(content, path, environ)
    if found.job is None or found.problems:
        raise job_file_error(str(path), found.problems)
    return found.job


def inspect_job(
    content: bytes,
    path: FilePath,
    environ: Mapping[str, str],
    more_checks: MoreChecks = no_more_checks,
    room: str = "",
) -> InspectedJob:
    """Find all problems in the bytes of a job file. Never raises for an invalid one.

    Args:
        content: The whole file.
        path: The path as the user gave it.
        environ: Variables for `${env:NAME}`.
        more_checks: Called for each route, also when its models refuse it.
        room: The room of this process, for a file with `rooms`; empty is its home.
    """
    document = read_document(content)
    if not _has_blocks(document.root):
        from sluiceway.jobfile.loader import foreign_file  # noqa: PLC0415 - seldom needed

        foreign = foreign_file(content, document.root)
        if foreign is not None:
            return InspectedJob(None, (foreign,))
    if document.root is None:
        return InspectedJob(None, document.problems)
    written = document.root
    has_rooms = isinstance(written, MappingNode) and rooms_mark(written) is not None
    room = room or home_of(written)
    laid = lay_room(written, room) if isinstance(written, MappingNode) else written
    root, unresolved = resolve_references(laid, environ)
    listed = has_routes(root)
    if isinstance(root, MappingNode) and not listed:
        root = with_table_source(root)
    whole = check_shape(root, JobFileBlocks, given_later=GIVEN_BY_ROUTES if listed else frozenset())
    if isinstance(root, MappingNode) and listed:
        routes, found = _read_routes(root, whole, more_checks)
    else:
        routes, found = _read_one(root, whole, more_checks)
    # A value whose reference was not replaced is not checked a second time.
    skipped = {problem.mark for problem in (*document.problems, *unresolved)}
    judged = [problem for problem in (*whole.problems, *found) if problem.mark not in skipped]
    misnamed = () if unresolved else name_problems(written, root)
    in_rooms = (*room_problems(written), *misnamed) if has_rooms else ()
    problems = (*document.problems, *unresolved, *in_rooms, *judged)
    if not routes:
        return InspectedJob(None, problems)
    first = routes[0].spec
    specs = tuple(_with_places(route, path, content) for route in routes)
    if has_rooms and isinstance(written, MappingNode):
        seen_from = {
            "room": room,
            "file_digest": file_digest(written),
            "shared_connections": shared_connections(written),
        }
        specs = tuple(spec.model_copy(update=seen_from) for spec in specs)
    spec = JobSpec(first.name, first.owner, first.run, specs, first.metrics)
    positions = tuple(route.positions for route in routes)
    return InspectedJob(LoadedJob(spec, positions, path), problems)


def _has_blocks(root: Node | None) -> bool:
    """Whether it has a block that only job files have."""
    keys = {entry.key for entry in root.entries} if isinstance(root, MappingNode) else set()
    return bool(keys & {"connections", "table", "routes"})


@dataclass(frozen=True, slots=True)
class _ReadRoute:
    """A route that the models accept."""

    spec: RouteSpec
    positions: Positions


def _with_places(route: _ReadRoute, path: FilePath, content: bytes) -> RouteSpec:
    """The route with the places of its columns and its SQL, for errors that come later."""
    if route.spec.transform is not None:
        node = route.positions.node(("transform", "sql"))
        # The text of a reference stands elsewhere.
        same = isinstance(node, Scalar) and node.value == node.text
        text = node.text if isinstance(node, Scalar) and same else ""
        found = sql_places(content.decode("utf-8", "replace"), text, node.mark, str(path))
        return route.spec.model_copy(update={"sql_places": found})
    if route.spec.table.subject is None:
        return route.spec
    places = places_in(route.positions.root, str(path), "table", "where")
    return route.spec.model_copy(update={"places": places})


def _read_one(
    root: Node, shape: Shape, more_checks: MoreChecks
) -> tuple[list[_ReadRoute], list[JobFileProblem]]:
    """Read a file that is one route, with the job's name."""
    positions = Positions(root)
    spec, found = _validate(shape, positions)
    if isinstance(shape.data, dict):
        found.extend(cross_check(shape.data, positions))
        found.extend(more_checks(shape.data, positions))
    found.extend(check_table_names([positions]))
    if spec is None or not _names_table(spec):
        return [], found
    name = "" if spec.table.target.is_template else spec.name
    return [_ReadRoute(spec.model_copy(update={"route": name}), positions)], found


def _read_routes(
    root: MappingNode, whole: Shape, more_checks: MoreChecks
) -> tuple[list[_ReadRoute], list[JobFileProblem]]:
    """Read each route as a job file of its own; the rest of the file is their defaults."""
    trees, found = route_trees(root)
    found.extend(_default_problems(root))
    routes = []
    for tree in trees:
        shape, positions = check_shape(tree.root, RouteSpec), Positions(tree.root)
        # Missing keys of these are reported by the check of the whole file or the route.
        shape.suggested |= whole.suggested | OWN_PATHS
        spec, problems = _validate(shape, positions)
        found.extend((*shape.problems, *problems))
        if isinstance(shape.data, dict):
            found.extend(cross_check(shape.data, positions))
            found.extend(more_checks(shape.data, positions))
        if spec is not None and _names_table(spec):
            routes.append(_ReadRoute(_named(spec, tree), positions))
    found.extend(check_routes(trees))
    found.extend(check_chains([(route.spec, route.positions) for route in routes]))
    found.extend(check_table_names([Positions(tree.root) for tree in trees]))
    return routes, found


def _names_table(spec: RouteSpec) -> bool:
    """Whether there is a table of some kind; the shape reports a missing one."""
    return spec.table.hive is not None or spec.table.iceberg is not None


def _named(spec: RouteSpec, tree: RouteTree) -> RouteSpec:
    if spec.table.target.is_template:
        return spec
    name = tree.name or default_route_name(spec.table.target.name)
    return spec.model_copy(update={"route": name})


def _default_problems(root: MappingNode) -> Iterator[JobFileProblem]:
    """Problems of values that every route may have overridden."""
    shape = check_shape(file_defaults(root), JobFileBlocks, given_later=GIVEN_BY_ROUTES)
    positions = Positions(root)
    try:
        RouteSpec.model_validate(shape.data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        present = [detail for detail in details if detail["type"] != "missing"]
        yield from _problems(present, shape, positions)


def read_job_file(path: FilePath) -> bytes:
    """Read the bytes of a job file; of a file that is too large only enough to know that.

    Raises:
        JobFileError: There is no such file, or it cannot be read.
    """
    where = str(path)
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        found = "expected a job file, got something that is no file"
        message = found if path.exists() else "no such file"
        raise JobFileError(message, where=where, hint="check the path")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a path that cannot be"
        message = f"expected a readable job file, got: {reason}"
        raise JobFileError(message, where=where, hint="check its permissions") from error


def _validate(shape: Shape, positions: Positions) -> tuple[RouteSpec | None, list[JobFileProblem]]:
    try:
        return RouteSpec.model_validate(shape.data), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return None, list(_problems(details, shape, positions))


def _problems(
    details: list[ErrorDetails], shape: Shape, positions: Positions
) -> Iterator[JobFileProblem]:
    for detail in details:
        path = detail["loc"]
        if not _is_known(detail, path, shape):
            yield _problem(detail, path, positions, shape)


def _is_known(detail: ErrorDetails, path: Path, shape: Shape) -> bool:
    """Whether the shape already has the problem that causes this one."""
    if any(path[:length] in shape.handled for length in range(len(path) + 1)):
        return True
    lost = path in shape.suggested or path[:-1] in shape.later_in
    return detail["type"] == "missing" and lost


def _problem(
    detail: ErrorDetails, path: Path, positions: Positions, shape: Shape
) -> JobFileProblem:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        text = f"expected the key {quoted(str(path[-1]))}, got none"
        return JobFileProblem(positions.key(path[:-1]), text, "add it")
    if kind == NOT_YET:
        text = f"{context['expected']} is not in this version"
        return JobFileProblem(positions.value(path), text, context["todo"], not_yet=True)
    if kind == WRONG_KEY:
        mark = positions.key((*path, *context["path"]))
        return JobFileProblem(mark, context["text"], context["todo"])
    expected, todo = _meaning(detail, context)
    if expected == _A_MAPPING:
        todo = shape.mapping_for(path, positions.node(path))
    came = positions.node(path)
    if kind == "literal_error" and isinstance(came, Scalar):
        now = RENAMED_VALUES.get((str(path[-1]), came.text))
        todo = todo if now is None else f"its name is {quoted(now)} now"
    text = f"expected {expected}, got {positions.came(path)}"
    return JobFileProblem(positions.value(path), text, todo)


def _meaning(detail: ErrorDetails, context: Mapping[str, Any]) -> tuple[str, str]:
    if "todo" in context:
        return str(context["expected"]), str(context["todo"])
    if detail["type"] in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']:,}" if "ge" in context else f"at most {context['le']:,}"
        return f"a number of {bound}", "choose another one"
    if detail["type"] == "literal_error":
        choices = str(context["expected"]).replace("'", "`")
        return choices, "choose one" if " or " in choices else f"write {choices}"
    return _EXPECTED.get(detail["type"], (detail["msg"], "correct it"))


_BEGIN = (
    "a job file of sluiceway is another one: `sluiceway init TOPIC` writes it from the topic that "
    "it reads, see docs/guides/first-table.md"
)
_FLINK_CDC = "a pipeline of Flink CDC"
_CONNECT = "a connector of Kafka Connect"
_KEYS = (
    (frozenset({"source", "sink", "pipeline"}), _FLINK_CDC),
    (frozenset({"source", "sink", "env"}), "a job of SeaTunnel"),
    (frozenset({"source", "sink"}), _FLINK_CDC),
    (frozenset({"connector.class"}), _CONNECT),
    (frozenset({"apiVersion", "kind"}), "a manifest of Kubernetes"),
    (frozenset({"services"}), "a file of Docker Compose"),
)
"""Keys that only another program's file has together at the top -> that program's file."""
_LINES = (
    (r"debezium\.source\.[\w.]+\s*[=:]", "the properties of Debezium Server"),
    (r"[\"']?connector\.class[\"']?\s*[=:]", _CONNECT),
    (r"(?i:create\s+(?:temporary\s+)?table\s)", "SQL"),
)
"""Beginnings of lines in files that are no YAML, or hide their keys in a block."""


def foreign_file(content: bytes, root: Node | None) -> JobFileProblem | None:
    """The problem that a file is another program's; None for all else.

    Args:
        content: The whole file, without any block of a job file.
        root: Its tree; None where it is no YAML.
    """
    keys = _keys(root)
    found = next((what for needed, what in _KEYS if needed <= keys), None)
    if found is None:
        text = content.decode("utf-8", "replace")
        found = next(
            (what for form, what in _LINES if re.search(rf"^[\s{{]*{form}", text, re.MULTILINE)),
            None,
        )
    if found is None:
        return None
    return JobFileProblem(Mark(1, 1), f"expected a job file, got {found}", _BEGIN)


def _keys(root: Node | None) -> set[str]:
    """Keys at the top, and those of a connector's `config`."""
    entries = root.entries if isinstance(root, MappingNode) else ()
    inner = (each.value for each in entries if each.key == "config")
    below = [one.key for each in inner if isinstance(each, MappingNode) for one in each.entries]
    return {*(entry.key for entry in entries), *below}
