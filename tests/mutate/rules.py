"""Which code docs/contributors/rules.md names for which rule, and which tests."""

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mutate.changes import Change, Function, changes_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TABLE = ROOT / "docs/contributors/rules.md"
CONFORMANCE = ROOT / "src/sluiceway/conformance"

_TEST = re.compile(r"`(test_\w+)`")
_DEFINED = re.compile(r"^ *def (test_\w+)\(", re.MULTILINE)
_CODE = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]\w*)+)`")
_FILE = re.compile(r"`((?:unit|processes|properties|contract|faults)/[\w/]+\.py)`")
# They speak of the design: nothing of the product is in them.
_OF_THE_DESIGN = ("test_model.py",)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Named:
    """Code that a rule names: a function, a method, or one of a class that is named whole.

    Attributes:
        path: Of its file, relative to `src`.
        qualified: `Class.method` or the function's name.
        rules: That name it.
        tests: Names of the tests in its row.
    """

    path: str
    qualified: str
    rules: tuple[str, ...]
    tests: frozenset[str]

    @property
    def name(self) -> str:
        """As people see it; a file that is moved to another folder keeps it."""
        return f"{Path(self.path).stem}.{self.qualified}"

    @property
    def module(self) -> str:
        """As it is imported."""
        return self.path.removesuffix(".py").replace("/", ".")


@dataclass(slots=True)
class Subject:
    """A function that is to be changed, with all its changes."""

    named: Named
    tree: ast.Module
    node: Function
    changes: list[Change]
    _by_name: dict[str, Change] = field(default_factory=dict)

    def change(self, name: str) -> Change:
        """The change of that name."""
        if not self._by_name:
            self._by_name = {change.name: change for change in self.changes}
        return self._by_name[name]

    @property
    def code(self) -> str:
        """A short hash of the function as it stands; comments and places do not count."""
        return hashlib.sha256(ast.unparse(self.node).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


def read_rules(table: Path = TABLE) -> list[Rule]:
    """All rows of docs/contributors/rules.md."""
    rows = []
    for line in table.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        # A rule's name may lead to where it is explained.
        name = re.fullmatch(r"\[?([PIR]\d+)(?:\]\(\S+\))?", cells[0]) if len(cells) == 3 else None
        if name is not None:
            tests = [*_TEST.findall(cells[2])]
            for file in _FILE.findall(cells[2]):
                tests += _tests_in(ROOT / "tests" / file)
            rows.append(Rule(name[1], (*_CODE.findall(cells[1]),), tuple(dict.fromkeys(tests))))
    return rows


def _tests_in(path: Path) -> list[str]:
    """Names of the tests that a file defines."""
    return _DEFINED.findall(path.read_text("utf-8"))


def subjects(rules: Sequence[Rule]) -> list[Subject]:
    """What the rules name, once each, in the order of the rules.

    Raises:
        LookupError: A name leads nowhere.
    """
    found: dict[tuple[str, str], Named] = {}
    for rule in rules:
        for dotted in rule.code:
            for path, qualified in find_functions(dotted):
                known = found.get((path, qualified), Named(path, qualified, (), frozenset()))
                found[path, qualified] = Named(
                    path,
                    qualified,
                    (*known.rules, rule.name),
                    known.tests | frozenset(rule.tests),
                )
    return [_subject(named) for named in found.values()]


def _subject(named: Named) -> Subject:
    tree = parsed(named.path)
    node = find(tree, named.qualified)
    assert isinstance(node, _FUNCTIONS)
    return Subject(named, tree, node, changes_of(node))


@cache
def parsed(path: str) -> ast.Module:
    """The tree of a file of the source; the same one each time."""
    return ast.parse((SOURCE / path).read_bytes())


def find(tree: ast.Module, qualified: str) -> ast.AST:
    """The function or class of that name.

    Raises:
        LookupError: There is none.
    """
    body: list[ast.stmt] = tree.body
    node: ast.AST = tree
    for name in qualified.split("."):
        defined = [
            each for each in body if isinstance(each, (*_FUNCTIONS, ast.ClassDef))
            and each.name == name
        ]  # fmt: skip
        if not defined:
            raise LookupError(f"no {qualified}")
        node, body = defined[-1], defined[-1].body
    return node


def find_functions(dotted: str) -> Iterator[tuple[str, str]]:
    """File and qualified name of what a rule names: a function, or all methods of a class.

    Raises:
        LookupError: The name leads nowhere.
    """
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = "/".join(("sluiceway", *parts[:length])) + ".py"
        if (SOURCE / path).is_file():
            qualified = ".".join(parts[length:])
            try:
                node = find(parsed(path), qualified)
            except LookupError:
                break
            if isinstance(node, _FUNCTIONS):
                yield path, qualified
            for each in getattr(node, "body", ()) if isinstance(node, ast.ClassDef) else ():
                if isinstance(each, _FUNCTIONS):
                    yield path, f"{qualified}.{each.name}"
            return
    raise LookupError(f"docs/contributors/rules.md names {dotted}, which is nowhere")


@cache
def tests_of_the_design() -> frozenset[str]:
    """Names of tests that say nothing of the product's code."""
    files = (path for name in _OF_THE_DESIGN for path in (ROOT / "tests").rglob(name))
    return frozenset(name for path in files for name in _tests_in(path))


@cache
def test_files() -> dict[str, tuple[Path, ...]]:
    """Name of a test -> the files that define it, relative to the project."""
    found: dict[str, list[Path]] = {}
    for path in (*sorted((ROOT / "tests").rglob("test_*.py")), *sorted(CONFORMANCE.glob("*.py"))):
        if path.name in _OF_THE_DESIGN:
            continue
        for name in _tests_in(path):
            found.setdefault(name, []).append(path.relative_to(ROOT))
    return {name: tuple(paths) for name, paths in found.items()}


@cache
def proof_hash(names: frozenset[str]) -> str:
    """A short hash of the tests of these names, as they stand."""
    texts = []
    for path in sorted({path for name in names for path in test_files().get(name, ())}):
        for node in ast.walk(ast.parse((ROOT / path).read_bytes())):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                texts.append(ast.unparse(node))
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]
