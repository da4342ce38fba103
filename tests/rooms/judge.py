"""Compares a table with its topic: rows of all files that the ledger holds, announced or not."""

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.live_files import LiveFiles
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord, Record

PARTITIONS = 4
Rows = Counter[tuple[int, ...]]
_PATIENCE_S = 120.0
_POLL_S = 0.2


@dataclass
class DrillResults:
    """What the drills of a case have shown; `wrong` has what must not be."""

    seconds: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    stranded: int = 0
    copies: int = 0
    zombie_commits: int = 0
    early_ready: int = 0
    announced: int = 0
    unannounced: int = 0
    late: int = 0
    confirmed: int = 0
    refused: int = 0
    cut: int = 0

    def add(self, kind: str, seconds: float) -> None:
        """Keep how long a room took that continues what another one has lost."""
        self.seconds.append(seconds)
        self.kinds[kind] += 1
        print(f"{kind}: {seconds:.1f} s", flush=True)

    def compare(self, wanted: Rows, found: Rows) -> None:
        """Add up rows that the table lacks, and rows that it has too often."""
        self.rows += found.total()
        self.lost += (wanted - found).total()
        self.doubled += (found - wanted).total()

    def check_order(self, records: Iterable[Record]) -> None:
        """Add up commits of terms that are over, and rows in hours that were announced before.

        A log without any announcement judges nothing, and counts as `unannounced`.
        """
        term, ready = 0, set[str]()
        for record in records:
            self.zombie_commits += record.term < term
            term = max(term, record.term)
            if isinstance(record.body, ReadyRecord):
                ready.add(record.body.prefix)
                self.announced += 1
            elif isinstance(record.body, DataRecord):
                folders = {each.final.rpartition("/")[0] for each in record.body.files}
                self.early_ready += len(folders & ready)
                self.late += int(record.body.counts.late)
        self.unannounced += not ready

    def as_json(self, case: str) -> dict[str, object]:
        """The last line of the programme."""
        seconds = sorted(self.seconds)
        at = max(0, -(-95 * len(seconds) // 100) - 1)
        return {
            "case": case,
            "drills": len(seconds),
            "rto_p50_s": round(statistics.median(seconds), 1),
            "rto_p95_s": round(seconds[at], 1),
            "rows": self.rows,
            "lost": self.lost,
            "doubled": self.doubled,
            "stranded": self.stranded,
            "drained": 0,
            "confirmed": self.confirmed,
            "refused": self.refused,
            "zombie_commits": self.zombie_commits,
            "early_ready": self.early_ready,
            "announced": self.announced,
            "unannounced": self.unannounced,
            "late": self.late,
            "kinds": dict(self.kinds),
            "methods": dict(self.methods),
            "copies_dropped": self.copies,
            "slots_cut": self.cut,
        }


def is_announced(records: Iterable[Record]) -> bool:
    """Whether one of them announces rows."""
    return any(isinstance(record.body, ReadyRecord) for record in records)


def committed_rows(log: LedgerLog, columns: str = "_partition, _offset, id") -> Rows:
    """Rows of the files that the ledger holds, late rows too; the files have their final names.

    Args:
        log: The route's log.
        columns: What is read of a row.
    """
    states = [replace(each) for each in log.fold().partitions.values() if each.files]
    live = LiveFiles(log, states)
    files = [file for state in states for file in live.of(state)]
    for record, _ in log.records():
        if isinstance(record.body, DataRecord):
            files += record.body.late_files
    paths = [str(Path(log.layout.table_root, file.final)) for file in files]
    if not paths:
        return Rows()
    query = f"SELECT {columns} FROM read_parquet(?, hive_partitioning=false, union_by_name=true)"  # noqa: S608
    with duckdb.connect() as base:
        return Rows(base.execute(query, [paths]).fetchall())


@dataclass(frozen=True, slots=True)
class CheckedTopic:
    """A topic as a reader of committed rows gets it."""

    servers: str
    topic: str

    def rows(self) -> Rows:
        """`(partition, offset, id)` of each row."""
        found, ended = Rows(), set[int]()
        with self._consumer() as consumer:
            consumer.assign([self._at(number) for number in range(PARTITIONS)])
            while len(ended) < PARTITIONS:
                for message in consumer.consume(10_000, 1.0):
                    number, offset = message.partition(), message.offset()
                    assert number is not None
                    if message.error() is not None:
                        ended.add(number)
                    else:
                        value = message.value()
                        assert value is not None
                        assert offset is not None
                        found[number, offset, json.loads(value)["id"]] += 1
        return found

    def wait_read(self, read_log: Callable[[], Fold], acknowledged: int) -> Rows:
        """Wait until the ledger has all rows of the topic, and return those.

        Args:
            read_log: Returns the fold up to the log's tail.
            acknowledged: How many rows there are at least. A broker that was cut off may answer
                with the log that it had then.
        """
        rows = Rows()

        def whole() -> bool:
            nonlocal rows
            rows = self.rows()
            return rows.total() >= acknowledged

        wait_for(whole, "all acknowledged rows")
        ends = {row[0]: row[1] for row in sorted(rows)}

        def is_read() -> bool:
            sources = read_log().sources
            return all(
                (known := sources.get((self.topic, number))) is not None and known.end > last
                for number, last in ends.items()
            )

        wait_for(is_read, "all rows committed")
        return rows

    def _at(self, number: int) -> TopicPartition:
        return TopicPartition(self.topic, number, 0)

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.servers,
            "group.id": f"{self.topic}-check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        try:
            yield consumer
        finally:
            consumer.close()


def wait_for(happened: Callable[[], object], what: str) -> None:
    """Wait until a call returns something true; an outage of the brokers is waited for."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            if happened():
                return
        except KafkaException:
            pass
        time.sleep(_POLL_S)
    raise AssertionError(f"not in {_PATIENCE_S:.0f} s: {what}")
