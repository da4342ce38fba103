"""Payloads of several fetches as one sequence, without taking them out."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

Payload = bytes | None


class JoinedPayloads(Sequence[Payload]):
    """Sequences of payloads, one after the other.

    Args:
        parts: Not changed while this one is used.
    """

    def __init__(self, parts: Sequence[Sequence[Payload]]) -> None:
        self.parts = parts
        self._ends = list(accumulate(len(part) for part in parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Payload: ...
    @overload
    def __getitem__(self, index: slice) -> list[Payload]: ...
    def __getitem__(self, index: int | slice) -> Payload | list[Payload]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        number = bisect_right(self._ends, row)
        begin = self._ends[number - 1] if number else 0
        return self.parts[number][row - begin]

    def __iter__(self) -> Iterator[Payload]:
        for part in self.parts:
            for row in range(len(part)):
                yield part[row]
