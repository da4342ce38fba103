"""Protobuf's wire format: tags, numbers, lengths. Nothing in a payload is trusted."""

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.dirty import DirtyReason

MAX_DEPTH = 100
VARINT, FIXED64, LENGTH, GROUP_BEGIN, GROUP_END, FIXED32 = range(6)

_VARINT_BYTES = 10
_MORE = 0x80
_WORD = 1 << 64
_SIGN = 1 << 63


def broken(what: str) -> DirtyValueError:
    """A payload that is not Protobuf, or not of its schema."""
    return DirtyValueError(DirtyReason.BROKEN, f"not Protobuf: {what}", stage="decode")


class Wire:
    """A position in a payload.

    Args:
        data: The payload.
        position: Where its Protobuf part begins.
    """

    __slots__ = ("data", "depth", "end", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.depth = 0

    def varint(self, end: int) -> int:
        """The next number of up to 64 bits, without a sign."""
        data, position = self.data, self.position
        value = shift = 0
        while True:
            if position >= end:
                raise broken(f"a number ends at byte {end}, in its middle")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                break
            shift += 7
            if shift >= 7 * _VARINT_BYTES:
                raise broken(f"the number at byte {self.position} has more than 64 bits")
        if value >= _WORD:
            raise broken(f"the number at byte {self.position} has more than 64 bits")
        self.position = position
        return value

    def read(self, count: int, end: int) -> bytes:
        """The next bytes."""
        start = self.position
        if count > end - start:
            raise broken(f"{count} bytes are wanted at byte {start}, {end - start} are left")
        self.position = start + count
        return self.data[start : start + count]

    def part(self, end: int) -> int:
        """The end of the next part, whose length stands before it."""
        at = self.position
        count = self.varint(end)
        if count > end - self.position:
            left = end - self.position
            raise broken(f"the length at byte {at} is {count}, with {left} bytes left")
        return self.position + count

    def tag(self, end: int) -> tuple[int, int]:
        """Number and wire type of the next field."""
        at = self.position
        tag = self.varint(end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29 or kind > FIXED32:
            raise broken(f"the tag at byte {at} is 0x{tag:x}")
        return number, kind

    def skip(self, kind: int, number: int, end: int) -> None:
        """Skip the value of an unknown field."""
        match kind:
            case 0:
                self.varint(end)
            case 1:
                self.read(8, end)
            case 2:
                self.position = self.part(end)
            case 5:
                self.read(4, end)
            case 3:
                self._skip_group(number, end)
            case _:
                raise broken(f"a group ends at byte {self.position} that did not begin")

    def group(self, number: int, end: int) -> tuple[int, int]:
        """Ends of a group that begins here: of its fields, and of its end mark."""
        start = self.position
        last = self._skip_group(number, end)
        after, self.position = self.position, start
        return last, after

    def _skip_group(self, number: int, end: int) -> int:
        """Skip a group; returns where its fields end."""
        self.enter()
        while True:
            at = self.position
            inner, kind = self.tag(end)
            if kind == GROUP_END:
                break
            self.skip(kind, inner, end)
        if inner != number:
            raise broken(f"the group {inner} ends at byte {self.position}, not {number}")
        self.depth -= 1
        return at

    def enter(self) -> None:
        """Enter one more level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            message = f"messages are nested deeper than {MAX_DEPTH} levels"
            raise DirtyValueError(DirtyReason.TOO_DEEP, message, stage="decode")


def signed(value: int) -> int:
    """A number of 64 bits with its sign."""
    return value - _WORD if value >= _SIGN else value


def zigzag(value: int) -> int:
    """A number whose sign is its lowest bit."""
    return (value >> 1) ^ -(value & 1)
