"""Confluent's wire format: the registry's schema that a payload was written with."""

from uuid import UUID

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema_header import HeaderFramed

HEADER_BYTES = 5
GUID_HEADER_BYTES = 17

_GUIDS = 1 << 128


def confluent_frame(payload: bytes) -> tuple[int, int]:
    """The schema's id, and where the payload's own format begins.

    Called once a payload.

    Args:
        payload: Not empty.

    Returns:
        An id, or a number above all ids that stands for a GUID: see `guid_of`.

    Raises:
        DirtyValueError: BROKEN; neither it nor its record's header names a schema.
    """
    number, begin = schema_frame(payload)
    check_header(payload, begin)
    return number, begin


def schema_frame(payload: bytes) -> tuple[int, int]:
    """As `confluent_frame`, where more of the frame may follow."""
    if payload[0] == 0:
        if len(payload) >= HEADER_BYTES:
            return int.from_bytes(payload[1:HEADER_BYTES], "big"), HEADER_BYTES
    elif payload[0] == 1:
        if len(payload) >= GUID_HEADER_BYTES:
            guid = int.from_bytes(payload[1:GUID_HEADER_BYTES], "big")
            return _GUIDS + guid, GUID_HEADER_BYTES
    else:
        raise _broken(
            f"its first byte is 0x{payload[0]:02x}, not 0 (an id) or 1 (a GUID), and no header of "
            "the record names a schema"
        )
    raise _broken(f"it ends at byte {len(payload)}, before the schema's id or GUID is over")


def check_header(payload: bytes, begin: int) -> None:
    """Check that a header ends where its schema name does.

    Raises:
        DirtyValueError: BROKEN; the header is longer or shorter.
    """
    if isinstance(payload, HeaderFramed) and begin != payload.header_bytes:
        count = payload.header_bytes
        raise _broken(f"the record's header has {count} bytes, and what names the schema {begin}")


def guid_of(number: int) -> UUID | None:
    """The GUID that a number stands for; None for an id."""
    return UUID(int=number - _GUIDS) if number >= _GUIDS else None


def schema_name(number: int) -> str:
    """A schema in words: by its id or its GUID."""
    guid = guid_of(number)
    return f"schema id {number}" if guid is None else f"schema GUID {guid}"


def unframed(payload: bytes) -> bytes:
    """JSON without Confluent's header, if it has one.

    No JSON begins with a zero, so the payload itself shows which of the two it is. For displays;
    decoders have an option.
    """
    if isinstance(payload, HeaderFramed):
        return payload[payload.header_bytes :]
    return (payload.startswith(b"\0") and payload[HEADER_BYTES:]) or payload


def _broken(what: str) -> DirtyValueError:
    message = f"not Confluent's wire format: {what}"
    return DirtyValueError(DirtyReason.BROKEN, message, stage="decode")
