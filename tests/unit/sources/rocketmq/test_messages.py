"""Stored messages: both formats, compressed bodies, batches; what is cut or altered is refused."""

import zlib

import pyarrow as pa
import pytest

from sluiceway.sources.contract import UNREADABLE_HEADERS
from sluiceway.sources.rocketmq.frames import WireError
from sluiceway.sources.rocketmq.messages import UNREADABLE_BODY, StoredMessage, read_messages
from tools.rocketmq_fake import (
    BATCH,
    BORN_V6,
    COMPRESSED,
    MAGIC_V1,
    MAGIC_V2,
    STORE_V6,
    inner_batch,
    stored_message,
)

PROPERTIES = b"KEYS\x01k1 k2\x02TAGS\x01A\x02empty\x01\x02"


def only(raw: bytes) -> StoredMessage:
    (found,) = read_messages(raw)
    return found


@pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
@pytest.mark.parametrize("flag", [0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6])
def test_message_of_any_format_and_address_is_read_whole(magic: int, flag: int) -> None:
    raw = stored_message(
        b"body", offset=7, queue=3, topic="orders", properties=PROPERTIES, flag=flag, magic=magic
    )
    found = only(raw)
    assert (found.offset, found.queue, found.topic, found.body) == (7, 3, "orders", b"body")
    assert (found.stored_ms, found.born_ms) == (1_700_000_000_000, 1_699_999_999_995)
    assert found.headers() == (("KEYS", b"k1 k2"), ("TAGS", b"A"), ("empty", b""))
    assert found.property_bytes("KEYS") == b"k1 k2"
    assert found.property_bytes("KEY") is None


def test_messages_lie_back_to_back() -> None:
    raw = b"".join(stored_message(b"%d" % number, offset=number) for number in range(5))
    assert [(each.offset, each.body) for each in read_messages(raw)] == [
        (number, b"%d" % number) for number in range(5)
    ]
    assert read_messages(b"") == []


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (0, zlib.compress(b"x" * 5_000)),
        (1, b"made below: a frame, which the plain codec does not write"),
        (2, pa.compress(b"x" * 5_000, codec="zstd", asbytes=True)),
        (3, zlib.compress(b"x" * 5_000)),
    ],
)
def test_compressed_body_is_unpacked(kind: int, packed: bytes) -> None:
    if kind == 1:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(b"x" * 5_000)
        packed = sink.getvalue().to_pybytes()
    found = only(stored_message(packed, flag=COMPRESSED | kind << 8))
    assert (found.body, found.readable) == (b"x" * 5_000, True)


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 7])
def test_body_that_is_not_what_its_flag_says_is_kept_as_stored(kind: int) -> None:
    found = only(stored_message(b"plain", flag=COMPRESSED | kind << 8, properties=PROPERTIES))
    assert found.body == b"plain"
    assert found.headers()[-1:] == UNREADABLE_BODY


def test_body_cut_in_its_compressed_form_is_kept_as_stored() -> None:
    cut = zlib.compress(bytes(1_000))[:-3]
    assert only(stored_message(cut, flag=COMPRESSED)).body == cut


def test_batch_stored_as_one_is_taken_apart() -> None:
    body = inner_batch([(b"a", b"TAGS\x01A\x02"), (b"bb", b""), (b"ccc", b"")])
    for packed, flag in ((body, BATCH), (zlib.compress(body), BATCH | COMPRESSED)):
        found = read_messages(stored_message(packed, offset=10, flag=flag))
        assert [(each.offset, each.body) for each in found] == [
            (10, b"a"),
            (11, b"bb"),
            (12, b"ccc"),
        ]
        assert found[0].property_bytes("TAGS") == b"A"


def test_property_whose_name_is_no_text_makes_headers_unreadable() -> None:
    found = only(stored_message(b"x", properties=b"\xff\x01v\x02KEYS\x01k\x02"))
    assert found.headers() == UNREADABLE_HEADERS
    assert found.property_bytes("KEYS") == b"k"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (stored_message(b"x")[:-1], "says to have"),
        (stored_message(b"x") + b"\0\0\0", "cut or altered"),
        (stored_message(b"x", crc=5), "checksum"),
        (stored_message(b"x", magic=0xCBD43194), "magic number"),
        (stored_message(b"x", offset=-1), "parts"),
        (stored_message(b"x", topic="\xff")[:-3] + b"\xff\0\0", "cut or altered"),
        (stored_message(inner_batch([(b"a", b"")])[:-1], flag=BATCH), "cut or altered"),
        (
            stored_message(inner_batch([(b"a", b"")]) + bytes(20), flag=BATCH),
            "cut or altered|bytes",
        ),
    ],
)
def test_altered_message_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read_messages(raw)


def test_mark_tells_messages_apart_that_have_one_offset() -> None:
    first = only(stored_message(b"x", stored_ms=5, physical=1))
    assert first.mark == only(stored_message(b"y", stored_ms=5, physical=1)).mark
    assert first.mark != only(stored_message(b"x", stored_ms=6, physical=1)).mark
    assert first.mark != only(stored_message(b"x", stored_ms=5, physical=2)).mark
    assert only(stored_message(b"x", stored_ms=2**41 - 1, physical=2**62)).mark < 2**53
