"""No property test goes by a clock: the machine has servers and Spark to run meanwhile."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

_LONGER_THAN_A_DEADLINE_S = 0.3


def _slowly(number: int) -> int:
    time.sleep(_LONGER_THAN_A_DEADLINE_S)
    return number


@settings(max_examples=2, database=None)
@given(st.builds(_slowly, st.integers()))
def test_example_that_is_made_slowly_is_an_example(number: int) -> None:
    time.sleep(_LONGER_THAN_A_DEADLINE_S)
    assert isinstance(number, int)
