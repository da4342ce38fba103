"""Fingerprint of the last rows before a committed end, by which a copy of the log is searched.

A run is one row, or equal rows that follow each other. The text of a tail has the runs in the order
of the rows, with commas between: 11 characters of base64, `*n` after a run of n rows, and `@ms`
where no row of the run is older. Runs without `@ms` have that of the run before.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

RUNS: Final = 8
"""Runs that a tail has at most."""

NO_TAIL: Final = ""
"""Of an end before which no row is known."""

_HASH_BYTES = 8
_NULL = b"\xff" * 8
_RUN = re.compile(r"([A-Za-z0-9_-]{11})(?:\*([1-9][0-9]{0,18}))?(?:@(-?[0-9]{1,19}))?")


@dataclass(frozen=True, slots=True)
class TailRun:
    """Equal rows that follow each other.

    Attributes:
        row: What `row_hash` is for each of them.
        rows: How many there are; of the oldest run of a tail perhaps more.
        least_ms: No row of it has an earlier record time, ms since 1970.
    """

    row: int
    rows: int
    least_ms: int


def row_hash(key: bytes | None, value: bytes | None, time_ms: int) -> int:
    """64 bits of what a mirror keeps of a row.

    Args:
        key: Key of the record.
        value: Its payload.
        time_ms: Its record time, ms since 1970.
    """
    content = b"".join((
        _NULL if key is None else len(key).to_bytes(8),
        key or b"",
        _NULL if value is None else len(value).to_bytes(8),
        value or b"",
        time_ms.to_bytes(8, signed=True),
    ))  # fmt: skip
    return int.from_bytes(blake2b(content, digest_size=_HASH_BYTES).digest())


def tail_text(runs: Sequence[TailRun]) -> str:
    """The tail that ends with these runs, oldest first."""
    parts, before = [], None
    for run in runs[-RUNS:]:
        text = urlsafe_b64encode(run.row.to_bytes(_HASH_BYTES)).decode().rstrip("=")
        count = f"*{run.rows}" if run.rows > 1 else ""
        time = f"@{run.least_ms}" if run.least_ms != before else ""
        parts.append(text + count + time)
        before = run.least_ms
    return ",".join(parts)


def tail_runs(text: str) -> tuple[TailRun, ...]:
    """The runs of a tail, oldest first.

    Raises:
        ValueError: It is the text of no tail.
    """
    runs: list[TailRun] = []
    for part in text.split(",") if text else ():
        found = _RUN.fullmatch(part)
        if found is None or (found[3] is None and not runs):
            raise ValueError(f"no run of a tail: {part[:40]!r}")
        least_ms = runs[-1].least_ms if found[3] is None else int(found[3])
        row = int.from_bytes(urlsafe_b64decode(found[1] + "="))
        runs.append(TailRun(row, int(found[2] or 1), least_ms))
    if len(runs) > RUNS:
        raise ValueError(f"a tail of {len(runs)} runs")
    return tuple(runs)


def joined_tails(before: str, after: str) -> str:
    """The tail of an end up to which rows follow those of an earlier end.

    Args:
        before: Tail of the earlier end.
        after: Tail of the rows since.
    """
    if not before or not after:
        return after or before
    left, right = list(tail_runs(before)), list(tail_runs(after))
    return tail_text(_merged(left, right))


def is_same_tail(one: str, other: str) -> bool:
    """Whether two tails end with the same rows, as far back as both know them.

    Of the oldest run that both have, only the row counts: either may have a part of it.
    """
    pairs = list(zip(reversed(tail_runs(one)), reversed(tail_runs(other)), strict=False))
    return bool(pairs) and all(
        left.row == right.row and (left.rows == right.rows or place == len(pairs) - 1)
        for place, (left, right) in enumerate(pairs)
    )


def tail_of(rows: Iterable[tuple[int, int]]) -> str:
    """The tail of rows, oldest first.

    Args:
        rows: Hash and record time (ms since 1970) of each.
    """
    runs: list[TailRun] = []
    for row, time_ms in rows:
        runs = _merged(runs, [TailRun(row, 1, time_ms)])[-RUNS:]
    # One time for all is shorter, and searches begin at the earliest one in any case.
    least_ms = min((run.least_ms for run in runs), default=0)
    return tail_text([replace(run, least_ms=least_ms) for run in runs])


def _merged(left: list[TailRun], right: list[TailRun]) -> list[TailRun]:
    if left and right and left[-1].row == right[0].row:
        one, other = left[-1], right[0]
        least_ms = min(one.least_ms, other.least_ms)
        middle = TailRun(one.row, one.rows + other.rows, least_ms)
        return [*left[:-1], middle, *right[1:]]
    return [*left, *right]
