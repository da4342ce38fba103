"""How long each test took: kept in `build/test-durations`, a file a run of pytest.

What fails is written there at once, to `failed.txt` and how to `failures.txt`: a run of all tests
takes long.

python -m tools.durations        the 20 longest of all that is kept there, and what failed
python -m tools.durations clear  before a run of all tests
"""

import json
import os
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
        # A test that runs others expects their failures, as of mutants.
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

    def pytest_sessionfinish(self) -> None:
        """Called by pytest at its end."""
        if self._inside:
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        rounded = {name: round(seconds, 2) for name, seconds in self._seconds.items()}
        (FOLDER / f"{os.getpid()}.json").write_text(json.dumps(rounded))


def longest() -> list[tuple[float, str]]:
    """(seconds, test) of those that took longest, the longest first."""
    found = [
        (seconds, name)
        for path in FOLDER.glob("*.json")
        for name, seconds in json.loads(path.read_text()).items()
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
    print(f"the {_SHOWN} longest tests, in seconds:")
    for seconds, name in longest():
        print(f"{seconds:8.1f}  {name}")
    if FAILED.exists():
        print("failed:", *FAILED.read_text().splitlines(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
