"""Routes that are disturbed: run next to the test, stopped at a step, crashed at a step."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SluicewayError
from sluiceway.ledger.records import DataRecord, RowCounts
from sluiceway.observe.steps import Observer, Step, ignore_step
from tools.route_runs import RouteRun

_TIMEOUT_S = 180.0
_POLL_S = 0.05


class NewRun(Protocol):
    """Makes a topic and the job that reads it."""

    def __call__(
        self, partitions: int = 1, *, topic_config: dict[str, str] | None = None, **changes: str
    ) -> tuple[RouteRun, str]:
        """The run and the topic; `changes` are those of `write_job`."""
        ...


class Crash(BaseException):
    """The end of the process, as far as one process can play it."""


@dataclass(slots=True)
class CrashAt:
    """Observer that dies when `step` comes for the `occurrence`th time, and once only.

    Attributes:
        then: Another observer that is called first.
    """

    step: Step
    occurrence: int = 1
    then: Observer = ignore_step
    crashed: bool = False
    seen: Counter[Step] = field(default_factory=Counter)

    def __call__(self, step: Step) -> None:
        self.then(step)
        self.seen[step] += 1
        if step is self.step and self.seen[step] == self.occurrence:
            self.crashed = True
            raise Crash(step)


@dataclass(slots=True)
class Pause:
    """Observer that stands still when `step` comes, until it is let go on."""

    step: Step
    reached: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, step: Step) -> None:
        if step is self.step and not self.reached.is_set():
            self.reached.set()
            assert self.goes_on.wait(_TIMEOUT_S)


class LiveRun:
    """A route that runs in a thread until it is stopped or fails."""

    def __init__(self, run: RouteRun, observe: Observer = ignore_step) -> None:
        self._run = run
        self._observe = observe
        self._stop = StopSignal()
        self._error: SluicewayError | None = None
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        try:
            self._run.run_until(self._stop, observe=self._observe)
        except SluicewayError as error:
            self._error = error

    def ended(self) -> bool:
        """Whether it is over."""
        return not self._thread.is_alive()

    def error(self) -> SluicewayError:
        """Wait until it ends by itself; why it did."""
        self._thread.join(_TIMEOUT_S)
        assert self.ended(), "the route goes on"
        assert self._error is not None, "the route ended without an error"
        return self._error

    def stop(self) -> None:
        """Ask it to stop and wait until it has; its error comes out."""
        self._stop.ask()
        self._thread.join(_TIMEOUT_S)
        assert self.ended(), "the route does not stop"
        if self._error is not None:
            raise self._error

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, at most while the route lives."""
        wait_until(lambda: self.ended() or condition())
        assert condition(), f"the route ended: {self._error}"

    def first_wait(self, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
        """Wait until it logs that it waits for a server, and return that line of its log."""
        found: list[dict[str, object]] = []

        def logged() -> bool:
            lines = map(json.loads, capsys.readouterr().err.splitlines())
            found.extend(line for line in lines if line["event"] == "route_waits")
            return bool(found)

        self.wait_for(logged)
        assert not self.ended(), self._error
        return found[0]

    def abandon(self) -> None:
        """Stop it, whatever it thinks of that."""
        self._stop.ask()
        self._thread.join(_TIMEOUT_S)


@contextmanager
def live(run: RouteRun, observe: Observer = ignore_step) -> Iterator[LiveRun]:
    """A route that runs while the block does and is over after it."""
    running = LiveRun(run, observe)
    try:
        yield running
    finally:
        running.abandon()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds."""
    give_up_at = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < give_up_at, "it never came true"
        time.sleep(_POLL_S)


def data_records(run: RouteRun) -> list[DataRecord]:
    """Bodies of the DATA records, in slot order."""
    return [record.body for record in run.records() if isinstance(record.body, DataRecord)]


def counts(run: RouteRun) -> RowCounts:
    """Counts of all DATA records together."""
    first, *rest = (record.counts for record in data_records(run))
    for more in rest:
        first = first.plus(more)
    return first


def offsets(partition: int, *ranges: range) -> list[tuple[int, int]]:
    """What `RouteRun.rows` gives for these offsets of one source partition."""
    return [(partition, offset) for span in ranges for offset in span]
