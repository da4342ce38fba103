"""Why a row cannot be converted, as values that every layer above shares."""

from dataclasses import dataclass
from enum import StrEnum

MESSAGE_LIMIT_CHARS = 300


class DirtyReason(StrEnum):
    """Stable reason codes of rows that cannot be converted."""

    BROKEN = "broken"
    ENCODING = "encoding"
    EMPTY = "empty"
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
    UNEXPECTED_FIELD = "unexpected_field"
    TOO_DEEP = "too_deep"
    BAD_PARTITION_VALUE = "bad_partition_value"
    UNREPRESENTABLE = "unrepresentable"


@dataclass(frozen=True, slots=True)
class DirtyRow:
    """Why row `index` of a batch is dirty.

    Attributes:
        index: Position in the batch that was handed over, from 0.
        stage: `decode`, `convert`, `event_time`, `partition` or `write`.
        reason: Stable code.
        path: Field, as `geo.tags[3]`; empty when the whole payload is meant.
        message: For people; never longer than 300 characters.
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
