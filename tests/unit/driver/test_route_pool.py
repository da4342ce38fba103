import threading
from collections.abc import Iterator
from functools import partial

import pytest

from sluiceway.driver.route_pool import RoutePool


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Ends the works that are stuck; at the latest after the test."""
    event = threading.Event()
    yield event
    event.set()


def test_at_most_so_many_works_run_at_once() -> None:
    pool = RoutePool(places=3, slow_s=1000.0)
    running: list[int] = []
    most: list[int] = []
    lock, three = threading.Lock(), threading.Barrier(3)

    def work() -> None:
        with lock:
            running.append(1)
            most.append(len(running))
        three.wait(60)
        with lock:
            running.pop()

    works = [pool.submit(work) for _ in range(21)]
    pool.wait(works, None)
    assert all(each.done() for each in works)
    assert max(most) == 3
    pool.close()


def test_works_that_are_stuck_keep_no_other_waiting(let_go: threading.Event) -> None:
    pool = RoutePool(places=2, slow_s=0.2)
    done: list[int] = []
    stuck = [pool.submit(lambda: _ignore(let_go.wait(60))) for _ in range(7)]
    others = [pool.submit(partial(done.append, number)) for number in range(5)]
    pool.wait(others, None)
    assert sorted(done) == list(range(5))
    assert not any(each.done() for each in stuck)
    let_go.set()
    pool.wait(stuck, None)
    assert all(each.done() for each in stuck)
    pool.close()


def test_wait_gives_up_and_the_error_is_that_of_the_answer(let_go: threading.Event) -> None:
    pool = RoutePool()
    stuck = pool.submit(lambda: _ignore(let_go.wait(60)))
    pool.wait([stuck], 0.05)
    assert not stuck.done()

    def fail() -> None:
        raise ValueError("no")

    failed = pool.submit(fail)
    pool.wait([failed], None)
    with pytest.raises(ValueError, match="no"):
        failed.result(0)
    let_go.set()
    pool.close()


def _ignore(value: object) -> None:
    del value
