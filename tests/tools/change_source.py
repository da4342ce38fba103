"""A database of one table that sends its changes as Debezium does, and what it holds by then."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from confluent_kafka import Producer

Change = tuple[bytes, bytes | None]
Row = dict[str, object]

KEYED_COLUMNS = """\
    - {name: id, type: bigint}
    - {name: name, type: string}
    - {name: amount, type: "decimal(18,2)"}
    - {name: city, type: string}"""


@dataclass(slots=True)
class ChangeSource:
    """Rows by id, and records of their changes by partition.

    Attributes:
        rows: As the database has them.
        log: Records that were not taken yet, by partition.
        partitions: Records go by their key, as the connector's producer has it.
    """

    seed: int
    partitions: int = 1
    rows: dict[int, Row] = field(default_factory=dict)
    log: dict[int, list[Change]] = field(default_factory=dict)
    tell_before: bool = True
    with_schema: bool = False
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a game

    def change(self, count: int, ids: int = 50) -> None:
        """So many random changes of rows with ids below `ids`."""
        for _ in range(count):
            row = self.random.randrange(ids)
            if row not in self.rows:
                self.insert(row)
            else:
                act = self.random.choice(
                    (self.update, self.update, self.update, self.delete, self.move)
                )
                act(row)

    def insert(self, row_id: int, *, op: str = "c") -> None:
        self.rows[row_id] = self._values(row_id)
        self._tell(row_id, op, None, self.rows[row_id])

    def update(self, row_id: int) -> None:
        before, self.rows[row_id] = self.rows[row_id], self._values(row_id)
        self._tell(row_id, "u", before, self.rows[row_id])

    def delete(self, row_id: int) -> None:
        self._tell(row_id, "d", self.rows.pop(row_id), None)
        self._put(row_id, None)

    def move(self, row_id: int) -> None:
        """Change a row's key: a delete and an insert, as Debezium sends it."""
        new = self.random.randrange(1000, 2000)
        if new in self.rows:
            return
        before = self.rows.pop(row_id)
        self._tell(row_id, "d", before, None)
        self._put(row_id, None)
        self.rows[new] = {**before, "id": new}
        self._tell(new, "c", None, self.rows[new])

    def take(self) -> dict[int, list[Change]]:
        """What was not taken yet."""
        taken, self.log = self.log, {}
        return taken

    def wanted(self) -> list[tuple[object, ...]]:
        """What a reader of the table has to find."""
        return sorted((r["id"], r["name"], r["amount"], r["city"]) for r in self.rows.values())

    def _values(self, row_id: int) -> Row:
        cents = self.random.randrange(100_000)
        return {
            "id": row_id,
            "name": f"n{self.random.randrange(10**6)}",
            "amount": f"{cents // 100}.{cents % 100:02}",
            "city": self.random.choice(("Berlin", "Köln", "上海")),
        }

    def _tell(self, row_id: int, op: str, before: Row | None, after: Row | None) -> None:
        event: dict[str, object] = {
            "before": before if self.tell_before else None,
            "after": after,
            "source": {"snapshot": "false", "table": "t"},
            "op": op,
            "ts_ms": 1_760_000_000_000,
        }
        self._put(row_id, event)

    def _put(self, row_id: int, event: dict[str, object] | None) -> None:
        key: dict[str, object] = {"id": row_id}
        if self.with_schema:
            key = {"schema": {"type": "struct"}, "payload": key}
            event = event and {"schema": {"type": "struct"}, "payload": event}
        name = json.dumps(key).encode()
        record = None if event is None else json.dumps(event, ensure_ascii=False).encode()
        self.log.setdefault(crc32(name) % self.partitions, []).append((name, record))


@dataclass(slots=True)
class RowSource(ChangeSource):
    """One whose records are whole rows, and null behind a delete: a compacted topic.

    Attributes:
        form: Of the values: `json`, or `csv`.
        bare_key: Makes the key of an id; None for an object of JSON. Rows have the id nowhere else
            then.
    """

    form: str = "json"
    bare_key: Callable[[int], bytes] | None = None

    def _tell(self, row_id: int, op: str, before: Row | None, after: Row | None) -> None:
        # A delete is the null that comes after it.
        if op != "d":
            self._put(row_id, after)

    def _put(self, row_id: int, event: Row | None) -> None:
        record = None if event is None else self._record(event).encode()
        if self.bare_key is None:
            key = json.dumps({"id": row_id}).encode()
        else:
            key = self.bare_key(row_id)
        self.log.setdefault(crc32(key) % self.partitions, []).append((key, record))

    def _record(self, row: Row) -> str:
        told = {name: value for name, value in row.items() if self.bare_key is None or name != "id"}
        if self.form == "csv":
            return ",".join(map(str, told.values()))
        return json.dumps(told, ensure_ascii=False)


def tell(bootstrap_servers: str, topic: str, log: dict[int, list[Change]]) -> None:
    """Write records so that each partition keeps their order whatever is sent again."""
    settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    for partition, records in log.items():
        for key, value in records:
            producer.produce(topic, value, key=key, partition=partition)
    assert producer.flush(60.0) == 0
