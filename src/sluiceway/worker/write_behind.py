"""Writing after reading: a thread writes files while the task fetches and decodes on.

A slow write blocks no thread until a few writes, or so many bytes, wait for it. Encoding,
compression and the store release the interpreter, so one further thread is enough to keep both
busy.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.worker.task_memory import TaskMemory

MAX_WAITING_WRITES = 2
"""What waits at the deadline is written after it, so small writes must not pile up."""

Act = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Write:
    lane: "WriteLane"
    size_bytes: int
    act: Act


class WriteBehind:
    """The writing thread of one task, shared by its routes. Begun with the first write.

    Args:
        memory: The task's; None is that of a task without a word in the job file.
        max_writes: Writes that may wait.

    Attributes:
        memory: What all that is written counts its memory in.
    """

    def __init__(
        self, memory: TaskMemory | None = None, *, max_writes: int = MAX_WAITING_WRITES
    ) -> None:
        self.memory = memory or TaskMemory()
        # A single write may be larger.
        self._max_bytes = self.memory.shares.waiting_bytes
        self._max_writes = max_writes
        self._state = threading.Condition()
        self._queue: deque[_Write] = deque()
        self._held_bytes = 0
        self._running: WriteLane | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def lane(self) -> "WriteLane":
        """A route's own order of writes, with an error of its own."""
        return WriteLane(self)

    def close(self) -> None:
        """End the thread; what waits is not written. Safe to repeat."""
        with self._state:
            self._closed = True
            self._queue.clear()
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()

    def put(self, lane: "WriteLane", size_bytes: int, act: Act) -> None:
        """Queue a write of a lane; waits while too much does. For `WriteLane` only."""
        with self._state:
            self._state.wait_for(lambda: self._has_room(size_bytes) or lane.error is not None)
            if lane.error is not None:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="write", daemon=True)
                self._thread.start()
            self._held_bytes += size_bytes
            self._queue.append(_Write(lane, size_bytes, act))
            self._state.notify_all()

    def wait_for(self, lane: "WriteLane") -> None:
        """Return when nothing of a lane waits or is being written. For `WriteLane` only."""
        with self._state:
            self._state.wait_for(lambda: not self._is_busy(lane))

    def drop(self, lane: "WriteLane") -> None:
        """Forget what waits of a lane, and wait for what is being written. For `WriteLane` only."""
        with self._state:
            dropped = [write for write in self._queue if write.lane is lane]
            self._queue = deque(write for write in self._queue if write.lane is not lane)
            self._held_bytes -= sum(write.size_bytes for write in dropped)
            self._state.notify_all()
            self._state.wait_for(lambda: not self._is_busy(lane))

    def _has_room(self, size_bytes: int) -> bool:
        if len(self._queue) >= self._max_writes:
            return False
        return self._held_bytes == 0 or self._held_bytes + size_bytes <= self._max_bytes

    def _is_busy(self, lane: "WriteLane") -> bool:
        return self._running is lane or any(write.lane is lane for write in self._queue)

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._closed or self._queue)
                if self._closed:
                    return
                write = self._queue.popleft()
                self._running = write.lane
            error: BaseException | None = None
            try:
                if write.lane.error is None:
                    write.act()
            except BaseException as raised:  # noqa: BLE001 - carried over to the task's thread
                error = raised
            with self._state:
                write.lane.error = write.lane.error or error
                self._held_bytes -= write.size_bytes
                self._running = None
                # Its columns are freed before the thread waits for the next one.
                del write
                self._state.notify_all()


class WriteLane:
    """Writes of one route, in order. Used by the task's thread.

    Attributes:
        error: Error of the first write that failed; later writes are not made. None while all work.
        memory: The task's.
    """

    def __init__(self, behind: WriteBehind) -> None:
        self._behind = behind
        self.memory = behind.memory
        self.error: BaseException | None = None

    def submit(self, size_bytes: int, act: Act) -> None:
        """Have something written after all that was submitted before.

        Args:
            size_bytes: Bytes that it keeps in memory until then.
            act: Writes it.

        Raises:
            BaseException: An earlier write has failed with it; nothing more is written.
        """
        self._behind.put(self, size_bytes, act)
        self._raise()

    def finish(self) -> None:
        """Wait until all is written.

        Raises:
            BaseException: The first write that failed has raised it.
        """
        self._behind.wait_for(self)
        self._raise()

    def drop(self) -> None:
        """Write nothing more; returns when nothing is being written. Safe to repeat."""
        self._behind.drop(self)

    def _raise(self) -> None:
        if self.error is not None:
            raise self.error
