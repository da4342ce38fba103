"""Fixtures of all test folders; servers start only when a test asks for one."""

import gc

import pytest

from tools.durations import Durations

pytest_plugins = ["tools.lab_fixture"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep how long each test takes."""
    config.pluginmanager.register(Durations())


def pytest_collection_finish() -> None:
    """Let collections of garbage pass over the thousands of tests that were found."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let libraries find their own objects at the end of the process."""
    gc.unfreeze()
