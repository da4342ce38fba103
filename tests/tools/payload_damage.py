"""Damages sound payloads, from a seed: what broken producers, proxies and attackers send."""

import random
import re
from collections.abc import Callable

from tools.fuzz_subjects import Payload

HUGE_BYTES = 100 * 1024 * 1024
_NUMBER = re.compile(rb"[0-9]+")
_MEMBER = re.compile(rb'"[^"\\]{1,20}": ?(?:"[^"\\]*"|[0-9.eE+-]+|true|false|null)')
_STRUCTURE = re.compile(rb'["{}\[\]:,\n\\]')
_HUGE_NUMBERS = (
    *(b"9" * 400, b"1e400", b"-1e-400", b"1e999999999999", b"0." + b"0" * 400 + b"1"),
    *(b"9223372036854775808", b"0x10", b"1_000", b"NaN", b"-Infinity", b"1" + b"0" * 5000),
    *(b"00012", b"1.", b".5", b"--1", b"1e", b"+7"),
)
_BAD_TEXT = (
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x00"),
    *(b"\xef\xbb\xbf", b"\xfe\xff", b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"\\uZZZZ"),
    *(b"\xe2\x80\xa8", b"\x7f", b"\x1b[31m"),
)
_DEEP = (b"[", b'{"a":', b'[{"b":', b"(", b"<", b'"', b"\\", b",", b'""')
_KEYWORDS = (
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"\r\n",
    b"\n",
    b"|",
    b"\t",
    b" ",
    b",",
    b"-",
    b"//x",
    b"/**/",
)
Damage = Callable[[bytes, random.Random], bytes]


def _truncated(payload: bytes, pick: random.Random) -> bytes:
    return payload[: pick.randrange(len(payload) + 1)]


def _flipped(payload: bytes, pick: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(pick.choice((1, 1, 1, 2, 8))):
        if data:
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
    return bytes(data)


def _with_bytes(payload: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(payload) + 1)
    return payload[:place] + pick.randbytes(pick.randrange(1, 5)) + payload[place:]


def _cut_out(payload: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(payload) + 1)
    return payload[:place] + payload[place + pick.randrange(1, 9) :]


def _deep(payload: bytes, pick: random.Random) -> bytes:
    place, depth = pick.randrange(len(payload) + 1), pick.choice((5, 99, 100, 101, 2000))
    return payload[:place] + pick.choice(_DEEP) * depth + payload[place:]


def _huge_number(payload: bytes, pick: random.Random) -> bytes:
    return _instead(payload, _NUMBER, pick.choice(_HUGE_NUMBERS), pick)


def _bad_text(payload: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(payload) + 1)
    return payload[:place] + pick.choice(_BAD_TEXT) + payload[place:]


def _doubled(payload: bytes, pick: random.Random) -> bytes:
    """A member, or a stretch of bytes, twice."""
    found = list(_MEMBER.finditer(payload))
    if found:
        one = pick.choice(found)
        return payload[: one.end()] + b"," + one[0] + payload[one.end() :]
    start = pick.randrange(len(payload) + 1)
    end = start + pick.randrange(1, 20)
    return payload[:end] + payload[start:end] + payload[end:]


def _other_structure(payload: bytes, pick: random.Random) -> bytes:
    return _instead(payload, _STRUCTURE, pick.choice((b"", *_KEYWORDS)), pick)


def _other_word(payload: bytes, pick: random.Random) -> bytes:
    place = pick.randrange(len(payload) + 1)
    return payload[:place] + pick.choice(_KEYWORDS) + payload[place:]


def _twice(payload: bytes, pick: random.Random) -> bytes:
    return payload + pick.choice((b"", b"\n", b" ", b",")) + payload


def _instead(payload: bytes, wanted: re.Pattern[bytes], new: bytes, pick: random.Random) -> bytes:
    found = list(wanted.finditer(payload))
    if not found:
        return payload + new
    one = pick.choice(found)
    return payload[: one.start()] + new + payload[one.end() :]


DAMAGES: tuple[Damage, ...] = (
    _truncated,
    _flipped,
    _with_bytes,
    _cut_out,
    _deep,
    _huge_number,
    _bad_text,
    _doubled,
    _other_structure,
    _other_word,
    _twice,
)


def damaged(payload: Payload, pick: random.Random) -> bytes | None:
    """A payload that is mostly damaged, now and then sound, empty or none.

    Args:
        payload: Makes a sound one.
        pick: Where chance comes from.
    """
    roll = pick.random()
    if roll < 0.01:
        return pick.choice((None, b"", b" ", pick.randbytes(30)))
    found = payload(pick)
    for _ in range(0 if roll < 0.1 else pick.choice((1, 1, 1, 2, 3))):
        found = pick.choice(DAMAGES)(found, pick)
    return found


def huge(payload: bytes, pick: random.Random, size_bytes: int = HUGE_BYTES) -> bytes:
    """A payload with a text, or a number, or brackets, of so many bytes in it."""
    text = pick.choice((b"x", b"9", b"\xc3\xa9", b"\\u00e9", b"\\", b'""', b"[", b'{"a":'))
    found = _STRUCTURE.search(payload)
    place = found.end() if found else 0
    return payload[:place] + text * (size_bytes // len(text)) + payload[place:]
