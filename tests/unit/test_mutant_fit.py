"""A mutant of a simulation that breaks by itself is not caught by anybody."""

import pytest

from tools.mutant_fit import refuse_outdated


@pytest.mark.parametrize(
    "violation",
    [
        "driver0 logged a bug: TypeError: take() got an unexpected keyword argument",
        "driver0 logged a bug: AssertionError",
        "driver0 logged a bug: AttributeError: no such name",
        "driver0 logged a bug: NameError: name 'held' is not defined",
    ],
)
def test_mutant_that_breaks_by_itself_is_told_and_counts_as_no_catch(violation: str) -> None:
    with pytest.raises(AssertionError, match="mutant sealed-lost does not fit: driver0"):
        refuse_outdated("sealed-lost", violation)


def test_promise_that_was_broken_is_a_catch() -> None:
    refuse_outdated("sealed-lost", "I7: rows for dt=20261120/hr=08 after its READY")
    with pytest.raises(AssertionError):
        refuse_outdated("sealed-lost", "AssertionError")
