"""By which clock a task says when rows are read: the driver's, carried on by a monotonic one."""

import time


class TaskClock:
    """The driver's clock, as a task knows it. One task's.

    The clocks of the workers' machines take no part: they may differ by hours. It is behind the
    driver's by the time that the task waited to be started, and never before an earlier epoch's.

    Args:
        planned_us: The driver's clock when the epoch was planned; 0 takes this machine's.
        started: Of the task, on the monotonic clock.
    """

    def __init__(self, planned_us: int, started: float) -> None:
        self._planned_us = planned_us or time.time_ns() // 1000
        self._started = started

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._planned_us + int((time.monotonic() - self._started) * 1_000_000)
