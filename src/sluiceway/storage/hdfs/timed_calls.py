"""Calls of the HDFS library that are waited for no longer than they may take.

The library waits for data nodes by itself, and a writer was seen that waited for ever for a node
that had died. Such a call cannot be ended, so it is made in a thread that may be left behind.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

LONGEST_S = 80.0
"""The library itself gives up a data node that says nothing for a minute."""

_idle: "queue.LifoQueue[queue.SimpleQueue[tuple[Future[object], Callable[[], object]]]]"
_idle = queue.LifoQueue()


def begun(call: Callable[[], T]) -> "Future[T]":
    """Make a call in a thread that ends with the process, whatever the call does."""
    answer: Future[T] = Future()
    try:
        helper = _idle.get_nowait()
    except queue.Empty:
        helper = queue.SimpleQueue()
        thread = threading.Thread(target=_help, args=(helper,), name="hdfs-call", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The process is ending, or may have no more of them.
            _answer(answer, call)
            return answer
    helper.put((answer, call))  # type: ignore[arg-type]
    return answer


def in_time(call: Callable[[], T], longest_s: float = LONGEST_S) -> T:
    """Make a call and wait for it.

    Raises:
        TimeoutError: It takes longer; it may still be done later.
        Exception: What it raises itself.
    """
    return waited_for(begun(call), longest_s)


def waited_for(answer: "Future[T]", longest_s: float = LONGEST_S, *, over_s: float = 0.0) -> T:
    """What a call has given; raises as `in_time`.

    Args:
        answer: Answer of `begun`.
        longest_s: How long it may take.
        over_s: What of that is over.
    """
    try:
        return answer.result(max(0.0, longest_s - over_s))
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"HDFS has not answered within {longest_s:.0f} s") from None


def _help(calls: "queue.SimpleQueue[tuple[Future[object], Callable[[], object]]]") -> None:
    while True:
        _answer(*calls.get())
        _idle.put(calls)


def _answer(answer: "Future[T]", call: Callable[[], T]) -> None:
    """Make a call. What it holds and gives does not live on in the thread when this has ended."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
        answer.set_exception(error)
    else:
        answer.set_result(result)
