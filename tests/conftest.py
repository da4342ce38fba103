"""Fixtures of all test folders; servers start only when a test asks for one."""

import gc

import pytest
from hypothesis import HealthCheck, settings

from tools.durations import Durations
from tools.test_plan import TestPlan

pytest_plugins = ["tools.lab_fixture"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep how long each test takes; choose what `make test` runs."""
    config.addinivalue_line("markers", "slow: more than two seconds; not in `make test`")
    config.addinivalue_line("markers", "promise: slow, and in `make test`: tests/promises.toml")
    config.addinivalue_line("markers", "stops_servers: has a lab of its own in `make test-all`")
    config.pluginmanager.register(Durations())
    config.pluginmanager.register(TestPlan())
    # Servers and Spark run beside: how long an example took says nothing.
    settings.register_profile(
        "unhurried",
        settings.default,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("unhurried")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a group of tests without any of the chosen mark be no failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.markexpr:
        session.exitstatus = pytest.ExitCode.OK


def pytest_collection_finish() -> None:
    """Let collections of garbage pass over the thousands of tests that were found."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let libraries find their own objects at the end of the process."""
    gc.unfreeze()
