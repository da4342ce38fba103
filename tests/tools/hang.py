"""Ends what goes on without an end, so that its test fails. It measures nothing."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LONGEST_CPU_S = 120.0


@contextmanager
def ended_if_endless() -> Iterator[None]:
    """Fail a block that needs minutes of this process's processor. For the main thread.

    A busy machine does not count: time in which others run is none of ours.

    Raises:
        AssertionError: It went on for too long.
    """

    def over(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise AssertionError("it goes on without an end")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
