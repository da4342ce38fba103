"""Avro's binary encoding, written down from the specification: what tests make payloads with."""

import struct


def long(number: int) -> bytes:
    """A whole number; beyond 64 bits it takes more bytes than Avro allows."""
    value = (number << 1) if number >= 0 else ((-number) << 1) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def data(content: bytes) -> bytes:
    """Bytes with their length."""
    return long(len(content)) + content


def text(content: str) -> bytes:
    """Text; lone surrogates stand for bytes that are no UTF-8."""
    return data(content.encode("utf-8", "surrogateescape"))


def floating(number: float, bits: int) -> bytes:
    """A float."""
    return struct.pack("<d" if bits == 64 else "<f", number)


def blocks(items: list[bytes], *, sized: bool = False) -> bytes:
    """Items of an array, or pairs of a map, in blocks of at most two."""
    found = b""
    for start in range(0, len(items), 2):
        part = items[start : start + 2]
        body = b"".join(part)
        found += long(-len(part)) + long(len(body)) if sized else long(len(part))
        found += body
    return found + b"\0"


def unscaled(number: int) -> bytes:
    """The bytes of a decimal."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def confluent(schema_id: int, body: bytes) -> bytes:
    """Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + body
