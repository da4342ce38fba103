"""Payloads whose schema is named by a header of their record: what Confluent's serializers can do.

Source: the wire format of Confluent Platform 8 and its clients' `SchemaId`. The header holds what
otherwise stands before the payload: a zero and an id, or a one and a GUID; for Protobuf then the
message's indexes.
"""

from collections.abc import Iterable, Sequence

VALUE_HEADER = "__value_schema_id"
KEY_HEADER = "__key_schema_id"

Headers = Sequence[tuple[str, bytes | None]]


class HeaderFramed(bytes):
    """A payload with its header before it, as if that were part of it.

    Attributes:
        header_bytes: How many of its bytes are the header's.
    """

    header_bytes: int


def with_schema_headers(
    payloads: Iterable[bytes | None], headers: Iterable[Headers], name: str
) -> list[bytes | None]:
    """Payloads with the headers before them that name their schemas.

    Args:
        payloads: Payloads in row order. None stays None: it is a tombstone.
        headers: Headers of the same rows.
        name: Name of the header; the last one of the name counts. A record without it stays as is.
    """
    return [
        payload if payload is None or not held else _framed(payload, held, name)
        for payload, held in zip(payloads, headers, strict=True)
    ]


def _framed(payload: bytes, headers: Headers, name: str) -> bytes:
    for key, value in reversed(headers):
        if key == name and value:
            framed = HeaderFramed(value + payload)
            framed.header_bytes = len(value)
            return framed
    return payload
