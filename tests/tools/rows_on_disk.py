"""A table on this disk whose files hold rows: their numbers, in the order of the log."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.live_files import LiveFiles
from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import (
    SwapParts,
    expire_body,
    intent_body,
    ready_body,
    replace_body,
    swap_body,
    swap_intent_body,
)
from tools.table_on_disk import TableOnDisk, table_on_disk


@dataclass
class RowsOnDisk:
    """`ts` of each row is its number; `app` is its partition's name.

    Attributes:
        table: With its ledger.
        written: Rows so far; also the next row's number.
        left: Slot of each REPLACE, and the files that it has replaced and that are there still.
    """

    table: TableOnDisk
    written: int = 0
    left: list[tuple[int, list[Path]]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return Path(self.table.log.layout.table_root)

    def add(self, *partitions: str, rows: int = 4) -> int:
        """Commit an epoch with a file in each of these; its slot."""
        seq = self.table.writer.fold.next_seq
        for file in self.table.rows(*partitions, rows=rows):
            numbers = range(self.written, self.written + rows)
            name = file.final.rpartition("/")[0]
            at = self.table.writer.fold.partitions[name].location
            self._write(f"{at}/{file.final.rpartition('/')[2]}", numbers, name)
            self.written += rows
        return seq

    def _write(self, final: str, numbers: range | list[int], app: str) -> None:
        path = self.root / final
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"ts": pa.array(numbers, pa.int64()), "app": pa.array([app] * len(numbers))}
        # A query may look for it at any moment: it is there whole.
        half = path.with_suffix(".half")
        pq.write_table(pa.table(columns), half, row_group_size=3)
        half.rename(path)

    def _numbers(self, path: Path) -> list[int]:
        """Numbers of the rows of a file."""
        return list(pq.read_table(path)["ts"].to_pylist())

    def merge(self, partition: str, size: int = 100) -> int:
        """Write a partition's rows to files of so many rows, as compaction does; the slot.

        The replaced files go as the driver removes them, but without an hour's grace: `sweep`.
        """
        writer = self.table.writer
        body = intent_body(writer.fold, partition, "compact")
        assert body is not None
        intent = writer.commit(body).seq
        writer.set_published()
        state = replace(writer.fold.partitions[partition])
        live = LiveFiles(self.table.log, [state]).of(state)
        old = [self.root / file.final for file in live]
        rows = [row for path in old for row in self._numbers(path)]
        added = [
            FileRecord(
                f"i{intent}-{body.uuid}/m{at}.parquet",
                f"m{at}.parquet",
                state.values,
                BigInt(len(rows[at : at + size])),
                BigInt(9),
                "00000001",
                {},
            )
            for at in range(0, len(rows), size)
        ]
        replaced = replace_body(writer.fold, intent, live, added)
        assert replaced is not None
        for at, file in zip(range(0, len(rows), size), replaced.added, strict=True):
            self._write(file.final, rows[at : at + size], partition)
        seq = writer.commit(replaced).seq
        writer.set_published()
        self.left.append((seq, old))
        self.sweep()
        return seq

    def swap(self, partition: str, numbers: list[int]) -> int:
        """Replace a partition's rows by others, as a backfill does; the slot."""
        writer = self.table.writer
        body = swap_intent_body(writer.fold, partition, "backfill")
        assert body is not None
        intent = writer.commit(body).seq
        writer.set_published()
        state = replace(writer.fold.partitions[partition])
        rows = BigInt(len(numbers))
        new = FileRecord(
            f"i{intent}-{body.uuid}/s.parquet",
            "s.parquet",
            state.values,
            rows,
            BigInt(9),
            "00000001",
            {},
        )
        live = LiveFiles(self.table.log, [state]).of(state)
        counts = SwapCounts(rows, rows)
        parts = SwapParts({partition: live}, {partition: [new]}, {}, {}, counts, reason="wrong")
        swapped = swap_body(writer.fold, intent, parts)
        assert swapped is not None
        self._write(swapped.live[0].final, numbers, partition)
        seq = writer.commit(swapped).seq
        writer.set_published()
        return seq

    def sweep(self) -> None:
        """Remove replaced files that no query needs."""
        log = self.table.log
        slowest = slot_of_slowest(log.storage, log.layout, time.time_ns() // 1_000_000)
        gone = [each for each in self.left if slowest is None or each[0] <= slowest]
        self.left = [each for each in self.left if each not in gone]
        for _, paths in gone:
            for path in paths:
                path.unlink()

    def expire(self, partition: str) -> int:
        """Let go of a partition; the slot."""
        body = expire_body(self.table.writer.fold, [partition], "me@h: wrong")
        assert body is not None
        return self.table.writer.commit(body).seq

    def announce(self, prefix: str) -> int:
        """Announce a closed time; the slot."""
        body = ready_body(self.table.writer.fold, prefix)
        assert body is not None
        return self.table.writer.commit(body).seq


def rows_on_disk(folder: Path, more: str = "") -> RowsOnDisk:
    """An empty table of the job file `orders.yaml` in a folder."""
    return RowsOnDisk(table_on_disk(folder, more=more))
