"""The rules of the house as counts: one implementation for the tests and for `make house`.

    python -m tools.house

prints one closing line of JSON.
"""

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tools import plain_words
from tools.plain_words import documents, found_in
from tools.source_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "sluiceway"
MOST_FILES = 40
SESSION = PACKAGE / "route/route_session.py"
METAPHORS = frozenset(
    (
        *(
            "route_slot",
            "record_queue",
            "eyes",
            "letter",
            "teller",
            "patience",
            "parcel",
            "voice",
            "gate",
        ),
        *("foreseen", "wanted", "seen", "asked"),
    )
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EVENTS = re.compile(r"\bevents? ((?:`[a-z_]+`(?:, (?:and |or )?| and | or )?)+)", re.IGNORECASE)
_EVENT_HEADING = re.compile(r"^### ((?:`[a-z_]+`(?:, )?)+)$", re.MULTILINE)
_EVENT_LIST = re.compile(r"^- [A-Z][^:`]*: ((?:`[a-z_]+`(?:, )?)+)$", re.MULTILINE)
_EVENT_LINK = re.compile(r"#event-([a-z_]+)")
_COMMAND = re.compile(r"(?:`|^\$ |^)sluiceway ([a-z]+(?:-[a-z]+)*)\b(?![=:])", re.MULTILINE)
_METRIC = re.compile(r"\bsluiceway_[a-z_]+[a-z]\b")
_METRIC_ROW = re.compile(r"^\| `([a-z_]+)` \| (?:counter|gauge|histogram) \|", re.MULTILINE)
_TICKED = re.compile(r"`([a-z_]+)`")
_COMMENT = re.compile(r"(?:^|\s)# (.*)")
_STUB = re.compile(r"^\s+\w+: Of the\b", re.MULTILINE)


@cache
def source_files() -> tuple[Path, ...]:
    """All modules of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


def module_of(path: Path) -> str:
    """A file's name as it is imported."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rooms() -> dict[str, int]:
    """Room, from `sluiceway/` on -> how many files it has."""
    found = Counter(str(path.parent.relative_to(PACKAGE)) for path in source_files())
    return dict(sorted(found.items()))


def duplicate_classes() -> dict[str, list[str]]:
    """Public class names that are defined more than once, and where."""
    where: dict[str, list[str]] = defaultdict(list)
    for path in source_files():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(module_of(path))
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def imports_of(path: Path) -> set[str]:
    """Modules of the package that a module imports, those for type hints too."""
    known = modules()
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found |= {inner if inner in known else node.module} & known
    return found - {module_of(path)}


@cache
def modules() -> frozenset[str]:
    """Names of all modules."""
    return frozenset(module_of(path) for path in source_files())


def cycles() -> list[list[str]]:
    """Modules of one room that import each other in a circle."""
    graph: dict[Path, dict[str, set[str]]] = defaultdict(dict)
    for path in source_files():
        if path.name != "__init__.py":
            graph[path.parent][module_of(path)] = imports_of(path)
    found = []
    for edges in graph.values():
        inside = {name: imported & edges.keys() for name, imported in edges.items()}
        found += [sorted(each) for each in components(inside) if len(each) > 1]
    return sorted(found)


def collaborators(path: Path) -> dict[str, set[str]]:
    """Class of a module -> classes of the package that its fields and its `__init__` name."""
    tree = tree_of(path)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sluiceway.")
        for alias in node.names
    }
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    known = {name for name in imported | {node.name for node in classes} if name[:1].isupper()}
    return {node.name: _named_in(node) & known - {node.name} for node in classes}


def route_collaborators() -> dict[str, set[str]]:
    """As `collaborators`, of what a route's session consists of."""
    names = ("route_session", "route_context", "route_planner", "committer", "owned_route")
    paths = [PACKAGE / f"route/{name}.py" for name in names]
    return {name: found for path in paths for name, found in collaborators(path).items()}


def _named_in(node: ast.ClassDef) -> set[str]:
    parts = [
        each
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        or (isinstance(each, ast.FunctionDef) and each.name == "__init__")
    ]
    inner = [each for part in parts for each in ast.walk(part)]
    return {each.id for each in inner if isinstance(each, ast.Name)}


