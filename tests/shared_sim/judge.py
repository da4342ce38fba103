"""Whether each table has each of its rows once, by the topic and the files alone."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from shared_sim.source import TOPIC, Topic
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.sources.contract import SourcePartition
from sluiceway.storage.local import LocalStorage

Row = tuple[SourcePartition, int]
"""Source partition and offset."""


class ViolationError(Exception):
    """A promise was broken."""


@dataclass(slots=True)
class _Table:
    """What the ledger of a table has so far.

    Attributes:
        starts: Where its ranges begin; `ends` where they end.
    """

    log: LedgerLog
    root: Path
    read: int = 0
    starts: dict[SourcePartition, int] = field(default_factory=dict)
    ends: dict[SourcePartition, int] = field(default_factory=dict)


def table_of(kind: object) -> str:
    """The table that a value names; empty where it names none."""
    if not isinstance(kind, str) or "/" in kind:
        return ""
    return kind.replace("-", "_").replace(".", "_").lower()


class Judge:
    """Reads each record once, while its files are there, and all tables at the end.

    Args:
        lake: The tables' place.
        topic: What should be in them.
        most: Most tables that values name.
    """

    def __init__(self, lake: Path, topic: Topic, most: int) -> None:
        self._lake = lake
        self._topic = topic
        self._most = most
        self._tables: dict[str, _Table] = {}

    def check(self) -> None:
        """Judge the records that are new.

        Raises:
            ViolationError: One has other rows than its ranges say.
        """
        for name in self._found():
            table = self._tables[name]
            for record, _ in table.log.records(table.read):
                table.read = record.seq + 1
                if isinstance(record.body, DataRecord):
                    self._judge(name, table, record.body)

    def check_end(self) -> None:
        """Judge the tables when all was read.

        Raises:
            ViolationError: A row is missing, there twice, or in another's table.
        """
        self.check()
        named = [
            name for name in self._tables if name.startswith("dwd.") and "unrouted" not in name
        ]
        kinds = {
            table_of(row.get("kind"))
            for one, log in self._topic.logs.items()
            if one.topic == TOPIC
            for row in map(_row, log)
        }
        wanted = {f"dwd.{kind}" for kind in kinds if kind}
        if len(wanted) <= self._most and wanted - set(named):
            raise ViolationError(f"no tables {sorted(wanted - set(named))}")
        for name, table in self._tables.items():
            for partition, log in self._topic.logs.items():
                if partition.topic != TOPIC and name != "ods.raw":
                    continue
                end = table.ends.get(partition, table.starts.get(partition, 0))
                left = [n for n in range(end, len(log)) if self._is_of(name, log[n])]
                if left:
                    raise ViolationError(f"{name}: rows {left} of {partition} are never read")
            found = Counter(_rows(sorted(table.root.glob("*.parquet"))))
            expected = Counter(self._expected(name, table.starts, table.ends))
            self._compare(name, "its files", found, expected)
            if name in named:
                first = {n: self._first(name, n) for n in self._topic.logs if n.topic == TOPIC}
                late = {n: at for n, at in first.items() if at is not None
                        and at < table.starts.get(n, 0)}  # fmt: skip
                if late and len(wanted) <= self._most:
                    raise ViolationError(f"{name}: begins after its first rows {late}")

    def _found(self) -> list[str]:
        for place in sorted(self._lake.glob("*.db/*/_sluiceway/*/log")):
            root = place.parents[2]
            name = f"{root.parent.name.removesuffix('.db')}.{root.name}"
            if name not in self._tables:
                layout = LedgerLayout(str(root), place.parent.name)
                self._tables[name] = _Table(LedgerLog(LocalStorage(), layout), root)
        return sorted(self._tables)

    def _judge(self, name: str, table: _Table, body: DataRecord) -> None:
        read = {SourcePartition(each.topic, each.partition): each for each in body.ranges}
        starts = {one: int(each.start) for one, each in read.items()}
        ends = {one: int(each.end) for one, each in read.items()}
        for partition, start in starts.items():
            known = table.ends.get(partition)
            if known is not None and known != start:
                raise ViolationError(f"{name}: {partition} goes on at {start}, it was at {known}")
            table.starts.setdefault(partition, start)
        table.ends |= ends
        stage = Path(table.log.layout.stage)
        files = []
        for each in body.files:
            staged, final = stage / each.staged, table.root / each.final
            files.append(staged if staged.exists() else final)
        expected = Counter(self._expected(name, starts, ends))
        self._compare(name, f"epoch {body.epoch}", Counter(_rows(files)), expected)
        dirty = sum(
            self._is_dirty(name, log_row)
            for partition, start in starts.items()
            for log_row in self._topic.logs[partition][start : ends[partition]]
        )
        if dirty != int(body.counts.dirty) and not self._may_overflow(name):
            raise ViolationError(f"{name}: {int(body.counts.dirty)} dirty rows, expected {dirty}")

    def _may_overflow(self, name: str) -> bool:
        return name.endswith("unrouted") and self._most < 5

    def _expected(
        self, name: str, starts: dict[SourcePartition, int], ends: dict[SourcePartition, int]
    ) -> list[Row]:
        return [
            (partition, offset)
            for partition, start in starts.items()
            for offset in range(start, ends.get(partition, start))
            if self._is_of(name, self._topic.logs[partition][offset])
        ]

    def _first(self, name: str, partition: SourcePartition) -> int | None:
        log = self._topic.logs[partition]
        return next((n for n, payload in enumerate(log) if self._is_of(name, payload)), None)

    @staticmethod
    def _is_of(name: str, payload: bytes) -> bool:
        """Whether a row is one of a table's."""
        row = _row(payload)
        if not row:
            return False
        if name == "ods.raw":
            return True
        if name == "ods.of_even":
            return bool(row["even"])
        named = "paid" if name == "ods.of_paid" else name.removeprefix("dwd.")
        found = row["kind"] if name == "ods.of_paid" else table_of(row["kind"])
        return bool(named == found)

    @staticmethod
    def _is_dirty(name: str, payload: bytes) -> bool:
        row = _row(payload)
        if name.startswith("ods."):
            # The column is a text, and a number is none.
            return not row or (name == "ods.of_paid" and row["kind"] == 7)
        return name.endswith("unrouted") and (not row or not table_of(row["kind"]))

    @staticmethod
    def _compare(name: str, what: str, found: Counter[Row], expected: Counter[Row]) -> None:
        if found != expected:
            lost, more = _shown(expected - found), _shown(found - expected)
            raise ViolationError(f"{name}: {what} lacks [{lost}], has in addition [{more}]")


def _shown(rows: Counter[Row]) -> str:
    return ", ".join(f"{one}@{offset}" for one, offset in sorted(rows)[:5])


def _row(payload: bytes) -> dict[str, Any]:
    """The row of a payload; empty when it is none."""
    try:
        found: dict[str, Any] = json.loads(payload)
    except ValueError:
        return {}
    return found


def _rows(files: list[Path]) -> list[Row]:
    rows: list[Row] = []
    for file in files:
        table = pq.read_table(file, partitioning=None)
        names = ("_topic", "_partition", "_offset")
        places = (table.column(name).to_pylist() for name in names)
        rows += [(SourcePartition(topic, n), at) for topic, n, at in zip(*places, strict=True)]
    return rows
