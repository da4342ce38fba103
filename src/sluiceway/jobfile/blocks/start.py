"""Where reading begins, for source partitions that the ledger does not know."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sluiceway.jobfile.blocks.values import instant_us, wrong
from sluiceway.types.log_key import LogKey, read_log_key

StartKind = Literal["earliest", "latest", "timestamp", "offsets", "group"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_OFFSET = 2**63 - 1
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class StartAt:
    """A start, with the values of its kind.

    Attributes:
        kind: Kind of the start.
        timestamp_ms: For `timestamp`: the first row whose record time is not before it.
        offsets: For `offsets`: (topic, partition, first offset), in order.
        group: For `group`: the consumer group whose committed offsets are used.
    """

    kind: StartKind
    timestamp_ms: int = 0
    offsets: tuple[tuple[str, LogKey, int], ...] = ()
    group: str = ""

    def __str__(self) -> str:
        """Canonical text for the ledger; the same for equal starts."""
        if self.kind == "timestamp":
            at = _EPOCH + timedelta(milliseconds=self.timestamp_ms)
            return f"timestamp {at.isoformat(timespec='milliseconds')}"
        if self.kind == "offsets":
            places = " ".join(f"{topic}[{number}]={at}" for topic, number, at in self.offsets)
            return f"offsets {places}"
        return f"group {self.group}" if self.kind == "group" else self.kind


EARLIEST = StartAt("earliest")
LATEST = StartAt("latest")


def parse_start_time_ms(text: object) -> int:
    """Milliseconds since 1970 of `2026-11-20T08:00:00Z`; fractions are rounded up.

    Raises:
        PydanticCustomError: The text is no such time, has no zone, or is before 1970.
    """
    at_us = instant_us(text)
    if at_us is None or at_us < 0:
        todo = "write date, time and zone, in quotes"
        raise wrong("a time such as `2026-11-20T08:00:00Z`", todo)
    return -(-at_us // 1000)


def parse_start_offsets(value: object) -> tuple[tuple[str, LogKey, int], ...]:
    """`{orders: {0: 12, 1: 5}}` as (topic, partition, offset), in order.

    Raises:
        PydanticCustomError: It is no such mapping, or an offset is no number.
    """
    found = []
    topics = value if isinstance(value, Mapping) and value else {"": None}
    for topic, places in topics.items():
        if not isinstance(places, Mapping) or not places:
            todo = "write {orders: {0: 12, 1: 5}}"
            raise wrong("topics, each with its partitions and their offsets", todo)
        for written, offset in places.items():
            key = read_log_key(str(written))
            if key is None:
                raise wrong("a partition's number, or its name", "write it as `offsets` shows it")
            found.append((str(topic), key, _whole(offset, _MAX_OFFSET, "an offset")))
    return tuple(sorted(found, key=lambda each: (each[0], str(each[1]).zfill(10))))


def _whole(text: object, most: int, what: str) -> int:
    digits = str(text)
    plain = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    if not plain or int(digits) > most:
        raise wrong(f"{what} as a whole number from 0 on", "write digits only")
    return int(digits)
