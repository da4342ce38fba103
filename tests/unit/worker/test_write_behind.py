"""Files are written beside the reading: in order, bounded, each route with its own error."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind

_PATIENCE_S = 60.0


@pytest.fixture
def behind() -> Iterator[WriteBehind]:
    found = WriteBehind(TaskMemory(800), max_writes=10)
    yield found
    found.close()
    assert "write" not in [thread.name for thread in threading.enumerate()]


class _Gate:
    """A write that takes until it is let go on."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.goes_on.wait(_PATIENCE_S)


def test_slow_write_holds_nobody_up_until_too_many_bytes_wait(behind: WriteBehind) -> None:
    lane, gate, written = behind.lane(), _Gate(), list[int]()
    lane.submit(40, gate)
    assert gate.begun.wait(_PATIENCE_S)
    lane.submit(30, partial(written.append, 1))
    lane.submit(30, partial(written.append, 2))
    submitted = threading.Event()

    def submit_one_more() -> None:
        lane.submit(1, partial(written.append, 3))
        submitted.set()

    reader = threading.Thread(target=submit_one_more)
    reader.start()
    assert not submitted.wait(0.05)
    assert written == []
    gate.goes_on.set()
    assert submitted.wait(_PATIENCE_S)
    reader.join()
    lane.finish()
    assert written == [1, 2, 3]


def test_small_writes_do_not_pile_up() -> None:
    """What waits when the reading ends keeps the epoch from its end."""
    behind, gate, written = WriteBehind(max_writes=2), _Gate(), list[int]()
    lane, submitted = behind.lane(), threading.Event()
    lane.submit(1, gate)
    assert gate.begun.wait(_PATIENCE_S)
    for number in (1, 2):
        lane.submit(1, partial(written.append, number))

    def submit_one_more() -> None:
        lane.submit(1, partial(written.append, 3))
        submitted.set()

    reader = threading.Thread(target=submit_one_more)
    reader.start()
    assert not submitted.wait(0.05)
    gate.goes_on.set()
    assert submitted.wait(_PATIENCE_S)
    reader.join()
    lane.finish()
    behind.close()
    assert written == [1, 2, 3]


def test_write_that_is_larger_than_the_bound_is_written_alone(behind: WriteBehind) -> None:
    lane, written = behind.lane(), list[int]()
    for number in range(3):
        lane.submit(1_000, partial(written.append, number))
    lane.finish()
    assert written == [0, 1, 2]


def _fail() -> None:
    raise StorageUnavailableError("the disk is gone")


def test_error_comes_back_to_its_route_only_and_ends_its_writes(behind: WriteBehind) -> None:
    broken, sound, written = behind.lane(), behind.lane(), list[str]()
    gate = _Gate()
    sound.submit(1, gate)
    broken.submit(1, _fail)
    broken.submit(1, partial(written.append, "behind the failed one"))
    sound.submit(1, partial(written.append, "of another route"))
    gate.goes_on.set()
    for call in (broken.finish, broken.finish, lambda: broken.submit(1, _fail)):
        with pytest.raises(StorageUnavailableError, match="the disk is gone"):
            call()
    sound.finish()
    assert written == ["of another route"]


def test_error_lets_a_reader_go_that_waits_for_room(behind: WriteBehind) -> None:
    lane, gate = behind.lane(), _Gate()

    def slow_and_broken() -> None:
        gate()
        _fail()

    lane.submit(100, slow_and_broken)
    threading.Timer(0.05, gate.goes_on.set).start()
    with pytest.raises(StorageUnavailableError):
        lane.submit(100, gate)


def test_dropped_writes_are_not_made_and_the_one_under_way_is_waited_for(
    behind: WriteBehind,
) -> None:
    lane, other, gate, written = behind.lane(), behind.lane(), _Gate(), list[str]()
    lane.submit(10, gate)
    lane.submit(50, partial(written.append, "dropped"))
    other.submit(10, partial(written.append, "kept"))
    assert gate.begun.wait(_PATIENCE_S)
    threading.Timer(0.05, gate.goes_on.set).start()
    lane.drop()
    assert gate.goes_on.is_set()
    lane.drop()
    # The room of what was dropped is free again.
    other.submit(90, partial(written.append, "more"))
    other.finish()
    assert written == ["kept", "more"]
