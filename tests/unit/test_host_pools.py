"""Threads of a process: few, shared, and none held up by a connection that does not answer."""

import threading
import time
from types import SimpleNamespace

import pytest

from sluiceway.host import work_pool
from sluiceway.host.store_calls import StoreCalls
from sluiceway.host.work_pool import WorkPool
from tools.waiting import wait_for

PATIENCE_S = 60.0


def test_dead_connection_holds_four_threads_and_nobody_else() -> None:
    pool, gate, stuck, done = WorkPool(), threading.Event(), list[int](), list[int]()

    def hang() -> None:
        stuck.append(1)
        assert gate.wait(PATIENCE_S)

    works = [pool.add(hang, "dead") for _ in range(20)]
    for work in works:
        work.wake()
    for _ in range(20):
        pool.add(lambda: done.append(1), "alive").wake()
    wait_for(lambda: len(done) == 20)
    assert len(stuck) == 4
    gate.set()
    wait_for(lambda: len(stuck) == 20)


def test_threads_do_not_grow_with_works() -> None:
    pool, inside, most, lock, done = WorkPool(), [0], [0], threading.Lock(), list[int]()

    def act() -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        with lock:
            inside[0] -= 1
            done.append(1)

    for _ in range(500):
        pool.add(act).wake()
    wait_for(lambda: len(done) == 500)
    assert most[0] <= 16


def test_work_is_called_again_after_its_pause_and_when_woken_amid_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(work_pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pool, turns, inside, gate = WorkPool(), list[int](), threading.Event(), threading.Event()

    def act() -> float | None:
        turns.append(1)
        inside.set()
        assert gate.wait(PATIENCE_S)
        return 0.05 if len(turns) == 2 else None

    work = pool.add(act)
    work.wake()
    assert inside.wait(PATIENCE_S)
    work.wake()
    gate.set()
    wait_for(lambda: bool(pool._timers))
    now[0] += 0.04
    time.sleep(0.1)
    assert len(turns) == 2
    now[0] += 0.01
    wait_for(lambda: len(turns) == 3)
    assert work.end(PATIENCE_S)
    work.wake()
    time.sleep(0.05)
    assert len(turns) == 3


def test_pause_is_no_longer_for_threads_that_have_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A thread that has nothing to do looks again after that time only.
    monkeypatch.setattr(work_pool, "_LINGER_S", 10 * PATIENCE_S)
    pool, both, turns = WorkPool(), threading.Barrier(2), list[int]()

    def meet() -> None:
        both.wait(PATIENCE_S)

    def act() -> float | None:
        turns.append(1)
        return 0.02 if len(turns) < 20 else None

    for _ in range(2):
        pool.add(meet).wake()
    wait_for(lambda: pool._idle >= 2)
    pool.add(act).wake()
    wait_for(lambda: len(turns) == 20)


def test_pause_is_watched_while_the_only_thread_is_busy() -> None:
    pool, gate, turns = WorkPool(), threading.Event(), list[int]()

    def act() -> float | None:
        turns.append(1)
        return 0.2 if len(turns) == 1 else None

    def hang() -> None:
        assert gate.wait(PATIENCE_S)

    pool.add(act).wake()
    wait_for(lambda: bool(turns) and pool._idle == 1)
    pool.add(hang).wake()
    wait_for(lambda: len(turns) == 2)
    assert not gate.is_set()
    gate.set()


def test_pause_is_watched_by_another_thread_while_the_one_that_did_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_pool, "_LINGER_S", 10 * PATIENCE_S)
    pool, gate, both, turns = WorkPool(), threading.Event(), threading.Barrier(2), list[int]()

    def meet() -> None:
        both.wait(PATIENCE_S)

    def act() -> float | None:
        turns.append(1)
        return 0.1 if len(turns) == 1 else None

    def hang() -> None:
        assert gate.wait(PATIENCE_S)

    for _ in range(2):
        pool.add(meet).wake()
    wait_for(lambda: pool._idle >= 2)
    pool.add(act).wake()
    wait_for(lambda: len(turns) > 0)
    # Either of the threads may take it; the other one is left.
    pool.add(hang).wake()
    wait_for(lambda: len(turns) == 2)
    assert not gate.is_set()
    gate.set()


class Crash(BaseException):
    """The end of the process."""


def test_calls_are_made_four_at_once_and_end_with_the_first_error_of_any_kind() -> None:
    calls, inside, most, lock, made = StoreCalls(), [0], [0], threading.Lock(), list[int]()

    def act(item: int) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            made.append(item)
        time.sleep(0.005)
        with lock:
            inside[0] -= 1
        if item == 50:
            raise Crash

    calls.each(act, range(40))
    assert sorted(made) == list(range(40))
    assert most[0] == 4
    with pytest.raises(Crash):
        calls.each(act, range(50, 500))
    assert max(made) < 400
