"""The times by which rows can be partitioned; a module without Arrow."""

from enum import StrEnum


class TimeKind(StrEnum):
    """Times of a row that partition columns may be made of."""

    EVENT = "event"
    RECORD = "record"
    PROCESSING = "processing"
