"""What the plug-in that chooses tests refuses."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tools.source_trees import nodes_of
from tools.test_plan import (
    MAX_CPU_S,
    MOST_PROMISES,
    TestPlan,
    names_of_no_test,
    promises,
    slow_after,
    slow_names,
    without_case,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = sorted((ROOT / "src/sluiceway/conformance").glob("*.py"))


def _item(name: str) -> pytest.Item:
    return cast("pytest.Item", SimpleNamespace(nodeid=name))


def _run(plan: TestPlan, name: str = "tests/a.py::test_b") -> None:
    """Call the plug-in as pytest does around a test."""
    wrapped = cast("Iterator[None]", plan.pytest_runtest_call(_item(name)))
    next(wrapped)
    assert next(wrapped, "ended") == "ended"


def _steps(*values: float) -> Any:
    left = list(values)
    return lambda: left.pop(0)


def test_case_that_takes_too_much_cpu_is_named() -> None:
    plan = TestPlan(cpu=_steps(1.0, 1.5 + MAX_CPU_S))
    _run(plan)
    assert [each.split(":")[0] for each in plan.too_long] == ["tests/a.py"]


def test_case_with_little_cpu_is_fine_however_long_it_waits() -> None:
    plan = TestPlan(cpu=_steps(1.0, 0.9 + MAX_CPU_S))
    _run(plan)
    assert plan.too_long == []


def test_run_with_a_case_that_became_long_fails() -> None:
    plan = TestPlan(cpu=_steps(0.0, 2 * MAX_CPU_S))
    _run(plan)
    session = cast("pytest.Session", SimpleNamespace(exitstatus=pytest.ExitCode.OK))
    plan.pytest_sessionfinish(session)
    assert session.exitstatus is pytest.ExitCode.TESTS_FAILED


def test_unit_test_that_starts_a_process_fails_the_run() -> None:
    plan = TestPlan()
    plan.pytest_runtest_logstart("tests/unit/test_a.py::test_b")
    plan.watch("open", ("file",))
    assert plan.started == []
    plan.watch("subprocess.Popen", ("java", ["java"]))
    assert [each.split(": ")[0] for each in plan.started] == ["tests/unit/test_a.py::test_b"]


def test_other_tests_may_start_processes() -> None:
    plan = TestPlan()
    plan.pytest_runtest_logstart("tests/processes/test_a.py::test_b")
    plan.watch("subprocess.Popen", ("java", ["java"]))
    assert plan.started == []


def test_names_of_tests_that_are_gone_are_found() -> None:
    items = [_item("tests/a.py::test_b[1]"), _item("tests/a.py::test_c")]
    names = ["tests/a.py::test_b", "tests/a.py::test_b[1]", "tests/other.py::test_x"]
    assert names_of_no_test(names, items) == []
    assert names_of_no_test(["tests/a.py::test_b[2]", "tests/a.py::test_d"], items) == [
        "tests/a.py::test_b[2]",
        "tests/a.py::test_d",
    ]


def test_first_cases_are_quick_and_the_others_slow() -> None:
    first, second = slow_after(1, [("a", 1), ("b", 2)])
    assert first == ("a", 1)
    assert second.values == ("b", 2)
    assert [mark.name for mark in second.marks] == ["slow"]


def test_promises_are_few_and_each_names_a_test_of_its_own() -> None:
    found = promises()
    assert 10 <= len(found) <= MOST_PROMISES
    assert len({each.test for each in found}) == len(found)
    assert [each.says for each in found if not each.says.endswith(".")] == []


@pytest.mark.parametrize("name", [*slow_names(), *(each.test for each in promises())])
def test_named_test_exists(name: str) -> None:
    path, _, test = without_case(name).partition("::")
    # Classes of a suite have their tests from the package.
    files = [ROOT / path, *(CONFORMANCE if test.count("::") else ())]
    names = {getattr(node, "name", "") for file in files for node in nodes_of(file)}
    assert set(test.split("::")) <= names
