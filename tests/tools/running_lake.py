"""A lake job that runs in a thread of the test, and waiting for what it does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluiceway.driver.stop import StopSignal
from tools.lake_jobs import LakeJob

PATIENCE_S = 120.0


@contextmanager
def running(job: LakeJob) -> Iterator[None]:
    """The job in a thread, stopped after the block; its error comes out."""
    stop, errors = StopSignal(), []

    def go() -> None:
        try:
            job.run(stop, bounded=False)
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        stop.ask()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert errors == []


def wait_for(holds: Callable[[], object]) -> None:
    """Until it holds."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
