"""Payloads of several fetches as one sequence, without taking them out."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Payload = bytes | None
Rows = NDArray[np.int64]


class PayloadRows(Sequence[Payload]):
    """Payloads that are made when they are asked for: by position, or a slice of them as a list."""

    def payload(self, row: int) -> Payload:
        """The payload of a row, counted from 0."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Payload: ...
    @overload
    def __getitem__(self, index: slice) -> list[Payload]: ...
    def __getitem__(self, index: int | slice) -> Payload | list[Payload]:
        rows = range(len(self))[index]
        return self.payload(rows) if isinstance(rows, int) else [self.payload(row) for row in rows]


class JoinedPayloads(PayloadRows):
    """Sequences of payloads, one after the other.

    Args:
        parts: Not changed while this one is used.
    """

    def __init__(self, parts: Sequence[Sequence[Payload]]) -> None:
        self.parts = parts
        self._ends = list(accumulate(len(part) for part in parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def payload(self, row: int) -> Payload:
        """See `PayloadRows`."""
        number = bisect_right(self._ends, row)
        begin = self._ends[number - 1] if number else 0
        return self.parts[number][row - begin]

    def __iter__(self) -> Iterator[Payload]:
        for part in self.parts:
            for row in range(len(part)):
                yield part[row]


def taken_out(payloads: Sequence[Payload], rows: Rows) -> list[bytes]:
    """Some payloads as objects.

    Args:
        payloads: Payloads of one batch.
        rows: Positions of the chosen ones, none of which is empty.
    """
    return [payload for row in rows.tolist() if (payload := payloads[row])]


def rows_with(payloads: Sequence[Payload], texts: Sequence[bytes]) -> Rows:
    """Positions of payloads that hold one of these texts, rising.

    Args:
        payloads: Payloads of one batch. Buffers of the native module are searched where they lie.
        texts: None is empty or holds a NUL.
    """
    if isinstance(payloads, JoinedPayloads):
        parts: Sequence[Any] = payloads.parts
        if all(hasattr(part, "rows_with") for part in parts):
            ends = accumulate((len(part) for part in parts), initial=0)
            of_parts = [
                np.frombuffer(part.rows_with(list(texts)), np.int64) + begin
                for part, begin in zip(parts, ends, strict=False)
            ]
            return np.concatenate(of_parts) if of_parts else np.empty(0, np.int64)
    found = [
        row
        for text in texts
        for row, payload in enumerate(payloads)
        if payload is not None and text in payload
    ]
    return np.unique(np.array(found, np.int64))
