"""Every test can fail: it asserts, or it is said here what raises. None goes by a clock."""

import ast
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TESTS = Path(__file__).parents[1]
RAISING = {
    "test_check_output_right_table_is_accepted": "the check raises RuntimeError for a wrong table",
    "test_epoch_without_such_rows_is_not_refused_for_those_before_it": "DirtyLimitError",
    "test_ledger_that_nobody_has_touched_is_taken_again": "FencedError or LedgerMismatchError",
    "test_own_fence_that_a_start_in_vain_has_left_is_no_other_driver": "FencedError",
    "test_new_ledger_of_a_new_table_is_another_matter": "LedgerMismatchError",
    "test_ledger_is_accepted_after_a_crash_between_any_two_steps": "LedgerMismatchError",
    "test_other_layouts_than_ours_are_sources": "TableMismatchError",
    "test_retired_partition_is_nobodys_doubt": "the second look raises OffsetsLostError",
}
"""Tests of what is let through: name -> what would be raised, and fail them."""
_ASSERTING = {"pytest.raises", "pytest.warns", "pytest.fail", "wait_for"}
"""Calls that assert; `wait_for` is that of `tools.waiting`."""


def asserts(test: ast.AST, helpers: set[str]) -> bool:
    """Whether a function holds an assertion, or calls one of its module's that does."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in _ASSERTING | helpers:
                return True
            if name.rpartition(".")[2].lstrip("_").startswith("assert_"):
                return True
    return False


def silent(text: str) -> list[str]:
    """Names of the tests of a module that assert nothing themselves."""
    functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
    helpers = {each.name for each in functions if asserts(each, set())}
    tests = [each for each in functions if each.name.startswith("test_")]
    return [each.name for each in tests if not asserts(each, helpers)]


def test_every_test_asserts_or_is_named_with_what_would_be_raised() -> None:
    found = {name for path in TESTS.rglob("test_*.py") for name in silent(path.read_text("utf-8"))}
    assert sorted(found) == sorted(RAISING)
    assert all(RAISING.values())


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("run()", ["test_it"]),
        ("run(); print(1)", ["test_it"]),
        ("assert run()", []),
        ("with pytest.raises(ValueError): run()", []),
        ("check()", []),
        ("pair.assert_verified()", []),
        ("wait_for(run)", []),
    ],
)
def test_finder_finds_tests_that_assert_nothing(body: str, wanted: list[str]) -> None:
    assert silent(f"def check():\n    assert run()\n\ndef test_it():\n    {body}\n") == wanted


_LONGER_THAN_A_DEADLINE_S = 0.3


def _slowly(number: int) -> int:
    time.sleep(_LONGER_THAN_A_DEADLINE_S)
    return number


@settings(max_examples=2, database=None)
@given(st.builds(_slowly, st.integers()))
def test_example_that_is_made_slowly_is_an_example(number: int) -> None:
    time.sleep(_LONGER_THAN_A_DEADLINE_S)
    assert isinstance(number, int)
