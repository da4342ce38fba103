"""A stream of changes as Debezium writes it, made by a rule, and what a table holds after it.

First all rows as a snapshot reads them (`op: r`), then updates, deletes and inserts of keys chosen
at random over the whole table. A row is a function of its key and of how often it was changed, so
what a table has to hold is known by the keys alone.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer

UPDATED, DELETED = 0.7, 0.8
STATUSES = ("created", "paid", "packed", "sent")
COLUMNS = {
    "id": "bigint",
    "customer": "bigint",
    "status": "string",
    "city": "string",
    "quantity": "int",
    "amount": "decimal(18,2)",
    "paid": "boolean",
    "updated_ms": "bigint",
    "note": "string",
}
_MASK = 0xFFFFFFFF
_AT_MS = 1_700_000_000_000
_ACK_S = 120.0


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the topic.

    Attributes:
        changed_bytes: Of what the database changed: the row that is left, or the key of a delete.
    """

    key: int
    value: bytes
    changed_bytes: int


@dataclass(frozen=True, slots=True)
class Held:
    """What a table has to hold, in sums that every engine can make."""

    rows: int
    ids: int
    quantities: int
    cents: int
    updated_ms: int
    note_letters: int


def row_text(key: int, version: int) -> str:
    """A row as JSON, after so many changes."""
    mixed = (key * 2_654_435_761 + version * 40_503_917) & _MASK
    row = {
        "id": key,
        "customer": key * 7_919 % 100_003,
        "status": STATUSES[version % len(STATUSES)],
        "city": f"city-{key % 50}",
        "quantity": quantity(key, version),
        "amount": f"{cents(key, version) // 100}.{cents(key, version) % 100:02}",
        "paid": version % 2 == 1,
        "updated_ms": updated_ms(key, version),
        "note": note(key, mixed),
    }
    return json.dumps(row, separators=(",", ":"))


def quantity(key: int, version: int) -> int:
    """Of a row."""
    return (key + version) % 100


def cents(key: int, version: int) -> int:
    """Its amount."""
    return (key * 31 + version * 1_717) % 1_000_000


def updated_ms(key: int, version: int) -> int:
    """When it was changed."""
    return _AT_MS + version * 1_000 + key % 1_000


def note(key: int, mixed: int) -> str:
    """Text that does not compress to nothing, of a length that its key says."""
    return f"{mixed:08x}-{mixed * 48_271 & _MASK:08x}-{mixed * 69_621 & _MASK:08x}"[: 18 + key % 9]


class ChangeStream:
    """Makes changes, one behind the other.

    Args:
        rows: With which the table begins; their keys are 1 to this.
        seed: Of the choices.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a load
        self._versions = dict.fromkeys(range(1, rows + 1), 0)
        self._ids = list(self._versions)
        self._next = rows + 1

    def snapshot(self) -> Iterator[Change]:
        """The rows with which it begins."""
        for key in tuple(self._versions):
            text = row_text(key, 0)
            yield self._told("r", key, "null", text)

    def changes(self, count: int) -> Iterator[Change]:
        """The next ones."""
        for _ in range(count):
            yield self._change()

    def _change(self) -> Change:
        chance = self._random.random()
        if chance >= DELETED or not self._ids:
            key = self._next
            self._next += 1
            self._versions[key] = 0
            self._ids.append(key)
            return self._told("c", key, "null", row_text(key, 0))
        place = self._random.randrange(len(self._ids))
        key = self._ids[place]
        version = self._versions[key]
        before = row_text(key, version)
        if chance < UPDATED:
            self._versions[key] = version + 1
            return self._told("u", key, before, row_text(key, version + 1))
        del self._versions[key]
        self._ids[place] = self._ids[-1]
        self._ids.pop()
        return self._told("d", key, before, "null")

    @staticmethod
    def _told(operation: str, key: int, before: str, after: str) -> Change:
        value = f'{{"before":{before},"after":{after},"op":"{operation}"}}'.encode()
        changed = len(after) if operation != "d" else len(key_text(key))
        return Change(key, value, changed)

    def held(self) -> Held:
        """What the table has to hold by now."""
        versions = self._versions.items()
        return Held(
            rows=len(versions),
            ids=sum(self._versions),
            quantities=sum(quantity(key, version) for key, version in versions),
            cents=sum(cents(key, version) for key, version in versions),
            updated_ms=sum(updated_ms(key, version) for key, version in versions),
            note_letters=sum(len(note(key, 0)) for key in self._versions),
        )


HELD_SQL = (
    "SELECT count(*), sum(id), sum(quantity), cast(sum(amount) * 100 AS bigint), sum(updated_ms), "
    "sum(length(note)), sum(customer), sum(length(status)), sum(length(city)), "
    "sum(CASE WHEN paid THEN 1 ELSE 0 END) FROM {table}"
)
"""Reads every column; the first six numbers are those of `Held`."""


def key_text(key: int) -> str:
    """A record's own key."""
    return f'{{"id":{key}}}'


class ChangeProducer:
    """Puts changes into a topic; all of one key into one partition."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
            }
        )

    def send(self, change: Change) -> None:
        """Hand one over."""
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    change.value,
                    key_text(change.key),
                    change.key % self._partitions,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.5)
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def finish(self) -> None:
        """Wait until all are acknowledged.

        Raises:
            RuntimeError: One is not.
        """
        left = self._producer.flush(_ACK_S)
        if left or self._failures:
            raise RuntimeError(f"{left} changes not acknowledged: {self._failures[:1]}")
