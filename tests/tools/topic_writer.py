"""Writes Kafka topics for tests: plain, in transactions, and with every kind of record."""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_FLUSH_TIMEOUT_S = 180.0
_LARGEST_RECORD_BYTES = 12_000_000
# As long as a broker lets it: one that is left open is not to be ended by the broker.
_OPEN_MS = 900_000


class TopicWriter:
    """A producer that waits until the broker has everything."""

    def __init__(self, bootstrap_servers: str, *, codec: str = "none") -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": codec,
            "message.max.bytes": _LARGEST_RECORD_BYTES,
            "log_level": 0,
        }
        self._producer = Producer(self._settings)
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._transactions: Producer | None = None
        self._known: set[tuple[str, int]] = set()

    def write(self, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> None:
        """Append rows without a key; waits for a partition that was just made."""
        self._meet(topic, partition)
        for value in values:
            self._producer.produce(topic, value, partition=partition)
            self._producer.poll(0)
        _flush(self._producer)

    def _meet(self, topic: str, partition: int) -> None:
        """A broker may not know yet what its controller has just made."""
        until = time.monotonic() + _FLUSH_TIMEOUT_S
        while partition and (topic, partition) not in self._known:
            found = self._producer.list_topics(topic, timeout=_FLUSH_TIMEOUT_S).topics[topic]
            self._known.update((topic, number) for number in found.partitions)
            if (topic, partition) in self._known:
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{topic} has no partition {partition}")
            time.sleep(0.1)

    def write_keyed(
        self, topic: str, rows: Iterable[tuple[bytes, bytes | None]], *, partition: int = 0
    ) -> None:
        """Append rows with keys."""
        for key, value in rows:
            self._producer.produce(topic, value, key=key, partition=partition)
        _flush(self._producer)

    def write_record(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int = 0,
    ) -> None:
        """Append one row with all that a record may have, to partition 0."""
        self._producer.produce(
            topic, value, key=key, partition=0, headers=headers or [], timestamp=timestamp_ms
        )
        _flush(self._producer)

    @contextmanager
    def transaction(self, topic: str, values: Iterable[bytes]) -> Iterator[Producer]:
        """Append rows to partition 0 in a transaction that the block commits, aborts or leaves."""
        producer = self._new_transactional()
        _begin(producer, topic, values)
        yield producer

    def commit(self, topic: str, values: Iterable[bytes]) -> None:
        """Append rows in a committed transaction; the log grows by one more, its marker."""
        producer = self._transactions = self._transactions or self._new_transactional()
        _begin(producer, topic, values)
        producer.commit_transaction(_FLUSH_TIMEOUT_S)
        self._wait_for_marker(topic)

    def abort(self, topic: str, values: Iterable[bytes]) -> None:
        """Append rows in an aborted transaction; the log grows by one more, its marker."""
        producer = self._transactions = self._transactions or self._new_transactional()
        _begin(producer, topic, values)
        producer.abort_transaction(_FLUSH_TIMEOUT_S)
        self._wait_for_marker(topic)

    def _new_transactional(self) -> Producer:
        settings = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": _OPEN_MS}
        producer = Producer(self._settings | settings)
        producer.init_transactions(_FLUSH_TIMEOUT_S)
        return producer

    def _wait_for_marker(self, topic: str) -> None:
        """Wait until the log holds the marker: the coordinator answers before it writes it."""
        deadline_s = time.monotonic() + _FLUSH_TIMEOUT_S
        while self._end(topic, IsolationLevel.READ_COMMITTED) < self._end(
            topic, IsolationLevel.READ_UNCOMMITTED
        ):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{topic}: no marker in {_FLUSH_TIMEOUT_S:.0f} s")

    def _end(self, topic: str, isolation_level: IsolationLevel) -> int:
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
        (answer,) = self._admin.list_offsets(asked, isolation_level=isolation_level).values()
        return int(answer.result(_FLUSH_TIMEOUT_S).offset)


def _begin(producer: Producer, topic: str, values: Iterable[bytes]) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    _flush(producer)


def _flush(producer: Producer) -> None:
    left = producer.flush(_FLUSH_TIMEOUT_S)
    if left:
        raise TimeoutError(f"{left} records were not written in {_FLUSH_TIMEOUT_S:.0f} s")
