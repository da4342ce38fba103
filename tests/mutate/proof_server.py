"""Tests in one process, collected once: `python -m mutate.proof_server REQUESTS ANSWERS FILE...`.

The names of the tests that are wanted come as JSON on standard input; none wants all.
"""

import json
import os
import sys

import pytest

from mutate.forks import serve
from mutate.rules import ROOT, read_rules, subjects
from mutate.swap import import_all


class Served:
    """A plug-in that collects, and then runs what it is asked for, in forks."""

    def __init__(self, requests: int, answers: int, wanted: frozenset[str]) -> None:
        self._pipes = (requests, answers)
        self._wanted = wanted
        self._failure = ""
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is wanted."""
        if self._wanted:
            items[:] = [item for item in items if _function_of(item) in self._wanted]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running all of them."""
        if session.testsfailed:
            return False
        self._items = {item.nodeid: item for item in session.items}
        changed = subjects(read_rules())
        import_all(changed)
        serve(changed, *self._pipes, self._run, list(self._items))
        return True

    def _run(self, item: str) -> str:
        self._failure = ""
        found = self._items[item]
        found.config.hook.pytest_runtest_protocol(item=found, nextitem=None)
        return self._failure

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what failed."""
        if report.failed and not self._failure:
            self._failure = f"{report.when}: {str(report.longrepr)[-400:]}"


def _function_of(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", None) or item.name)


def main() -> int:
    """Serve until the requests end."""
    requests, answers, scratch, *files = sys.argv[1:]
    wanted = frozenset(json.loads(sys.stdin.read()))
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{scratch}/hypothesis"
    options = ["-q", "--capture=no", "-p", "no:cacheprovider", f"--basetemp={scratch}/tests"]
    options += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "--hypothesis-seed=0"]
    served = Served(int(requests), int(answers), wanted)
    os.chdir(ROOT)
    return int(pytest.main([*options, *files], plugins=[served]))


if __name__ == "__main__":
    sys.exit(main())
