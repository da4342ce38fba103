"""Messages of one queue as rows of the engine."""

from collections.abc import Sequence
from typing import Literal

from sluiceway.sources.contract import Headers, RawRecords, SourceBatch, SourcePartition
from sluiceway.sources.rocketmq.messages import StoredMessage


class QueueBatch(SourceBatch):
    """Messages of one split.

    A message's keys (its property KEYS) are the row's key; its properties are the headers.

    Args:
        split_index: Which of the reader's splits.
        partition: The queue.
        messages: Offsets rising.
        record_time: Which of a message's times is the row's.
    """

    def __init__(
        self,
        split_index: int,
        partition: SourcePartition,
        messages: Sequence[StoredMessage],
        record_time: Literal["stored", "born"],
    ) -> None:
        self.split_index = split_index
        self.values = [each.body for each in messages]
        self.offsets = [each.offset for each in messages]
        self._partition = partition
        self._messages = messages
        self._record_time = record_time

    def timestamps_ms(self) -> Sequence[int | None]:
        """Store times, or the producers' times; see `RocketMqOptions.record_time`."""
        if self._record_time == "born":
            return [each.born_ms for each in self._messages]
        return [each.stored_ms for each in self._messages]

    def keys(self) -> Sequence[bytes | None]:
        """Keys of all rows."""
        return [each.property_bytes("KEYS") for each in self._messages]

    def headers(self) -> Sequence[Headers]:
        """Properties of all rows."""
        return [each.headers() for each in self._messages]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """All that the queue has of these rows."""
        found = [self._messages[row] for row in rows]
        times = self.timestamps_ms()
        return RawRecords(
            topics=[self._partition.topic] * len(found),
            partitions=[self._partition.partition] * len(found),
            offsets=[each.offset for each in found],
            timestamps_ms=[times[row] for row in rows],
            keys=[each.property_bytes("KEYS") for each in found],
            values=[each.body for each in found],
            headers=[each.headers() for each in found],
        )
