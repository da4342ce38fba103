"""Cases of a test that `make test` leaves to `make test-long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def long_after(short: int, cases: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`: the first `short` are in `make test`, the others are long.

    A case of several values is a tuple, as everywhere.
    """
    every = list(cases)
    assert 0 < short < len(every)
    mark = pytest.mark.long(shorter="the first cases of this test")
    rest = [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case in every[short:]
    ]
    return every[:short] + rest
