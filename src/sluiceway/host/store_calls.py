"""Parallel calls to stores, from threads that all routes of a process share."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

MOST_THREADS: Final = 32
AT_ONCE: Final = 4

Item = TypeVar("Item")


class StoreCalls:
    """Makes the same call for many items. Safe for several threads; idle, it has no thread yet."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="store")

    def each(self, act: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Call `act` for each, four at once; returns when all calls have ended.

        After an error no further call begins.

        Raises:
            BaseException: The first error that a call raised, whatever it is.
        """
        left = list(items)
        if len(left) < 2:  # noqa: PLR2004 - one needs no other thread
            for item in left:
                act(item)
            return
        left.reverse()
        lock = threading.Lock()

        def take() -> None:
            while True:
                with lock:
                    if not left:
                        return
                    item = left.pop()
                try:
                    act(item)
                except BaseException:
                    with lock:
                        left.clear()
                    raise

        calls = [self._threads.submit(take) for _ in range(min(AT_ONCE, len(left)))]
        errors = [error for call in calls if (error := _outcome(call)) is not None]
        if errors:
            raise errors[0]


def _outcome(call: "object") -> BaseException | None:
    try:
        call.result()  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001 - raised again when all have ended
        return error
    return None


_CALLS: Final = StoreCalls()


def process_calls() -> StoreCalls:
    """The calls that all routes of this process share."""
    return _CALLS
