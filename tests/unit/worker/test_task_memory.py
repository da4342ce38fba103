"""The memory of a task: dealt out within its bound, and freed where most is kept."""

from dataclasses import dataclass, field

import pytest

from sluiceway.worker.task_memory import DEFAULT_BYTES, MemoryUser, TaskMemory, deal

MIB = 1 << 20


@dataclass(eq=False)
class _Route(MemoryUser):
    """Keeps what it is told to, and sheds all that it is asked for."""

    kept: int = 0
    asked: list[int] = field(default_factory=list)
    stuck: bool = False

    @property
    def held_bytes(self) -> int:
        return self.kept

    def free(self, kept_bytes: int) -> None:
        self.asked.append(kept_bytes)
        if not self.stuck:
            self.kept = min(self.kept, kept_bytes)


@pytest.mark.parametrize("memory_bytes", [128 * MIB, DEFAULT_BYTES, 8192 * MIB])
def test_shares_are_within_the_memory_of_the_task(memory_bytes: int) -> None:
    shares = deal(memory_bytes)
    decoding = memory_bytes // 8
    dealt = shares.queue_bytes + shares.waiting_bytes + shares.gathered_bytes + shares.kept_bytes
    assert dealt + decoding <= memory_bytes
    assert min(shares.queue_bytes, shares.waiting_bytes, shares.gathered_bytes) >= 16 * MIB


def test_route_that_keeps_most_frees_memory_for_the_others() -> None:
    memory = TaskMemory(8 * MIB)
    large, small = _Route(), _Route()
    large.kept = 3 * MIB
    memory.balance(large)
    small.kept = MIB
    memory.balance(small)
    assert (large.asked, small.asked) == ([], [])
    small.kept = 2 * MIB
    memory.balance(small)
    # Three quarters of the kept share of 4 MiB stay.
    assert (large.kept, small.kept) == (MIB, 2 * MIB)
    assert small.asked == []


def test_next_route_frees_what_the_largest_cannot() -> None:
    memory = TaskMemory(8 * MIB)
    large, small = _Route(3 * MIB, stuck=True), _Route(2 * MIB)
    memory.balance(large)
    memory.balance(small)
    assert (large.asked, small.kept) == ([MIB], 0)


def test_route_that_left_is_not_counted_any_more() -> None:
    memory = TaskMemory(8 * MIB)
    gone, there = _Route(4 * MIB), _Route(4 * MIB)
    memory.balance(gone)
    memory.leave(gone)
    memory.leave(gone)
    memory.balance(there)
    assert (gone.asked, there.asked) == ([], [])
    assert memory.peak_bytes == 4 * MIB
