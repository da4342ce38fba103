"""A consumer through the native module: fetches as buffers, no object per message.

It drives the librdkafka that confluent-kafka brings along, with the same settings; errors are
confluent-kafka's. Only what reading needs is there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sluiceway.host.native_module import native_module
from sluiceway.sources.contract import (
    UNREADABLE_HEADERS,
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
)
from sluiceway.sources.kafka.fetch_result import Fetched, FetchEvent, LogRows
from sluiceway.types.payloads import JoinedPayloads

_UNKNOWN = -1
_Failure = tuple[int, str]


class NativeBatch(SourceBatch):
    """Records of one split from one fetch, as buffers; rows are taken out when asked for."""

    __slots__ = ("_partition", "_records", "_times", "offsets", "split_index", "values")

    def __init__(self, split_index: int, partition: SourcePartition, rows: "FetchedRows") -> None:
        self.split_index = split_index
        self.values = rows.records
        self.offsets = rows.offsets
        self._partition = partition
        self._records = rows.records
        self._times: Sequence[int | None] | None = None

    def timestamps_ms(self) -> Sequence[int | None]:
        """Record times in row order."""
        # Kept, since columns, event times and dirty rows ask for them.
        if self._times is None:
            self._times = _known_times(np.frombuffer(self._records.timestamps_ms(), np.int64))
        return self._times

    def value_bytes(self) -> int:
        """See `SourceBatch`; the buffer knows."""
        return int(self._records.value_bytes)

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        times, found = self.timestamps_ms(), self._records
        return RawRecords(
            topics=[self._partition.topic] * len(rows),
            partitions=[self._partition.partition] * len(rows),
            offsets=np.take(self.offsets, rows).tolist(),
            timestamps_ms=[None if (time := times[row]) is None else int(time) for row in rows],
            keys=[found.key(row) for row in rows],
            values=[found[row] for row in rows],
            headers=[_headers(found.headers(row)) for row in rows],
        )

    def keys(self) -> JoinedPayloads:
        """Record keys in row order, as buffers."""
        return JoinedPayloads([self._records.keys()])

    def may_have_headers(self) -> bool:
        """See `SourceBatch`; the buffer knows."""
        return bool(self._records.has_headers)

    def headers(self) -> list[Headers]:
        """Headers in row order."""
        return [_headers(self._records.headers(row)) for row in range(len(self._records))]


class FetchedRows(LogRows):
    """Rows of one log in the native module's buffers."""

    def __init__(self, records: Any) -> None:
        self.records = records
        self.offsets = np.frombuffer(records.offsets(), np.int64)

    def cut(self, count: int) -> None:
        """See `LogRows.cut`."""
        self.records.truncate(count)
        self.offsets = self.offsets[:count]

    def leader_epoch(self) -> int | None:
        """See `LogRows.leader_epoch`."""
        epoch: int = self.records.leader_epoch(len(self.records) - 1)
        return None if epoch == _UNKNOWN else epoch

    def mean_bytes(self) -> int:
        """See `LogRows.mean_bytes`."""
        return int(self.records.value_bytes // len(self.records))

    def batch(self, split_index: int, partition: SourcePartition) -> SourceBatch:
        """See `LogRows.batch`."""
        return NativeBatch(split_index, partition, self)


class NativeConsumer:
    """A consumer that is assigned its logs. Used by one thread at a time.

    Args:
        module: The native module.
        library: Path of librdkafka.
        settings: Settings as `consumer_settings` makes them.

    Raises:
        KafkaException: The library refuses a setting.
    """

    def __init__(self, module: Any, library: str, settings: Mapping[str, Any]) -> None:
        self._on_error: Callable[[KafkaError], None] = settings["error_cb"]
        plain = [(n, _text(v)) for n, v in settings.items() if n not in ("error_cb", "logger")]
        try:
            self._consumer = module.Consumer(library, plain)
        except ValueError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error  # noqa: SLF001

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read these logs and no others, each from its offset."""
        wanted = [
            (p.topic, p.partition, p.offset, _UNKNOWN if p.leader_epoch is None else p.leader_epoch)
            for p in places
        ]
        _raise(self._consumer.assign(wanted))

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        """Stop reading these logs."""
        _raise(self._consumer.incremental_unassign([(p.topic, p.partition) for p in places]))

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        """First offset and end of a log, from its leader."""
        low, high, failure = self._consumer.watermarks(
            place.topic, place.partition, int(timeout * 1000)
        )
        _raise(failure)
        return low, high

    def fetch(self, most: int, wait_s: float, indexes: Mapping[SourcePartition, int]) -> Fetched:
        """Take what has arrived.

        Args:
            most: Greatest number of messages.
            wait_s: How long to wait for that many.
            indexes: Splits by their logs.
        """
        records, events = self._consumer.fetch(most, int(wait_s * 1000))
        for code, reason in self._consumer.failures():
            self._on_error(KafkaError(code, reason))
        return Fetched(
            [(indexes[SourcePartition(r.topic, r.partition)], FetchedRows(r)) for r in records],
            [
                FetchEvent(SourcePartition(topic, number), offset, KafkaError(code, text))
                for topic, number, offset, code, text in events
            ],
        )

    def close(self) -> None:
        """Leave the brokers. Safe to repeat."""
        self._consumer.close()


def native_consumer(settings: Mapping[str, Any]) -> NativeConsumer | None:
    """Make a consumer through the native module. Called when a consumer is needed.

    Returns:
        None where the module, or a library that it can drive, is not there.

    Raises:
        KafkaException: The library refuses a setting.
    """
    module = native_module()
    library = _bundled_library() if module is not None else None
    return NativeConsumer(module, library, settings) if library is not None else None


@cache
def _bundled_library() -> str | None:
    """The librdkafka that confluent-kafka has loaded, if that is the one of its own wheel."""
    module = native_module()
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(str(path) for path in folder.glob("librdkafka*.so*"))
    if module is None or len(found) != 1:
        return None
    _, loaded = confluent_kafka.libversion()
    return found[0] if module.Consumer.library_version(found[0]) == loaded else None


def _known_times(times: npt.NDArray[np.int64]) -> Sequence[int | None]:
    if len(times) and times.min() >= 0:
        return times  # type: ignore[return-value]
    return [None if time < 0 else time for time in times.tolist()]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _raise(failure: _Failure | None) -> None:
    if failure is not None:
        raise KafkaException(KafkaError(*failure))


def _headers(raw: Sequence[tuple[bytes, bytes | None]]) -> Headers:
    try:
        return tuple((name.decode(), value) for name, value in raw)
    except UnicodeDecodeError:
        return UNREADABLE_HEADERS
