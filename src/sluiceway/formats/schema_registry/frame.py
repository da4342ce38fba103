"""Confluent's wire format: which schema of a registry a payload was written with."""

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.dirty import DirtyReason

HEADER_BYTES = 5


def confluent_frame(payload: bytes) -> tuple[int, int]:
    """The schema's id, and where the payload's own format begins.

    Called once a payload.

    Args:
        payload: Not empty.

    Raises:
        DirtyValueError: BROKEN; it does not begin with a zero and four bytes.
    """
    if payload[0] != 0:
        raise _broken(f"its first byte is 0, not 0x{payload[0]:02x}")
    if len(payload) < HEADER_BYTES:
        raise _broken(f"the payload ends at byte {len(payload)}, before the schema's id is over")
    return int.from_bytes(payload[1:HEADER_BYTES], "big"), HEADER_BYTES


def unframed(payload: bytes) -> bytes:
    """JSON without what may stand before it in Confluent's wire format.

    No JSON begins with a zero, so it need not be said which of the two a payload is. For those
    who look at payloads for people; decoders are told.
    """
    return (payload.startswith(b"\0") and payload[HEADER_BYTES:]) or payload


def _broken(what: str) -> DirtyValueError:
    message = f"not Confluent's wire format: {what}"
    return DirtyValueError(DirtyReason.BROKEN, message, stage="decode")
