"""Messages as a broker stores them: both formats, compressed bodies, batches inside of one."""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

import pyarrow as pa

from sluiceway.sources.contract import UNREADABLE_HEADERS, Headers
from sluiceway.sources.rocketmq.codes import (
    BATCH,
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_MASK,
    COMPRESSION_SHIFT,
    MAGIC_V1,
    MAGIC_V2,
    STORE_HOST_V6,
)
from sluiceway.sources.rocketmq.frames import WireError

UNREADABLE_BODY: Final = (("sluiceway.body", b"unreadable: kept as it is stored"),)
"""Header of a message whose body says to be compressed and cannot be unpacked."""
MAX_BODY_BYTES: Final = 64 << 20
MOST_UNPACKED_BYTES: Final = 16 << 20
"""A pull's messages are unpacked up to so many bytes; later ones are pulled again."""
# size, magic, crc, queue, flag, queue offset, physical offset, system flag, born time
_HEAD: Final = struct.Struct(">iIIiiqqiq")
_INNER_HEAD: Final = struct.Struct(">iIIii")
_SIZE: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_TIME: Final = struct.Struct(">q")
_LZ4, _ZSTD, _ZLIB = 1, 2, 3
_CRC_MASK: Final = 0x7FFFFFFF
_CHUNK_BYTES: Final = 1 << 20


class StoredMessage(NamedTuple):
    """One message.

    Attributes:
        offset: Offset in its queue.
        physical: Offset in the broker's commit log.
        born_ms: Creation time by the producer's clock.
        stored_ms: Storage time by the broker's clock.
        body: Unpacked.
        properties: As they lie: name, 1, value, 2, and so on.
        readable: False where the body could not be unpacked, and is as it is stored.
    """

    queue: int
    offset: int
    physical: int
    born_ms: int
    stored_ms: int
    topic: str
    body: bytes
    properties: bytes
    readable: bool

    @property
    def mark(self) -> int:
        """A mark that another message at its offset does not have."""
        return mark_of(self.stored_ms, self.physical)

    def property_bytes(self, name: str) -> bytes | None:
        """A property's value; None where it is missing."""
        return property_of(self.properties, name)

    def headers(self) -> Headers:
        """All properties in their order; `UNREADABLE_HEADERS` where a name is no text."""
        found = properties_headers(self.properties)
        if self.readable or found is UNREADABLE_HEADERS:
            return found
        return (*found, *UNREADABLE_BODY)


def mark_of(stored_ms: int, physical: int) -> int:
    """A mark that differs between messages at one offset: store time and place, in 52 bits."""
    place = crc32(struct.pack(">q", physical)) & 0x7FF
    return ((stored_ms & 0x1FFFFFFFFFF) << 11) | place


def property_of(properties: bytes, name: str) -> bytes | None:
    """A property's value; None where it is missing."""
    wanted = name.encode()
    for key, value in _pairs(properties):
        if key == wanted:
            return value
    return None


def properties_headers(properties: bytes) -> Headers:
    """All properties in their order; `UNREADABLE_HEADERS` where a name is no text."""
    try:
        return tuple((key.decode(), value) for key, value in _pairs(properties))
    except UnicodeDecodeError:
        return UNREADABLE_HEADERS


def read_messages(raw: bytes) -> list[StoredMessage]:
    """Messages of a pull's body, which lie back to back.

    They may be a thousand times as large as the pull when they are unpacked. The last ones are
    left out then, as if the broker had sent fewer; a batch that was stored as one stays whole.

    Raises:
        WireError: They do not.
    """
    try:
        return list(_messages(raw))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"a message of a pull is cut or altered: {error}") from error


def _messages(raw: bytes) -> Iterator[StoredMessage]:
    place, end, unpacked = 0, len(raw), 0
    most = max(MOST_UNPACKED_BYTES, end)
    while place < end and unpacked <= most:
        (size,) = _SIZE.unpack_from(raw, place)
        if size < _HEAD.size or place + size > end:
            raise WireError(f"a message says to have {size} bytes, {end - place} are left")
        found, flag = _message(raw, place, place + size)
        if flag & BATCH == BATCH and found.readable:
            yield from _inner(found)
        else:
            yield found
        unpacked += len(found.body)
        place += size


