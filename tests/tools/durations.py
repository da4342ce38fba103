"""How long each test took, and its CPU: kept in `build/test-durations`, a file a run of pytest.

CPU is that of the test's process and of processes that ended in the test; servers that go on are
left out.

What fails is written there at once, to `failed.txt` and how to `failures.txt`: a run of all tests
takes long.

python -m tools.durations        the 20 longest of all that is kept there, and what failed
python -m tools.durations clear  before a run of all tests
"""

import json
import os
import resource
import sys
from collections import defaultdict
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "build" / "test-durations"
FAILED, FAILURES = FOLDER / "failed.txt", FOLDER / "failures.txt"
_SHOWN = 20


class Durations:
    """A pytest plug-in: set-up, call and tear-down of each test, added up."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cpu_s: dict[str, float] = {}
        # A test that runs others expects their failures, for example of mutants.
        self._inside = "PYTEST_CURRENT_TEST" in os.environ

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of each test."""
        self._seconds[report.nodeid] += report.duration
        if report.failed and not self._inside:
            FOLDER.mkdir(parents=True, exist_ok=True)
            with FAILED.open("a") as file:
                file.write(f"{report.nodeid} ({report.when})\n")
            with FAILURES.open("a") as file:
                file.write(f"{report.nodeid} ({report.when})\n{report.longreprtext}\n\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called by pytest before each test."""
        self._cpu_s[nodeid] = -used_cpu_s()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Called by pytest after each test."""
        self._cpu_s[nodeid] += used_cpu_s()

    def pytest_sessionfinish(self) -> None:
        """Called by pytest at its end."""
        if self._inside:
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        took = {
            name: (round(seconds, 2), round(self._cpu_s[name], 2))
            for name, seconds in self._seconds.items()
        }
        (FOLDER / f"{os.getpid()}.json").write_text(json.dumps(took))


def used_cpu_s() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def longest() -> list[tuple[float, float, str]]:
    """(seconds, CPU seconds, test) of the slowest tests, the slowest first."""
    found = [
        (seconds, cpu_s, name)
        for path in FOLDER.glob("*.json")
        for name, (seconds, cpu_s) in json.loads(path.read_text()).items()
    ]
    return sorted(found, reverse=True)[:_SHOWN]


def main(arguments: list[str]) -> int:
    """The command; its exit code."""
    if arguments == ["clear"]:
        for path in FOLDER.glob("*.json"):
            path.unlink()
        for path in (FAILED, FAILURES):
            path.unlink(missing_ok=True)
        return 0
    print(f"the {_SHOWN} longest tests, in seconds, and their CPU:")
    for seconds, cpu_s, name in longest():
        print(f"{seconds:8.1f} {cpu_s:8.1f}  {name}")
    if FAILED.exists():
        print("failed:", *FAILED.read_text().splitlines(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
