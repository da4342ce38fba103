"""Fetches through confluent-kafka: a message object per record, and batches of those."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message

from sluiceway.sources.contract import (
    UNREADABLE_HEADERS,
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
)
from sluiceway.sources.kafka.fetched import Fetched, FetchEvent, LogRows

_SAMPLE_STEP = 100


class KafkaBatch(SourceBatch):
    """Records of one split from one fetch; what is rarely wanted is read when asked for."""

    __slots__ = ("_messages", "_partition", "offsets", "split_index", "values")

    def __init__(self, split_index: int, partition: SourcePartition, rows: "MessageRows") -> None:
        self.split_index = split_index
        self.values = list(map(Message.value, rows.messages))
        self.offsets = rows.offsets
        self._partition = partition
        self._messages = rows.messages

    def timestamps_ms(self) -> list[int | None]:
        """Record times in row order: of creation or of append, as the topic has it."""
        return [_timestamp_ms(message) for message in self._messages]

    def sampled_times_ms(self, step: int) -> list[int | None]:
        """See `SourceBatch`; only the messages asked for are looked into."""
        return [_timestamp_ms(message) for message in self._messages[::step]]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        messages = [self._messages[row] for row in rows]
        return RawRecords(
            topics=[self._partition.topic] * len(rows),
            partitions=[self._partition.partition] * len(rows),
            offsets=np.take(self.offsets, rows).tolist(),
            timestamps_ms=list(map(_timestamp_ms, messages)),
            keys=list(map(Message.key, messages)),
            values=[self.values[row] for row in rows],
            headers=list(map(_headers, messages)),
        )

    def keys(self) -> list[bytes | None]:
        """Record keys in row order."""
        return list(map(Message.key, self._messages))

    def headers(self) -> list[Headers]:
        """Headers in row order."""
        return list(map(_headers, self._messages))


class MessageRows(LogRows):
    """Rows of one log as messages."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))

    def cut(self, count: int) -> None:
        """See `LogRows.cut`."""
        del self.messages[count:]
        self.offsets = self.offsets[:count]

    def leader_epoch(self) -> int | None:
        """See `LogRows.leader_epoch`."""
        epoch: int | None = self.messages[-1].leader_epoch()
        return epoch

    def mean_bytes(self) -> int:
        """See `LogRows.mean_bytes`; of a sample."""
        sample = self.messages[::_SAMPLE_STEP]
        return sum(len(message.value() or b"") for message in sample) // len(sample)

    def batch(self, split_index: int, partition: SourcePartition) -> SourceBatch:
        """See `LogRows.batch`."""
        return KafkaBatch(split_index, partition, self)


def fetch_messages(
    consumer: Consumer, most: int, wait_s: float, indexes: Mapping[SourcePartition, int]
) -> Fetched:
    """Take what has arrived.

    Called with every read of a reader.

    Args:
        consumer: Assigned the logs.
        most: Greatest number of messages.
        wait_s: How long to wait for that many.
        indexes: Splits by their logs.

    Raises:
        KafkaException: The consumer is broken.
    """
    messages: list[Message] = consumer.consume(most, wait_s)
    errors = list(map(Message.error, messages))
    events: list[FetchEvent] = []
    if any(errors):
        events = [_event(m, e) for m, e in zip(messages, errors, strict=True) if e is not None]
        messages = [m for m, e in zip(messages, errors, strict=True) if e is None]
    rows = [(index, MessageRows(found)) for index, found in _group(messages, indexes)]
    return Fetched(rows, events)


def _event(message: Message, error: KafkaError) -> FetchEvent:
    partition = SourcePartition(message.topic() or "", message.partition() or 0)
    return FetchEvent(partition, message.offset(), error)


def _group(
    messages: list[Message], indexes: Mapping[SourcePartition, int]
) -> Iterable[tuple[int, list[Message]]]:
    """Split a fetch by log. They come in long runs, since each response is of one log."""
    if not messages:
        return ()
    if len(indexes) == 1:
        return ((0, messages),)
    numbers = map(Message.partition, messages)
    one_topic = len({partition.topic for partition in indexes}) == 1
    logs: Iterable[object]
    if one_topic:
        by_log: dict[object, int] = {one.partition: index for one, index in indexes.items()}
        logs = numbers
    else:
        by_log = {(one.topic, one.partition): index for one, index in indexes.items()}
        logs = zip(map(Message.topic, messages), numbers, strict=True)
    groups: dict[int, list[Message]] = {}
    begin = 0
    for log, run in groupby(logs):
        end = begin + len(list(run))
        groups.setdefault(by_log[log], []).extend(messages[begin:end])
        begin = end
    return groups.items()


def _headers(message: Message) -> Headers:
    try:
        return tuple(message.headers() or ())
    except (SystemError, UnicodeDecodeError):
        # The library cannot hand over a name that is not UTF-8; the row itself is kept.
        return UNREADABLE_HEADERS


def _timestamp_ms(message: Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else int(timestamp_ms)
