"""A pytest plug-in of `make proofs NAME=test-stores`: its last line says which stores were tried.

Counted are the tests that ran: one that was skipped tried nothing. A store is named once a test on
it has run.
"""

import json
from pathlib import Path

import pytest

STORES = ("local", "hdfs", "s3")
_LOCAL_TESTS = "contract"


class StoreChecks:
    """What has run."""

    def __init__(self) -> None:
        self._stores: dict[str, set[str]] = {}
        self._outcomes: dict[str, bool] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest once all tests are known."""
        self._stores = {item.nodeid: stores_of(item) for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each phase of each test."""
        if report.skipped:
            return
        if report.when == "call" or report.failed:
            known = self._outcomes.get(report.nodeid, True)
            self._outcomes[report.nodeid] = known and report.passed

    def closing(self) -> dict[str, object]:
        """The figures of the closing line."""
        tried = {store for test in self._outcomes for store in self._stores.get(test, ())}
        return {
            "stores": [store for store in STORES if store in tried],
            "checks": len(self._outcomes),
            "passed": sum(self._outcomes.values()),
        }

    def pytest_unconfigure(self) -> None:
        """Called by pytest at its very end."""
        print(json.dumps(self.closing()))


def stores_of(item: pytest.Item) -> set[str]:
    """The stores that a test runs on: by its parameter, by its fixtures, or by where it lies."""
    callspec = getattr(item, "callspec", None)
    given = None if callspec is None else callspec.params.get("store")
    if given in STORES:
        return {given}
    if Path(item.path).parent.name == _LOCAL_TESTS:
        return {"local"}
    return {store for store in STORES if store in getattr(item, "fixturenames", ())}


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest when it loads this module."""
    config.pluginmanager.register(StoreChecks())
