"""What stands before the Avro part of a payload: which schema wrote it, and how long that is."""

from collections.abc import Callable

from sluiceway.formats.avro.reader import broken

SINGLE_OBJECT_MARK = b"\xc3\x01"
SINGLE_OBJECT_HEADER_BYTES = 10

Frame = Callable[[bytes], tuple[int, int]]
"""A payload -> key of its writer's schema, where the Avro part begins; raises DirtyValueError."""


def single_object_frame(payload: bytes) -> tuple[int, int]:
    """Avro's single-object encoding: C3 01, and the schema's fingerprint in eight bytes."""
    if not payload.startswith(SINGLE_OBJECT_MARK) or len(payload) < SINGLE_OBJECT_HEADER_BYTES:
        raise broken("a single object begins with C3 01 and a fingerprint of 8 bytes")
    return int.from_bytes(payload[2:SINGLE_OBJECT_HEADER_BYTES], "little"), 10


def bare_frame(payload: bytes) -> tuple[int, int]:
    """Nothing stands before it: all payloads have one schema."""
    del payload
    return 0, 0
