"""Protobuf's wire format, written down from the specification: what tests make payloads with."""

import struct

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """A number without a sign; a negative one as its 64 bits."""
    value = number if number >= 0 else number + (1 << 64)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def zigzag(number: int) -> bytes:
    """A number whose sign is its lowest bit."""
    return varint(2 * number if number >= 0 else -2 * number - 1)


def tagged(number: int, kind: int, body: bytes) -> bytes:
    """A field; one of bytes gets its length."""
    size = varint(len(body)) if kind == LENGTH else b""
    return varint(number << 3 | kind) + size + body


def text(content: str) -> bytes:
    """Text; lone surrogates stand for bytes that are no UTF-8."""
    return content.encode("utf-8", "surrogateescape")


def floating(number: float, bits: int) -> bytes:
    """A float."""
    return struct.pack("<d" if bits == 64 else "<f", number)