def _message(raw: bytes, place: int, end: int) -> tuple[StoredMessage, int]:
    """The message at [place, end), and its flags."""
    _, magic, crc, queue, _, offset, physical, flag, born_ms = _HEAD.unpack_from(raw, place)
    at = place + _HEAD.size + (20 if flag & BORN_HOST_V6 else 8)
    (stored_ms,) = _TIME.unpack_from(raw, at)
    # After the store's host come two numbers of redelivery and transactions.
    at += 20 + (20 if flag & STORE_HOST_V6 else 8)
    (length,) = _SIZE.unpack_from(raw, at)
    at += 4
    body = raw[at : at + length]
    at += length
    if magic == MAGIC_V1:
        name_length, at = raw[at], at + 1
    elif magic == MAGIC_V2:
        (name_length,) = _SHORT.unpack_from(raw, at)
        at += 2
    else:
        raise WireError(f"a message has the magic number {magic:#x}")
    name = raw[at : at + name_length]
    at += name_length
    (properties_length,) = _SHORT.unpack_from(raw, at)
    at += 2
    properties = raw[at : at + properties_length]
    at += properties_length
    if at != end or min(offset, length, name_length, properties_length) < 0:
        raise WireError(f"the message at offset {offset} does not have the parts that it says")
    if crc32(body) & _CRC_MASK != crc & _CRC_MASK:
        raise WireError(f"the message at offset {offset} does not have the body of its checksum")
    unpacked = unpack(flag, body) if flag & COMPRESSED else body
    return StoredMessage(
        queue,
        offset,
        physical,
        born_ms,
        stored_ms,
        name.decode(),
        body if unpacked is None else unpacked,
        properties,
        unpacked is not None,
    ), flag


def _inner(outer: StoredMessage) -> Iterator[StoredMessage]:
    """Messages of a batch that was stored as one; their offsets follow each other."""
    raw, place, number = outer.body, 0, 0
    while place < len(raw):
        size, _, _, _, length = _INNER_HEAD.unpack_from(raw, place)
        body, at = _cut(raw, place + _INNER_HEAD.size, length)
        properties, at = _cut(raw, at + 2, struct.unpack_from(">h", raw, at)[0])
        if at - place != size:
            raise WireError(f"a message in a batch has {at - place} bytes and says {size}")
        yield outer._replace(offset=outer.offset + number, body=body, properties=properties)
        place, number = at, number + 1


def _cut(raw: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length < 0 or at + length > len(raw):
        raise WireError(f"a part of a message says to have {length} bytes")
    return raw[at : at + length], at + length


def unpack(flag: int, body: bytes) -> bytes | None:
    """The body as the producer gave it; None when it is not what the flag says."""
    if not flag & COMPRESSED:
        return body
    kind = flag >> COMPRESSION_SHIFT & COMPRESSION_MASK
    try:
        if kind in (0, _ZLIB):
            return _inflated(body)
        codec = {_LZ4: "lz4", _ZSTD: "zstd"}.get(kind)
        return None if codec is None else _streamed(codec, body)
    except (zlib.error, OSError, pa.ArrowException):
        return None


def _inflated(body: bytes) -> bytes | None:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(body, MAX_BODY_BYTES)
    return found if unpacker.eof else None


def _streamed(codec: str, body: bytes) -> bytes | None:
    parts: list[bytes] = []
    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        while part := stream.read(_CHUNK_BYTES):
            parts.append(part)
            if len(parts) * _CHUNK_BYTES > MAX_BODY_BYTES:
                return None
    return b"".join(parts)


def _pairs(properties: bytes) -> Iterator[tuple[bytes, bytes]]:
    for each in properties.split(b"\x02"):
        name, mark, value = each.partition(b"\x01")
        if mark:
            yield name, value
