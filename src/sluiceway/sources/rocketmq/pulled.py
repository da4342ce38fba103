"""Pulls of one queue through the native module: rows as buffers, no object per message.

It takes pulls of plain messages only, whole and without holes. `messages.read_messages` reads the
others, with the same outcome for what both can take.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from sluiceway.host.native_module import native_module
from sluiceway.sources.contract import Headers, RawRecords, SourceBatch, SourcePartition
from sluiceway.sources.rocketmq.codes import PULL_SUBSCRIPTION, PULL_SUSPEND
from sluiceway.sources.rocketmq.messages import (
    StoredMessage,
    mark_of,
    properties_headers,
    property_of,
)
from sluiceway.sources.rocketmq.routes import queue_of

_KEYS: Final = "KEYS"


class PulledRows:
    """Rows of one queue that the native module has taken and `read` has not returned.

    Args:
        module: The native module.
        partition: The queue.
    """

    def __init__(self, module: Any, partition: SourcePartition) -> None:
        self._partition = partition
        self._queue = queue_of(partition)[1]
        self._pulls = module.Pulls(partition.topic, self._queue)

    def __len__(self) -> int:
        return len(self._pulls)

    @property
    def body_bytes(self) -> int:
        """Bytes of their bodies."""
        return int(self._pulls.body_bytes)

    def read(self, pull: bytes, first: int, stop: int | None) -> tuple[int, int] | None:
        """Take a pull's messages from an offset on, as far as they are below `stop`.

        Returns:
            How many were taken, and the mark of the last; None when the pull is in doubt, and
            nothing of it was taken.
        """
        # The slow path refuses offsets below 0, which no queue has.
        found = self._pulls.take(pull, first, stop) if first >= 0 else None
        if found is None:
            return None
        count, stored_ms, physical = found
        return count, mark_of(stored_ms, physical)

    def batch(self, split_index: int, record_time: Literal["stored", "born"]) -> SourceBatch:
        """All rows, which are handed over by it."""
        records, born = self._pulls.hand_over()
        return PulledBatch(
            split_index, self._partition, records, born if record_time == "born" else None
        )

    def messages(self) -> list[StoredMessage]:
        """All rows as single messages, handed over by it; `physical` is not known of them."""
        records, born = self._pulls.hand_over()
        places = zip(
            np.frombuffer(records.offsets(), np.int64).tolist(),
            np.frombuffer(born, np.int64).tolist(),
            np.frombuffer(records.timestamps_ms(), np.int64).tolist(),
            strict=True,
        )
        return [
            StoredMessage(
                self._queue,
                offset,
                0,
                born_ms,
                stored_ms,
                self._partition.topic,
                records[row],
                records.key(row),
                readable=True,
            )
            for row, (offset, born_ms, stored_ms) in enumerate(places)
        ]


def pulled_rows(partition: SourcePartition) -> PulledRows | None:
    """Takes pulls of a queue; None without the native module. Called once a split."""
    module = native_module()
    return None if module is None else PulledRows(module, partition)


class PulledBatch(SourceBatch):
    """Messages of one split as buffers; rows are taken out when asked for.

    Args:
        split_index: Which of the reader's splits.
        partition: The queue.
        records: Records of the native module; the key of each is its properties.
        born: The producers' times as int64, when they are the rows' times.
    """

    def __init__(
        self, split_index: int, partition: SourcePartition, records: Any, born: bytes | None
    ) -> None:
        self.split_index = split_index
        self.values = records
        self.offsets: npt.NDArray[np.int64] = np.frombuffer(records.offsets(), np.int64)
        self._partition = partition
        self._records = records
        self._born = born
        self._times: npt.NDArray[np.int64] | None = None

    def timestamps_ms(self) -> Sequence[int | None]:
        """Store times, or the producers' times; see `RocketMqOptions.record_time`."""
        if self._times is None:
            raw = self._records.timestamps_ms() if self._born is None else self._born
            self._times = np.frombuffer(raw, np.int64)
        return self._times  # type: ignore[return-value]

    def value_bytes(self) -> int:
        """See `SourceBatch`; the buffer knows."""
        return int(self._records.value_bytes)

    def keys(self) -> Sequence[bytes | None]:
        """Keys of all rows."""
        return [property_of(self._records.key(row), _KEYS) for row in range(len(self._records))]

    def headers(self) -> Sequence[Headers]:
        """Properties of all rows."""
        return [properties_headers(self._records.key(row)) for row in range(len(self._records))]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """All that the queue has of these rows."""
        found, times = self._records, np.asarray(self.timestamps_ms())
        return RawRecords(
            topics=[self._partition.topic] * len(rows),
            partitions=[self._partition.partition] * len(rows),
            offsets=np.take(self.offsets, rows).tolist(),
            timestamps_ms=np.take(times, rows).tolist(),
            keys=[property_of(found.key(row), _KEYS) for row in rows],
            values=[found[row] for row in rows],
            headers=[properties_headers(found.key(row)) for row in rows],
        )


READER_GROUP: Final = "SLUICEWAY_READER"
"""Brokers want a group's name in each pull. Nothing is stored under it; it has no members."""
MAX_MESSAGES: Final = 1024


def queue_fields(partition: SourcePartition) -> dict[str, object]:
    """Topic and queue, as most requests of a broker name them."""
    _, queue = queue_of(partition)
    return {"topic": partition.topic, "queueId": queue}


def pull_fields(
    partition: SourcePartition, offset: int, *, wait_ms: int, messages: int = MAX_MESSAGES
) -> dict[str, object]:
    """A pull of a queue from an offset on.

    All messages are asked for, whatever tags are wanted. A broker compares hashes of tags only, and
    what it leaves out looks like what is gone.

    Args:
        partition: The queue.
        offset: First offset.
        wait_ms: How long the broker keeps the request when there is nothing.
        messages: At most; brokers have a bound of their own.
    """
    flags = PULL_SUBSCRIPTION | (PULL_SUSPEND if wait_ms else 0)
    return {
        **queue_fields(partition),
        "consumerGroup": READER_GROUP,
        "queueOffset": offset,
        "maxMsgNums": messages,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": wait_ms,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
