"""Which tests `make test` runs, by marks: a pytest plug-in.

| mark | given to | runs in |
|---|---|---|
| none | a case that takes at most two seconds | `make test` |
| `slow` | a longer one, by a decorator or in `tests/slow.txt` | `make test-all` |
| `promise` | the longer tests of `tests/promises.toml` | `make test` |
| `stops_servers` | what takes the fixture `lab` | `make test-all`, with a lab of its own |

A case without the mark `slow` that took more than 6 s of CPU fails the run. The longest of them
takes 3 s where it was measured. Waiting never fails a run: a slow disk or a busy server makes
every case wait, and `tools.durations` lists the longest. A test of `tests/unit` that starts a
process fails the run too.
"""

import sys
import tomllib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.durations import used_cpu_s

TESTS = Path(__file__).resolve().parents[1]
SLOW_FILE, PROMISES_FILE = TESTS / "slow.txt", TESTS / "promises.toml"
MAX_CPU_S = 6.0
MOST_PROMISES = 25
UNIT = "tests/unit/"
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence of the README or of a guide, and the longer test that holds it.

    Attributes:
        says: What users are promised.
        test: The test's node id, from the project's folder; all of its cases count.
    """

    says: str
    test: str


def promises() -> list[Promise]:
    """Those of `tests/promises.toml`."""
    return [Promise(**each) for each in tomllib.loads(PROMISES_FILE.read_text())["promise"]]


def slow_names() -> list[str]:
    """Node ids of `tests/slow.txt`; one without `[...]` names all cases of a test."""
    lines = SLOW_FILE.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def without_case(name: str) -> str:
    """A node id without its case: `a.py::test_b[1]` is of `a.py::test_b`."""
    return name.split("[", 1)[0]


def slow_after(quick: int, cases: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`: the first `quick` are in `make test`, the others are slow.

    A case of several values is a tuple, as everywhere.
    """
    every = list(cases)
    assert 0 < quick < len(every)
    rest = [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in every[quick:]
    ]
    return every[:quick] + rest


class TestPlan:
    """The plug-in; `conftest.py` registers it.

    Args:
        cpu: CPU seconds that this process and its ended children have used.
    """

    __test__ = False

    def __init__(self, cpu: Callable[[], float] = used_cpu_s) -> None:
        self._cpu = cpu
        self._may_be_long: set[str] = set()
        self.too_long: list[str] = []
        self._unit_test = ""
        self.started: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> None:
        """Called by pytest before it chooses by marks.

        Raises:
            pytest.UsageError: A name of the two files is no test any more.
        """
        slow, promised = slow_names(), [each.test for each in promises()]
        for item in items:
            names = {item.nodeid, without_case(item.nodeid)}
            if names & set(slow):
                item.add_marker("slow")
            if names & set(promised):
                item.add_marker("promise")
            if "lab" in getattr(item, "fixturenames", ()):
                item.add_marker("stops_servers")
            if not {"slow", "stops_servers"}.isdisjoint(m.name for m in item.iter_markers()):
                self._may_be_long.add(item.nodeid)
        chosen_by_name = config.option.keyword or any("::" in arg for arg in config.args)
        if not chosen_by_name and (gone := names_of_no_test(slow + promised, items)):
            message = "tests/slow.txt or tests/promises.toml names tests that do not exist:"
            raise pytest.UsageError("\n  ".join([message, *gone]))

        if any(item.nodeid.startswith(UNIT) for item in items):
            sys.addaudithook(self.watch)

    def watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """Called by Python for each audit event of this process."""
        if self._unit_test and event in _STARTS:
            self.started.append(f"{self._unit_test}: {event} {arguments[:2]}")
            # One line a test is enough.
            self._unit_test = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called by pytest before each test and its fixtures."""
        self._unit_test = nodeid if nodeid.startswith(UNIT) else ""

    def pytest_runtest_logfinish(self) -> None:
        """Called by pytest after each test."""
        self._unit_test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Called by pytest around each test without its fixtures, which may be of many tests."""
        if item.nodeid in self._may_be_long:
            return (yield)
        began = self._cpu()
        try:
            return (yield)
        finally:
            cpu_s = self._cpu() - began
            if cpu_s > MAX_CPU_S:
                self.too_long.append(f"{item.nodeid}: {cpu_s:.1f} s of CPU")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Called by pytest at its end; what breaks the plan fails the run."""
        if (self.too_long or self.started) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Called by pytest to close its report."""
        for each in self.too_long:
            terminalreporter.write_line(
                f"FAILED {each}: make it shorter, or give it the mark slow and a shorter test "
                "of the same",
                red=True,
            )
        for each in self.started:
            terminalreporter.write_line(
                f"FAILED {each}: tests that start processes are in tests/processes", red=True
            )


def names_of_no_test(names: Iterable[str], items: Sequence[pytest.Item]) -> list[str]:
    """Names in files that were collected whole which are none of the collected tests."""
    files = {item.nodeid.split("::", 1)[0] for item in items}
    known = {name for item in items for name in (item.nodeid, without_case(item.nodeid))}
    return [name for name in names if name.split("::", 1)[0] in files and name not in known]