def room_cycles() -> list[list[str]]:
    """Rooms right below the package that import each other in a circle."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path in source_files():
        parts = module_of(path).split(".")
        if len(parts) > 2:
            rooms = {name.split(".")[1] for name in imports_of(path) if name.count(".") > 1}
            edges[parts[1]] |= rooms - {parts[1]}
    known = {room: others & edges.keys() for room, others in edges.items()}
    return sorted(sorted(each) for each in components(known) if len(each) > 1)


def components(edges: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """Strongly connected parts of a graph."""
    reached = {name: _reached(edges, name) for name in edges}
    done: set[str] = set()
    for name in edges:
        if name not in done:
            part = {other for other in reached[name] if name in reached[other]} | {name}
            done |= part
            yield part


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for name in edges[todo.pop()] - found:
            found.add(name)
            todo.append(name)
    return found


def words_of(name: str) -> list[str]:
    """The words of an identifier, in small letters."""
    return [word.lower() for word in _WORDS.findall(name)]


def metaphors() -> list[str]:
    """Names of modules, classes, functions and attributes that hold a banned metaphor."""
    found = []
    for path in source_files():
        module = module_of(path)
        named = [("", path.stem), *_names(tree_of(path), "")]
        found += [
            f"{module}{place}: {name}"
            for place, name in named
            if METAPHORS & {form for word in words_of(name) for form in (word, word.rstrip("s"))}
        ]
    return sorted(set(found))


def _names(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    """Place and name of what is defined below a node; conformance tests are sentences."""
    for child in ast.iter_child_nodes(node):
        inner = place
        if isinstance(child, (ast.ClassDef, *FUNCTIONS)):
            inner = f"{place}.{child.name}"
            if not child.name.startswith("test_"):
                yield inner, child.name
        elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
            yield place, child.attr
        elif isinstance(node, ast.ClassDef | ast.Module):
            yield from ((place, name) for name in _bound(child))
        yield from _names(child, inner)


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return []


def docstrings() -> Iterator[str]:
    """All docstrings of the package."""
    for path in source_files():
        for node in nodes_of(path):
            if isinstance(node, _DOCUMENTED):
                yield ast.get_docstring(node, clean=False) or ""


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each comment, docstring and message of a module.

    A message is a text with a blank in it. A value in an f-string counts as `x`.
    """
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if comment := _COMMENT.search(line):
            yield number, comment[1]
    inner: set[int] = set()
    for node in nodes_of(path):  # A text comes before the texts that it is made of.
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            text = "".join(_shown(part) for part in node.values)
        else:
            text = _shown(node) if isinstance(node, ast.Constant) and id(node) not in inner else ""
        if isinstance(node, ast.expr) and " " in text:
            yield node.lineno, text


def _shown(part: ast.AST) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "x"


def prose(path: Path) -> str:
    """A page without what stands in fences."""
    return _FENCE.sub("", path.read_text("utf-8"))


def words_in_code() -> list[str]:
    """Where comments, docstrings and messages say what plain English says otherwise."""
    return [
        f"{path.relative_to(ROOT)}:{begin + line - 1}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for begin, text in texts_of(path)
        for name, line in found_in(text)
    ]


def banned_words() -> int:
    """How often pages and code do so."""
    return plain_words.banned_words() + len(words_in_code())


def stub_docs() -> int:
    """Fields whose doc says only what they belong to."""
    return sum(len(_STUB.findall(text)) for text in docstrings())


def docs_words() -> int:
    """Words of all pages."""
    return sum(len(path.read_text("utf-8").split()) for path in documents())


@cache
def texts_of_code() -> frozenset[str]:
    """Every text of the package's code: names of events and metrics are among them."""
    return frozenset(
        node.value
        for path in source_files()
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def events_in_docs() -> set[str]:
    """Events that pages name, be it in a heading, a table, a link or a sentence."""
    found: set[str] = set()
    for path in documents():
        text = prose(path)
        lists = _EVENTS.findall(text)
        if path.name == "events.md":
            lists += [*_EVENT_HEADING.findall(text), *_EVENT_LIST.findall(text)]
        found |= {name for names in lists for name in _TICKED.findall(names)}
        found |= {name.removesuffix("-of") for name in _EVENT_LINK.findall(text)}
    return found


def commands_in_docs() -> set[str]:
    """First words after `sluiceway` in commands of pages."""
    return {name for path in documents() for name in _COMMAND.findall(path.read_text("utf-8"))}


def metrics_in_docs() -> set[str]:
    """Names of metrics that pages name, from `sluiceway_` on."""
    found: set[str] = set()
    for path in documents():
        text = path.read_text("utf-8")
        found |= set(_METRIC.findall(text))
        if path.name == "metrics.md":
            found |= {f"sluiceway_{name}" for name in _METRIC_ROW.findall(text)}
    return found


def metric_forms(name: str) -> frozenset[str]:
    """What the code may hold of a metric's name: Prometheus adds an end to those of a histogram."""
    ends = ("", "_bucket", "_sum", "_count", "_total")
    stems = {name.removesuffix(end) for end in ends}
    return frozenset({*stems, *(stem.removeprefix("sluiceway_") for stem in stems)})


def figures() -> dict[str, int]:
    """What `make house` prints."""
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in source_files())
    return {
        "files": len(source_files()),
        "lines": lines,
        "duplicate_class_names": len(duplicate_classes()),
        "cycles": len(cycles()),
        "largest_room": max(rooms().values()),
        "route_session_imports": len(imports_of(SESSION)),
        "most_collaborators": max(map(len, route_collaborators().values())),
        "banned_words": banned_words(),
        "stub_docs": stub_docs(),
        "docs_words": docs_words(),
    }


def _listed(title: str, lines: Sequence[str]) -> None:
    for line in lines:
        print(f"{title}: {line}")


def main() -> None:
    """What is still to be mended, a line each, and the figures last."""
    _listed("defined twice", [f"{name}: {', '.join(p)}" for name, p in duplicate_classes().items()])
    _listed("cycle", [", ".join(each) for each in cycles()])
    _listed("large room", [f"{room}: {n}" for room, n in rooms().items() if n > MOST_FILES])
    _listed("metaphor", metaphors())
    _listed("word", words_in_code())
    print(json.dumps(figures()))


if __name__ == "__main__":
    main()
