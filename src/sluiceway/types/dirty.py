"""Why a row cannot be converted, as values that every layer above shares."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MESSAGE_LIMIT_CHARS = 300
MOST_COUNTED = 40
"""Names that dirty rows of one record are counted under, at most; see `counted_as`."""

_COUNTED_PATH_CHARS = 80
_POSITION = re.compile(r"\[\d+\]")


class DirtyReason(StrEnum):
    """Stable reason codes of rows that cannot be converted."""

    BROKEN = "broken"
    ENCODING = "encoding"
    EMPTY = "empty"
    UNKNOWN_SCHEMA = "unknown_schema"
    NOT_AN_OBJECT = "not_an_object"
    DUPLICATE_KEY = "duplicate_key"
    MISSING = "missing"
    NULL = "null"
    WRONG_TYPE = "wrong_type"
    NOT_INTEGRAL = "not_integral"
    OVERFLOW = "overflow"
    SCALE = "scale"
    TOO_LONG = "too_long"
    TRAILING_BLANKS = "trailing_blanks"
    BAD_TEXT = "bad_text"
    BAD_TIME = "bad_time"
    NOT_A_CHANGE = "not_a_change"
    KEY_MISMATCH = "key_mismatch"
    KEY_CHANGED = "key_changed"
    ORDER_UNKNOWN = "order_unknown"
    UNEXPECTED_FIELD = "unexpected_field"
    TOO_DEEP = "too_deep"
    BAD_PARTITION_VALUE = "bad_partition_value"
    UNREPRESENTABLE = "unrepresentable"
    FUTURE_TIME = "future_time"
    OLD_TIME = "old_time"
    SQL_FAILED = "sql_failed"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class DirtyRow:
    """Why row `index` of a batch is dirty.

    Attributes:
        index: Position in the batch that was handed over, from 0.
        stage: `decode`, `convert`, `event_time`, `transform`, `partition`, `late` or `write`.
        reason: Stable code.
        path: Field, as `geo.tags[3]`; empty when the whole payload is meant.
        message: Text for people; never longer than 300 characters.
    """

    index: int
    stage: str
    reason: DirtyReason
    path: str
    message: str


def shown(value: object, limit_chars: int = 60) -> str:
    """Quote a value for a message, cut to a length.

    Called for dirty rows only. Characters that a log or terminal might choke on are escaped.

    Args:
        value: A text, or anything with a `repr`.
        limit_chars: Greatest length of the result, marks included.

    Returns:
        ASCII, as `'abc'` or `'abc…` in escaped form.
    """
    text = ascii(value[:limit_chars] if isinstance(value, str) else value)
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 3]}..."


def counted_as(reason: str, path: str) -> str:
    """Name under which rows of a reason and field are counted: `overflow geo.tags[].v`.

    Called for dirty rows. Positions in lists are left out, so that they do not multiply names.

    Args:
        reason: Stable code.
        path: Field; empty when the whole payload is meant.
    """
    if not path:
        return str(reason)
    return f"{reason} {_POSITION.sub('[]', path)[:_COUNTED_PATH_CHARS]}"


def reason_of(name: str) -> str:
    """The reason alone of a name that `counted_as` made."""
    return name.partition(" ")[0]


def by_reason(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts under names of `counted_as`, added up by reason."""
    found: dict[str, int] = {}
    for name, rows in counts.items():
        reason = reason_of(name)
        found[reason] = found.get(reason, 0) + rows
    return found


def bounded_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """The same rows under `MOST_COUNTED` names of fields at most; the rest under reasons alone.

    Called where counts of several tasks or epochs are added up. Field paths may come from keys of
    the payload, so their number has no other bound.
    """
    kept = {*sorted(counts, key=lambda name: (-counts[name], name))[:MOST_COUNTED]}
    found: dict[str, int] = {}
    for name in sorted(counts):
        under = name if name in kept else reason_of(name)
        found[under] = found.get(under, 0) + counts[name]
    return found
