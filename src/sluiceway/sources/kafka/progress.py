"""How far one split is read: which rows count, where its range ends, which jumps are doubtful."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluiceway.errors import TaskFailedError
from sluiceway.sources.contract import Split, SplitEnd

# Longer holes than this are rare except for compaction, and worth a second read.
TRUSTED_JUMP_OFFSETS = 1_000
"""A log that is known to have holes may have them up to here without a second read."""
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Jump:
    """Offsets [begin, end) of a log in which the consumer met no row."""

    begin: int
    end: int


class SplitProgress:
    """The range of one split, growing with what its consumer delivers.

    Args:
        split: What is to be read.
        has_holes: Whether a second read has found a hole in this log before. A log without
            transactions and compaction has none, so the first hole is checked.
    """

    __slots__ = ("_jumps", "has_holes", "leader_epoch", "next_offset", "overran", "rows", "split")

    def __init__(self, split: Split, *, has_holes: bool = True) -> None:
        self.split = split
        self.next_offset = split.start_offset
        self.rows = 0
        self.leader_epoch: int | None = None
        self.overran = False
        self.has_holes = has_holes
        self._jumps: list[Jump] = []

    @property
    def done(self) -> bool:
        """True when the split has a stop offset and it is reached."""
        stop = self.split.stop_offset
        return stop is not None and self.next_offset >= stop

    def count(self, offsets: Sequence[int] | Offsets) -> int:
        """Count the rows of one fetch. Called with every fetch that holds rows of the split.

        Args:
            offsets: Offsets of all rows of the fetch, in the order in which they came; not empty.

        Returns:
            How many of them belong to the range, from the first on; the others are at or after
            the stop.

        Raises:
            TaskFailedError: Offsets do not rise strictly, or begin below what was already read.
        """
        if self.done:
            self.overran = True
            return 0
        offsets = np.asarray(offsets, np.int64)
        self._assert_rising(offsets)
        stop = self.split.stop_offset
        if stop is None or offsets[-1] < stop:
            self._add_jumps(offsets)
            self.rows += len(offsets)
            self._move_to(int(offsets[-1]) + 1)
            return len(offsets)
        kept = int(np.searchsorted(offsets, stop))
        self._add_jumps(np.append(offsets[:kept], stop))
        self.rows += kept
        self._move_to(stop)
        self.overran = True
        return kept

    def reach_end(self, offset: int) -> None:
        """Take the event that the log ends at `offset`. Called after the rows of the fetch.

        An event from before the last row, or a repeated one, changes nothing.
        """
        stop = self.split.stop_offset
        end = offset if stop is None else min(offset, stop)
        if end > self.next_offset:
            self._add_jump(self.next_offset, end)
            self._move_to(end)

    def set_leader_epoch(self, offset: int, leader_epoch: int | None) -> None:
        """Take the leader epoch of the last row of the range so far. Called after `count`.

        It is kept only with the offset that it belongs to: markers and aborted records after
        the row may be of a newer epoch.
        """
        if offset + 1 == self.next_offset:
            self.leader_epoch = leader_epoch

    def pop_jumps(self) -> list[Jump]:
        """Hand over the jumps since the last call that only this consumer vouches for."""
        jumps, self._jumps = self._jumps, []
        return jumps

    def end(self) -> SplitEnd:
        """How far the split is read."""
        return SplitEnd(
            end_offset=self.next_offset,
            rows=self.rows,
            gaps=self.next_offset - self.split.start_offset - self.rows,
            leader_epoch=self.leader_epoch,
        )

    def _move_to(self, offset: int) -> None:
        self.next_offset = offset
        self.leader_epoch = None

    def _assert_rising(self, offsets: Offsets) -> None:
        first, last = offsets[0], offsets[-1]
        if first < self.next_offset:
            raise TaskFailedError(
                f"offset {first} came, though all below {self.next_offset} were read",
                where=str(self.split.partition),
            )
        if not np.all(offsets[1:] > offsets[:-1]):
            raise TaskFailedError(
                f"offsets between {first} and {last} do not rise strictly",
                where=str(self.split.partition),
            )

    def _add_jumps(self, ends: Offsets) -> None:
        """Note the holes before each of `ends`: offsets of rows, or the stop after them."""
        self._add_jump(self.next_offset, int(ends[0]))
        steps = np.diff(ends)
        rows = np.flatnonzero(steps > TRUSTED_JUMP_OFFSETS).tolist()
        if not self.has_holes:
            rows = sorted({*rows, *np.flatnonzero(steps > 1)[:1].tolist()})
        for row in rows:
            self._add_jump(int(ends[row]) + 1, int(ends[row + 1]))

    def _add_jump(self, begin: int, end: int) -> None:
        at_start = begin == self.split.start_offset and self.rows == 0
        doubted = at_start or not self.has_holes
        if end - begin > (0 if doubted else TRUSTED_JUMP_OFFSETS):
            self._jumps.append(Jump(begin, end))
            self.has_holes = True
