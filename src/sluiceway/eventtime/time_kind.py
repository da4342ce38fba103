"""Which of its times a row is partitioned by; apart, for those that load no Arrow."""

from enum import StrEnum


class TimeKind(StrEnum):
    """Times of a row that partition columns may be made of."""

    EVENT = "event"
    RECORD = "record"
    PROCESSING = "processing"
