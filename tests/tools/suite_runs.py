"""Runs single tests of a conformance suite by hand, to see whether they find planted faults."""

import inspect

import pytest


def fails(suite: object, test: str, **fixtures: object) -> bool:
    """Whether one test of a suite fails.

    Args:
        suite: An instance of the suite.
        test: Name of its method.
        fixtures: More than it takes is fine.
    """
    method = getattr(suite, test)
    wanted = inspect.signature(method).parameters
    try:
        method(**{name: fixtures[name] for name in wanted})
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever ends a test
        return True
    return False


def names_of_tests(suite: type) -> set[str]:
    """Names of a suite's tests."""
    return {name for name in dir(suite) if name.startswith("test_")}
