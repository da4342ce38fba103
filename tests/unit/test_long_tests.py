"""What `make test` leaves to `make test-long` names a shorter test of the same promise.

`@pytest.mark.long(shorter="test_...")` stands at a test, in `pytestmark` of a file, or among the
marks of a parameter. The test it names is in `make test` itself.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CONFORMANCE = TESTS.parent / "src/sluiceway/conformance"
# They have targets of their own, and none of their tests is in `make test`.
ELSEWHERE = ("stores", "rocketmq", "clusters", "kerberos", "cdc")


def _is_long(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.long"


def _marks(node: ast.AST) -> list[ast.Call]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Call) and _is_long(each)]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


@cache
def _trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(TESTS.parent)): ast.parse(path.read_bytes())
        for path in (*TESTS.rglob("test_*.py"), *CONFORMANCE.glob("*.py"))
        if path.parent.name not in ELSEWHERE
    }


@cache
def _short() -> frozenset[str]:
    """Names of tests of which at least one run is in `make test`."""
    found = set()
    for tree in _trees().values():
        whole = [node for node in tree.body if isinstance(node, ast.Assign) and _is_file_mark(node)]
        if any(_marks(node) for node in whole):
            continue
        found |= {
            node.name for node in _functions(tree)
            if not any(_is_long(each) for each in node.decorator_list)
        }  # fmt: skip
    return frozenset(found)


def _is_file_mark(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "pytestmark"


MARKS = [
    (f"{path}:{mark.lineno}", mark) for path, tree in _trees().items() for mark in _marks(tree)
]


@pytest.mark.parametrize("mark", [mark for _, mark in MARKS], ids=[where for where, _ in MARKS])
def test_each_long_test_names_a_shorter_one_that_is_in_make_test(mark: ast.Call) -> None:
    assert [each.arg for each in mark.keywords] == ["shorter"]
    named = ast.literal_eval(mark.keywords[0].value)
    assert named in _short()


def test_marks_of_long_tests_are_found() -> None:
    # Where the way to find them breaks, nothing above would be asked.
    assert len(MARKS) > 10
    assert "test_marks_of_long_tests_are_found" in _short()
