"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

PATIENCE_S = 240.0
_LONGEST_PAUSE_S = 0.2


def wait_for(holds: Callable[[], object]) -> None:
    """Until it holds; the pauses between two looks grow."""
    end, pause_s = time.monotonic() + PATIENCE_S, 0.005
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, _LONGEST_PAUSE_S)
