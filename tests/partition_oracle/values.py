"""Partition values, hostile and ordinary, from a seed."""

import random
import unicodedata
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Literal

from tools.hostile_payloads import DEFAULT, hostile_payloads

_PIECES = (
    *("..", "/", "\\", "%", "%2F", "%2e", "%25", "%00", "%zz", "=", ":", "#", "?", "*", "'", '"'),
    *("{", "}", "[", "]", "^", " ", ".", "_", "-", "+", "~", "\t", "\n", "\r", "\x00", "\x01"),
    *("\x1f", "\x7f", "\x80", "\u00e9", "e\u0301", "\u2024", "\uff0f", "\u2215", "\uff05"),
    *("\u200b", "\ufeff", "\u202e", "\u5317", "\U0001f600", "\U0010ffff", "a", "B", "7"),
    *(DEFAULT, "null", "place=", "file:", "/../"),
)
_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
_RANGES = ((0x20, 0x7F), (0xA0, 0x2FF), (0x300, 0x36F), (0x4E00, 0x9FFF), (0xE000, 0xF8FF),
           (0x1F300, 0x1F6FF), (0xFE00, 0xFFFF), (0x2000, 0x206F))  # fmt: skip
_FIRST_DAY = date(1, 1, 1)
_DAYS = 3_652_058


def text_values(seed: int, count: int) -> Iterator[str | None]:
    """So many different texts, null and empty among them; all of `hostile_payloads` come first."""
    rng = random.Random(seed)  # noqa: S311 - the same values again
    seen: set[str | None] = set()
    for value in (None, "", *hostile_payloads()):
        if len(seen) < count:
            seen.add(value)
            yield value
    while len(seen) < count:
        value = _text(rng)
        # Half a surrogate pair is no text for Arrow; the decoders make such rows dirty before.
        if value not in seen:
            seen.add(value)
            yield value


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return "".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 8)))
    if kind < 0.5:
        return (
            rng.choice(hostile_payloads())[:300] + rng.choice(_PIECES) + str(rng.randint(0, 9999))
        )
    if kind < 0.6:
        return unicodedata.normalize(rng.choice(_FORMS), _characters(rng, rng.randint(1, 12)))
    if kind < 0.75:
        return _characters(rng, rng.randint(1, 40))
    if kind < 0.8:
        return _characters(rng, rng.randint(60, 300))
    if kind < 0.9:
        return _number(rng) + rng.choice(("", "", " ", "\u00a0"))
    return f"{rng.choice(('web', 'ios', 'Berlin', 'order_state', 'x'))}-{rng.randint(0, 10**7)}"


def _characters(rng: random.Random, length: int) -> str:
    low, high = rng.choice(_RANGES)
    return "".join(chr(rng.randint(low, high)) for _ in range(length))


def _number(rng: random.Random) -> str:
    kind = rng.randint(0, 4)
    if kind == 0:
        return str(rng.randint(-(2**63), 2**63 - 1))
    if kind == 1:
        return f"{Decimal(rng.randint(-(10**18), 10**18)).scaleb(-rng.randint(0, 10)):f}"
    if kind == 2:
        return (_FIRST_DAY + timedelta(days=rng.randrange(_DAYS))).isoformat()
    if kind == 3:
        return f"{rng.randint(0, 10**9):012d}"
    return repr(rng.uniform(-1e9, 1e9))


def numbers(seed: int, count: int) -> list[int]:
    """Whole numbers of 64 bits, the ends among them."""
    rng = random.Random(seed)  # noqa: S311 - the same values again
    ends = [0, -1, 2**63 - 1, -(2**63)]
    return [*ends, *(rng.randint(-(2**63), 2**63 - 1) >> rng.randrange(63) for _ in range(count))]


def decimals(seed: int, count: int) -> list[Decimal]:
    """Decimals of 18 digits, 4 of them behind the point; many negative."""
    rng = random.Random(seed)  # noqa: S311 - the same values again
    return [Decimal(rng.randint(-(10**17), 10**17)).scaleb(-4) for _ in range(count)]


def days(seed: int, count: int) -> list[date]:
    """Days of the years 1 to 9999."""
    rng = random.Random(seed)  # noqa: S311 - the same values again
    return [_FIRST_DAY + timedelta(days=rng.randrange(_DAYS)) for _ in range(count)]
