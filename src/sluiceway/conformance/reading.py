"""Drives a split reader as a task does, and keeps what it returned. Waits with patience."""

import time
from dataclasses import dataclass, field

from sluiceway.sources.contract import SourceBatch, SourcePartition, SplitReader

READ_TIMEOUT_S = 0.2
DEADLINE_S = 30.0


@dataclass(slots=True)
class ReadRows:
    """Rows of all splits of one reader: per split the offsets and values, in order."""

    batches: list[SourceBatch] = field(default_factory=list)

    def add(self, batches: list[SourceBatch]) -> None:
        """Keep what one read returned."""
        self.batches += batches

    def count(self) -> int:
        """How many rows came."""
        return sum(len(batch.offsets) for batch in self.batches)

    def offsets(self, split_index: int = 0) -> list[int]:
        """Offsets of one split."""
        return [o for b in self.batches if b.split_index == split_index for o in b.offsets]

    def values(self, split_index: int = 0) -> list[bytes | None]:
        """Values of one split."""
        return [v for b in self.batches if b.split_index == split_index for v in b.values]


def log_of(topic: str, partition: int = 0) -> SourcePartition:
    """One log of a topic."""
    return SourcePartition(topic, partition)


def row_values(count: int, name: str = "row") -> list[bytes]:
    """Values that differ: `name-0`, `name-1` and so on."""
    return [f"{name}-{number}".encode() for number in range(count)]


def range_of(reader: SplitReader, split_index: int = 0) -> tuple[int, int, int]:
    """End offset, rows and gaps of one split."""
    end = reader.ends()[split_index]
    return end.end_offset, end.rows, end.gaps


def read_rows(reader: SplitReader, wanted: int) -> ReadRows:
    """Read until at least `wanted` rows came."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while rows.count() < wanted:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{rows.count()} of {wanted} rows came in {DEADLINE_S:.0f} s")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows


def read_for(reader: SplitReader, seconds: float) -> ReadRows:
    """Read for some time, whatever comes."""
    rows = ReadRows()
    deadline_s = time.monotonic() + seconds
    while (left_s := deadline_s - time.monotonic()) > 0:
        rows.add(reader.read(min(left_s, READ_TIMEOUT_S)))
    return rows


def read_to_stop(reader: SplitReader) -> ReadRows:
    """Read until every split has reached its stop offset."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while not reader.finished():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not at the stop after {DEADLINE_S:.0f} s: {reader.ends()}")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows


def read_to_end(reader: SplitReader, ends: list[int]) -> ReadRows:
    """Read until the end of every split's range is at least the one wanted."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while any(found.end_offset < wanted for found, wanted in zip(reader.ends(), ends, strict=True)):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not at {ends} after {DEADLINE_S:.0f} s: {reader.ends()}")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows
