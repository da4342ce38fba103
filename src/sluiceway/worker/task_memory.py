"""The memory and the read counts of a task's rows, each in one place.

Data on its way has a fixed share: the queue's own buffer, the batch in decoding, batches that wait
for their writing, room to sort. What is kept is measured: rows of all routes that wait in buffers
of files, or to be sorted. Above its limit the route that keeps most writes its largest files out.
Interpreter, libraries and the codecs' own state come on top.
"""

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sluiceway.worker.plan import TaskPlan

DEFAULT_BYTES = 512 << 20
_MOST_WAITING_BYTES = 64 << 20
_MOST_QUEUE_BYTES = 32 << 20
_EIGHTH = 8


@dataclass(frozen=True, slots=True)
class MemoryShares:
    """A task's memory, dealt out.

    Attributes:
        queue_bytes: Memory for one consumer's queue of fetched records.
        waiting_bytes: Memory for batches that wait to be written.
        gathered_bytes: Memory for rows that wait to be sorted; sorting takes as much once more.
        kept_bytes: Memory for rows in buffers of files and rows to be sorted, of all routes.
    """

    queue_bytes: int
    waiting_bytes: int
    gathered_bytes: int
    kept_bytes: int


def deal(memory_bytes: int) -> MemoryShares:
    """Deal a task's memory out. Called once a task, and when a job is compiled.

    Args:
        memory_bytes: Memory of the whole task. An eighth is left for the batch that is being
            decoded, and one for sorting.
    """
    eighth = memory_bytes // _EIGHTH
    return MemoryShares(
        queue_bytes=min(_MOST_QUEUE_BYTES, eighth),
        waiting_bytes=min(_MOST_WAITING_BYTES, eighth),
        gathered_bytes=min(_MOST_WAITING_BYTES, eighth),
        kept_bytes=4 * eighth,
    )


class MemoryUser(Protocol):
    """What keeps rows of one route in memory. Used in the thread that writes."""

    @property
    def held_bytes(self) -> int:
        """How much it keeps."""

    def free(self, kept_bytes: int) -> None:
        """Write rows out until at most `kept_bytes` are kept. Never raises."""


class TaskMemory:
    """Rows that are kept in one task, by who keeps them.

    Args:
        memory_bytes: Memory of the whole task.

    Attributes:
        shares: How it is dealt out.
        peak_bytes: The most that was kept after a write.
    """

    def __init__(self, memory_bytes: int = DEFAULT_BYTES) -> None:
        self.shares = deal(memory_bytes)
        self.peak_bytes = 0
        # A route may be closed by the task's thread while another's rows are being written.
        self._lock = threading.Lock()
        self._kept: dict[MemoryUser, int] = {}
        self._total_bytes = 0

    def balance(self, holder: MemoryUser) -> None:
        """Count what a route keeps after a write, and free memory if all keep too much."""
        with self._lock:
            self._count(holder)
            self.peak_bytes = max(self.peak_bytes, self._total_bytes)
            # Some more than needed: many small partitions are not searched at every write.
            wanted_bytes = self.shares.kept_bytes // 4 * 3
            if self._total_bytes <= self.shares.kept_bytes:
                return
            for largest in sorted(self._kept, key=self._kept.__getitem__, reverse=True):
                surplus_bytes = self._total_bytes - wanted_bytes
                if surplus_bytes <= 0:
                    return
                largest.free(max(0, self._kept[largest] - surplus_bytes))
                self._count(largest)

    def leave(self, holder: MemoryUser) -> None:
        """Count a route no more, before its thread closes or drops it. Safe to repeat."""
        with self._lock:
            self._total_bytes -= self._kept.pop(holder, 0)

    def _count(self, holder: MemoryUser) -> None:
        held_bytes = holder.held_bytes
        self._total_bytes += held_bytes - self._kept.get(holder, 0)
        self._kept[holder] = held_bytes


_EVERY_S = 0.25


class ReadTally:
    """Reports how far a bundle is. One task; used by its thread.

    Args:
        plans: Plans of the bundle. The first one's `tally` is the file; empty writes none.
    """

    def __init__(self, plans: Sequence[TaskPlan]) -> None:
        path = plans[0].tally if plans else ""
        # On another machine than the driver's its folder is not there, and no terminal shows it.
        self._path = Path(path) if path and Path(path).parent.is_dir() else None
        self._due = 0.0

    def write(self, rows: Mapping[str, int]) -> None:
        """Write how many rows of each route were read, unless that was just done.

        Args:
            rows: Rows by the route's name, since the task began.
        """
        now = time.monotonic()
        if self._path is None or now < self._due:
            return
        self._due = now + _EVERY_S
        beside = self._path.with_suffix(".tmp")
        try:
            beside.write_text(json.dumps(rows))
            os.replace(beside, self._path)  # noqa: PTH105 - one call for both names
        except OSError:
            # The watcher has gone and taken its folder along.
            self._path = None


def read_tally(path: str) -> dict[str, int]:
    """What a task has reported; nothing when it has not yet, or the file is unreadable."""
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): rows for name, rows in found.items() if isinstance(rows, int)}
