"""Slots are lent to low work between epochs, a bounded share, and epochs count without them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sluiceway.errors import TaskFailedError
from sluiceway.schedule.spare_slots import SpareSlots

PATIENCE_S = 60.0


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def go_on() -> None:
    return


def wait_for_wish(spare: SpareSlots) -> None:
    while not spare._wishes:
        pass


@pytest.mark.parametrize(("slots", "lent"), [(2, 1), (3, 1), (4, 1), (8, 2), (100, 25)])
def test_at_most_a_quarter_is_lent_and_epochs_get_the_rest(slots: int, lent: int) -> None:
    spare = SpareSlots(Clock())
    assert spare.left_of(slots) == slots
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(spare.acquire, 64, go_on)
        wait_for_wish(spare)
        assert spare.left_of(slots) == slots - lent
        assert taken.result(PATIENCE_S) == lent
    assert spare.lent == lent
    spare.give_back(lent)
    assert (spare.lent, spare.left_of(slots)) == (0, slots)


def test_no_more_is_lent_than_is_of_use_and_the_next_one_gets_what_is_left() -> None:
    spare = SpareSlots(Clock())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(spare.acquire, 1, go_on)
        wait_for_wish(spare)
        second = pool.submit(spare.acquire, 9, go_on)
        while len(spare._wishes) < 2:
            pass
        assert spare.left_of(8) == 6
        assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (1, 1)


def test_nothing_is_lent_of_one_slot_and_an_epoch_always_has_one() -> None:
    clock = Clock()
    spare = SpareSlots(clock)
    spare.left_of(2)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(spare.acquire, 3, go_on)
        wait_for_wish(spare)
        assert spare.left_of(1) == 1
        assert not taken.done()
        assert spare.left_of(2) == 1
        assert taken.result(PATIENCE_S) == 1
    # An executor is lost while its slot is lent.
    assert spare.left_of(1) == 1


def test_a_loop_that_has_nothing_to_read_does_not_hold_it_up() -> None:
    clock = Clock()
    spare = SpareSlots(clock)
    spare.left_of(4)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(spare.acquire, 3, go_on)
        wait_for_wish(spare)
        clock.now_s = 60.0
        assert taken.result(PATIENCE_S) == 1


def test_executors_that_came_while_nothing_was_read_are_counted() -> None:
    clock = Clock()
    spare = SpareSlots(clock)
    spare.left_of(1)
    spare.set_least(8)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(spare.acquire, 9, go_on)
        wait_for_wish(spare)
        clock.now_s = 60.0
        assert taken.result(PATIENCE_S) == 2


def test_whoever_gives_up_leaves_nothing_behind() -> None:
    spare = SpareSlots(Clock())
    spare.left_of(4)

    def give_up() -> None:
        raise TaskFailedError("its time is over")

    with pytest.raises(TaskFailedError, match="its time is over"):
        spare.acquire(1, give_up)
    assert (spare.lent, spare.left_of(4)) == (0, 4)


def test_one_slot_is_taken_at_once_or_not_at_all_whoever_waits() -> None:
    spare = SpareSlots(Clock())
    assert not spare.acquire_now()
    spare.left_of(2)
    assert spare.acquire_now()
    assert (spare.acquire_now(), spare.left_of(2)) == (False, 1)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(spare.acquire, 1, go_on)
        wait_for_wish(spare)
        spare.give_back(1)
        assert spare.acquire_now()
        spare.give_back(1)
        assert spare.left_of(2) == 1
        assert taken.result(PATIENCE_S) == 1
