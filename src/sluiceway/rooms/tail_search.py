"""Where a tail ends in a copy of its log. No I/O."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluiceway.ledger.log_tail import NO_TAIL, RUNS, TailRun, tail_text

_LEAST_RUNS: Final = 2


@dataclass(frozen=True, slots=True)
class TailMatch:
    """What the rows of a copy say of a tail.

    Attributes:
        offset: First offset after the tail, or after what the copy has of it; None where that is
            not found.
        inside: Whether the copy has the last row of the tail; else it ends before it.
        found: Whether the copy has any row of the tail.
        scanned: Rows that were compared.
        matches: How often the copy has the whole tail.
        why: Why there is no offset; empty where there is one.
        tail: Tail of the copy before the offset; empty where it is not known.
        complete: Whether the copy still has all rows that it ever had since the tail's time.
        missing: Runs of the tail that the copy lacks at its end; empty where it has all.
    """

    offset: int | None
    inside: bool
    found: bool
    scanned: int
    matches: int
    why: str = ""
    tail: str = NO_TAIL
    complete: bool = True
    missing: str = NO_TAIL


WAS_LEFT: Final = (
    "the table has rows of it which the other room's copy lacked: create the topic again, and have "
    "the other room's rows copied to it"
)
"""Why a log that was left for a shorter copy has no position."""


@dataclass(slots=True)
class _Run:
    """Equal rows of the copy that follow each other."""

    row: int
    rows: int
    offset: int


class TailSearch:
    """Compares the rows of one copy, in their order, with a tail. One thread.

    The copy has each row once and in order; that is the caller's to know. So a tail that is there
    once has its place, and rows of the tail that are missing at its end were never copied.

    Args:
        tail: Runs of the tail, oldest first; at least one.
        compacted: Whether rows may be missing whose key came again.
        lacked: Runs that were read in another log, and that the log read since never had.
    """

    def __init__(
        self, tail: Sequence[TailRun], *, compacted: bool, lacked: Sequence[TailRun] = ()
    ) -> None:
        self._tail = tuple(tail)
        self._lacked = frozenset(run.row for run in lacked)
        self._was_left = False
        self._compacted = compacted
        self._rows = frozenset(run.row for run in self._tail)
        self._runs: deque[_Run] = deque(maxlen=RUNS)
        self._found: list[_Run] = []
        self._broken = False
        self._ends: list[int] = []
        self._scanned = 0

    def add(self, offset: int, row: int) -> None:
        """Take in the next row of the copy."""
        self._scanned += 1
        self._was_left = self._was_left or row in self._lacked
        runs = self._runs
        if runs and runs[-1].row == row:
            runs[-1].rows += 1
            runs[-1].offset = offset
        else:
            before = runs[-1] if runs else None
            runs.append(_Run(row, 1, offset))
            if row in self._rows:
                self._broken = self._broken or (bool(self._found) and self._found[-1] is not before)
                self._found.append(runs[-1])
        last = self._tail[-1]
        if row == last.row and runs[-1].rows == last.rows and self._fits():
            self._ends.append(offset)

    def _fits(self) -> bool:
        """Whether the rows before the last run are the tail's; the oldest run may have more."""
        wanted, runs = self._tail[:-1], list(self._runs)[:-1]
        if len(runs) < len(wanted):
            return False
        pairs = list(zip(reversed(runs), reversed(wanted), strict=False))
        oldest = len(pairs) - 1
        return all(
            run.row == each.row and (run.rows == each.rows or place == oldest)
            for place, (run, each) in enumerate(pairs)
        )

    def result(self) -> TailMatch:
        """Called once, after the copy's last row."""
        if self._was_left:
            # The table has more of its rows than the log that was read since.
            return replace(self._none(WAS_LEFT), found=True)
        if len(self._tail) < _LEAST_RUNS and self._tail[0].rows > 1:
            return self._none("all rows that the tail has are equal")
        if len(self._ends) > 1:
            return self._none(f"the tail is there {len(self._ends)} times")
        if self._ends:
            return self._match(self._ends[0] + 1, inside=True, runs=self._tail)
        return self._compacted_end() if self._compacted else self._short_end()

    def _compacted_end(self) -> TailMatch:
        """After the last row of the tail that is left: those after it have gone."""
        for run in reversed(self._tail):
            found = [each for each in self._found if each.row == run.row]
            if found:
                only = len(found) == 1 and found[0].rows == run.rows == 1
                if only and found[0] is self._found[-1]:
                    return self._match(found[0].offset + 1, inside=True, runs=())
                break
        return self._none("the log is compacted, and no row of the tail is left once")

    def _short_end(self) -> TailMatch:
        """After the first runs of the tail, where the copy's rows end with them."""
        if not self._found:
            none = self._none("no row of the tail is there")
            return replace(none, missing=tail_text(self._tail))
        first = self._tail[: len(self._found)]
        same = [each.row for each in self._found] == [each.row for each in first]
        counts = zip(self._found[1:], first[1:], strict=False)
        # Of the oldest run the tail may have a part only; as the last one it has to be one row.
        whole = all(each.rows == run.rows for each, run in counts)
        whole = whole and (len(first) > 1 or self._found[0].rows == first[0].rows == 1)
        # Copies are in order: other rows between them are none of the copier's.
        if same and whole and not self._broken:
            match = self._match(self._found[-1].offset + 1, inside=False, runs=first)
            return replace(match, missing=tail_text(self._tail[len(first) :]))
        return self._none("only parts of the tail are there, and not its first rows in order")

    def _match(self, offset: int, *, inside: bool, runs: Sequence[TailRun]) -> TailMatch:
        matches = len(self._ends)
        found, tail = True, tail_text(runs)
        return TailMatch(offset, inside, found, self._scanned, matches, tail=tail)

    def _none(self, why: str) -> TailMatch:
        inside, found = False, bool(self._found)
        return TailMatch(None, inside, found, self._scanned, len(self._ends), why)
