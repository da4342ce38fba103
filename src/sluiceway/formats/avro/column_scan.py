"""Avro's binary encoding for many payloads of one schema at once, field by field.

Each step moves a position in every payload on by one value. A payload in which a step finds a fault
is only doubted: the slow path (`reader`) decides about it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LONG_BYTES = 10
_MORE = 0x80
# Bytes after the last payload, so that a doubted one never reads beyond the end.
_PADDING = bytes(16)


class Scan:
    """Positions in payloads. Used for one batch.

    Args:
        payloads: Payloads of one schema.
        begins: Where the record begins in each.

    Attributes:
        data: All payloads, one after the other.
        doubted: Payloads that have a fault, or may have one.
    """

    def __init__(self, payloads: Sequence[bytes], begins: Ints) -> None:
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        self.data: Bytes = np.frombuffer(b"".join((*payloads, _PADDING)), np.uint8)
        self._ends = np.cumsum(lengths)
        self._places = self._ends - lengths + begins
        self.doubted = np.zeros(len(payloads), bool)

    def doubt(self, rows: Ints, where: npt.NDArray[np.bool_]) -> None:
        """Doubt some payloads: the ones where `where` is true."""
        self.doubted[rows[where]] = True

    def finish(self) -> None:
        """Doubt payloads that do not end where their record does."""
        self.doubted |= self._places != self._ends

    def longs(self, rows: Ints) -> Ints:
        """The next whole number of each of some payloads."""
        places, ends = self._places[rows], self._ends[rows]
        value = np.zeros(len(rows), np.uint64)
        live = np.arange(len(rows))
        for number in range(_LONG_BYTES):
            here = places[live]
            inside = here < ends[live]
            if not inside.all():
                self.doubt(rows[live], ~inside)
                live, here = live[inside], here[inside]
            byte = self.data[here]
            if number == _LONG_BYTES - 1:
                self.doubt(rows[live], byte > 1)
            value[live] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            places[live] = here + 1
            live = live[byte >= _MORE]
            if not len(live):
                break
        self._places[rows] = places
        signs = (value & np.uint64(1)).astype(np.int64)
        return (value >> np.uint64(1)).astype(np.int64) ^ -signs

    def read(self, rows: Ints, counts: Ints | int) -> tuple[Ints, Ints]:
        """The next bytes of each: their start and their number."""
        begins = self._places[rows]
        sizes = np.broadcast_to(np.asarray(counts, np.int64), begins.shape)
        fits = (sizes >= 0) & (sizes <= self._ends[rows] - begins)
        self.doubt(rows, ~fits)
        sizes = np.where(fits, sizes, 0)
        self._places[rows] = begins + sizes
        return begins, sizes

    def words(self, rows: Ints, size: int, form: str) -> npt.NDArray[np.float64]:
        """The next `size` bytes of each as a number."""
        begins, _ = self.read(rows, size)
        gathered = self.data[begins[:, None] + np.arange(size)]
        found: npt.NDArray[np.float64] = np.ascontiguousarray(gathered).view(form)[:, 0]
        return found

    def unscaled(self, rows: Ints) -> Ints:
        """The next decimal of each, up to eight bytes; longer and empty ones are doubted."""
        begins, sizes = self.read(rows, self.longs(rows))
        self.doubt(rows, (sizes < 1) | (sizes > 8))  # noqa: PLR2004 - bytes of a long
        sizes = np.clip(sizes, 1, 8)
        places = begins[:, None] + sizes[:, None] - 8 + np.arange(8)
        gathered = self.data[np.maximum(places, 0)]
        fill = np.where(self.data[begins] & 0x80, np.uint8(0xFF), np.uint8(0))
        gathered = np.where(places < begins[:, None], fill[:, None], gathered)
        return np.ascontiguousarray(gathered).view(">i8")[:, 0].astype(np.int64)

    def gather(self, begins: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        """Bytes of some places, joined, and where each part begins."""
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        shift = np.repeat(begins - offsets[:-1], sizes)
        return self.data[np.arange(offsets[-1]) + shift], offsets
