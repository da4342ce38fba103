"""Reads splits inside a task: whole fetches, little Python per record."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from sluiceway.errors import InvariantError, SourceUnavailableError
from sluiceway.observe.failpoints import edge
from sluiceway.sources.contract import (
    UNREADABLE_HEADERS,
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.kafka.consumer_cache import (
    ConsumerCache,
    ConsumerKey,
    LeasedConsumer,
    process_cache,
)
from sluiceway.sources.kafka.failures import (
    OFFSET_GONE,
    is_retried_by_library,
    kafka_error,
    task_failure,
)
from sluiceway.sources.kafka.fetch_result import Fetched, FetchEvent, LogRows
from sluiceway.sources.kafka.jump_check import check_jumps, lost_offset
from sluiceway.sources.kafka.log_cuts import cut_failure, log_cut
from sluiceway.sources.kafka.native_consumer import NativeConsumer
from sluiceway.sources.kafka.progress import SplitProgress

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
        """See `SourceBatch`; only the messages asked for are read."""
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


MAX_FETCH_ROWS: Final = 10_000
# A fetch waits this long to become full: the price of whole batches in freshness.
_FETCH_WAIT_S: Final = 0.05
# With large records fewer are fetched at once; the library itself counts records only.
_TARGET_FETCH_BYTES: Final = 16 * 1024 * 1024
_FIRST_FETCH_ROWS: Final = 1_000


class KafkaSplitReader(SplitReader):
    """One consumer for all splits of a task, lent by the process's cache.

    A split with a stop offset ends when a row at or above the stop was met, or the log's end at or
    above it. So it never waits for a row that a transaction marker replaced.

    Args:
        splits: Splits, at most one per source partition; of any topics.
        bootstrap_servers: The brokers, `host:port` with commas between.
        properties: The user's client properties, checked by `check_properties`.
        owner: Ledger uuid and term of the driver that planned the splits.
        cache: Where consumers rest between epochs; the process's own when left out.

    Raises:
        JobFileError: The library refuses the client properties.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        *,
        bootstrap_servers: str,
        properties: Mapping[str, str],
        owner: str,
        cache: ConsumerCache | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._properties = dict(properties)
        self._cache = cache or process_cache()
        holes = self._cache.logs_with_holes(bootstrap_servers)
        self._progress = [
            SplitProgress(split, has_holes=split.partition in holes) for split in splits
        ]
        self._indexes = {split.partition: index for index, split in enumerate(splits)}
        if len(self._indexes) < len(splits):
            raise InvariantError("a task was given two splits of one source partition")
        self._fetch_rows = _FIRST_FETCH_ROWS
        self._failed = False
        open_splits = [p.split for p in self._progress if not p.done]
        self._assigned = {split.partition for split in open_splits}
        self._leased: LeasedConsumer | None = None
        if open_splits:
            key = ConsumerKey(
                bootstrap_servers,
                tuple(sorted(properties.items())),
                frozenset(self._assigned),
                owner,
            )
            self._leased = self._cache.acquire(key, open_splits)

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """Return what has arrived; see the contract.

        Connections that are lost are made again by the library for ever; until then there is
        just nothing to return.

        Raises:
            SourceUnavailableError: The broker refused the login, or the end of a log could not
                be read.
            OffsetsLostError: The wanted offset is out of range, truncated or of another log.
            TaskFailedError: Offsets came that cannot be, or the topic is not there any more.
        """
        leased = self._leased
        if leased is None or self.finished():
            return []
        # Until all that was fetched is returned: rows in between are lost to this consumer.
        self._failed = True
        batches = self._read_until(leased, time.monotonic() + timeout_s)
        self._failed = False
        return batches

    def finished(self) -> bool:
        """True when every split has a stop offset and has reached it."""
        return all(progress.done for progress in self._progress)

    def ends(self) -> tuple[SplitEnd, ...]:
        """How far each split was read, in the order of the splits."""
        return tuple(progress.end() for progress in self._progress)

    def close(self, *, reusable: bool) -> None:
        """Give the consumer back to the cache, or close it. Safe to repeat.

        A consumer that held rows after a stop offset is closed in any case: they came off its queue
        and were not returned.
        """
        leased, self._leased = self._leased, None
        if leased is None:
            return
        if not reusable or self._failed or any(p.overran for p in self._progress):
            self._cache.discard(leased)
            return
        ends = {p.split.partition: p.next_offset for p in self._progress}
        self._cache.release(leased, {one: ends[one] for one in self._assigned})

    def _read_until(self, leased: LeasedConsumer, deadline_s: float) -> list[SourceBatch]:
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            batches = self._make_batches(leased, self._fetch(leased, min(_FETCH_WAIT_S, left_s)))
            if batches or self.finished():
                leased.trouble.clear()
                return batches
            if time.monotonic() >= deadline_s:
                _assert_login(leased)
                return []

    def _fetch(self, leased: LeasedConsumer, wait_s: float) -> Fetched:
        consumer = leased.consumer
        try:
            with edge("kafka.consume", self._assigned):
                if isinstance(consumer, NativeConsumer):
                    return consumer.fetch(self._fetch_rows, wait_s, self._indexes)
                return fetch_messages(consumer, self._fetch_rows, wait_s, self._indexes)
        except KafkaException as failure:
            raise task_failure(kafka_error(failure), leased.key.bootstrap_servers) from failure

    def _make_batches(self, leased: LeasedConsumer, fetched: Fetched) -> list[SourceBatch]:
        """Make batches of a fetch, note how far it went and check what is doubtful."""
        batches: list[SourceBatch] = [
            batch
            for index, rows in fetched.rows
            if (batch := self._make_batch(index, rows)) is not None
        ]
        for event in fetched.events:
            self._handle_event(leased, event)
        self._check_jumps()
        self._drop_done(leased)
        return batches

    def _make_batch(self, index: int, rows: LogRows) -> SourceBatch | None:
        progress = self._progress[index]
        kept = progress.count(rows.offsets)
        if kept == 0:
            return None
        if kept < len(rows.offsets):
            rows.cut(kept)
        progress.set_leader_epoch(int(rows.offsets[-1]), rows.leader_epoch())
        self._fetch_rows = min(MAX_FETCH_ROWS, _TARGET_FETCH_BYTES // (rows.mean_bytes() + 1) + 1)
        return rows.batch(index, progress.split.partition)

    def _handle_event(self, leased: LeasedConsumer, event: FetchEvent) -> None:
        partition, error = event.partition, event.error
        index = self._indexes.get(partition)
        if index is None:
            if not is_retried_by_library(error):
                raise task_failure(error, str(partition))
        elif error.name() == "_PARTITION_EOF":
            self._progress[index].reach_end(event.offset)
        elif error.name() in OFFSET_GONE:
            progress = self._progress[index]
            cut = log_cut(error.str())
            if cut is not None:
                raise cut_failure(leased.consumer, progress.split, cut)
            raise lost_offset(leased.consumer, partition, progress.next_offset, error.str())
        elif not is_retried_by_library(error):
            raise task_failure(error, str(partition))

    def _check_jumps(self) -> None:
        jumps = {p.split.partition: found for p in self._progress if (found := p.pop_jumps())}
        if jumps:
            check_jumps(self._bootstrap_servers, self._properties, jumps)
            self._cache.logs_with_holes(self._bootstrap_servers).update(jumps)

    def _drop_done(self, leased: LeasedConsumer) -> None:
        """Take logs that are read to their stop off the consumer: they cost nothing any more."""
        done = {p.split.partition for p in self._progress if p.done} & self._assigned
        if done:
            leased.consumer.incremental_unassign(
                [TopicPartition(one.topic, one.partition) for one in done]
            )
            self._assigned -= done


def _assert_login(leased: LeasedConsumer) -> None:
    if leased.trouble.login:
        raise SourceUnavailableError(
            f"authentication failed: {leased.trouble.login}",
            where=leased.key.bootstrap_servers,
            hint="check the connection's security.protocol, sasl.* and ssl.* properties",
        )
