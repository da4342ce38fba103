"""Dirty rows of a route, by its ledger and its dirty files alone: which, and their states."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.dirty_files import dirty_sources
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import PURGE, LaneDataRecord, LaneRange, LaneRecord
from sluiceway.ledger.lane_state import LaneState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import EpochRecord, Record
from sluiceway.types.log_key import SourceKey
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_reader import read_dirty_rows

_KEYS = ("topic", "partition", "offset", "timestamp_ms", "reason", "path")
Mask = NDArray[np.bool_]


class DirtyState(IntEnum):
    """What has become of a dirty row."""

    OPEN = 0
    UNDER_WAY = 1
    REPLAYED = 2
    PURGED = 3

    @property
    def label(self) -> str:
        """For people and JSON."""
        return self.name.lower()


@dataclass(slots=True)
class DirtyFile:
    """One committed dirty file.

    Attributes:
        lane: Whose rows were dirty again; None when they came from the stream.
        states: A `DirtyState` for each row.
    """

    source: DirtySource
    epoch: int
    term: int
    schema: str
    lane: str | None
    record: FileRecord
    states: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane, and who asked for it."""

    state: LaneState
    record: LaneRecord


@dataclass(slots=True)
class DirtyRows:
    """All dirty files and lanes of a route's ledger."""

    log: LedgerLog
    fold: Fold = field(default_factory=Fold)
    files: dict[str, DirtyFile] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)

    @classmethod
    def read(cls, ledger: LedgerLog) -> "DirtyRows":
        """Read the whole log; changes nothing.

        Raises:
            LedgerCorruptError: The log is damaged.
            StorageUnavailableError: The store failed.
        """
        found = cls(ledger)
        for record, raw in ledger.records():
            found.fold.apply(record, raw)
            found._apply(record)
        found.lanes = [
            Lane(found.fold.lanes.lanes[each.record.lane], each.record) for each in found.lanes
        ]
        return found

    def _apply(self, record: Record) -> None:
        body = record.body
        if isinstance(body, LaneRecord):
            self.lanes.append(Lane(self.fold.lanes.lanes[body.lane], body))
            for each in body.ranges:
                self._mark(each.source, int(each.start), int(each.stop), DirtyState.UNDER_WAY)
        if isinstance(body, LaneDataRecord):
            purged = self.fold.lanes.lanes[body.lane].kind == PURGE
            state = DirtyState.PURGED if purged else DirtyState.REPLAYED
            for span in body.ranges:
                self._mark(span.source, int(span.start), int(span.end), state)
        first = self.fold.first_fence
        if first is None or not isinstance(body, EpochRecord | SwapRecord):
            return
        lane = body.lane if isinstance(body, LaneDataRecord) else None
        epoch, schema = (-1, "") if isinstance(body, SwapRecord) else (body.epoch, body.schema)
        for source, file in dirty_sources(first.ledger, record).items():
            states = np.zeros(int(file.rows), np.int8)
            self.files[str(source)] = DirtyFile(
                source, epoch, record.term, schema, lane, file, states
            )

    def _mark(self, source: str, start: int, stop: int, state: DirtyState) -> None:
        file = self.files.get(source)
        if file is not None:
            file.states[start:stop] = state


@dataclass(frozen=True, slots=True)
class DirtyFilter:
    """Selects dirty rows; a condition that is empty or None excludes nothing.

    Attributes:
        fields: Paths as the dirty rows have them, as `geo.tags[3]`.
        partitions: Source partitions that the rows came from.
        offsets: Offsets in those partitions.
        before_ms: Rows whose record time is below this.
        slots: `[first, last]` of the ledger.
    """

    reasons: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    partitions: frozenset[SourceKey] = frozenset()
    offsets: frozenset[int] = frozenset()
    before_ms: int | None = None
    slots: tuple[int, int | None] = (0, None)
    states: frozenset[DirtyState] = frozenset()

    def takes_slot(self, seq: int) -> bool:
        """Whether rows of this slot may be selected."""
        first, last = self.slots
        return first <= seq and (last is None or seq <= last)

    def mask(self, keys: pa.Table, states: NDArray[np.int8]) -> Mask:
        """Which rows of a file are selected."""
        found: Mask = np.ones(len(states), np.bool_)
        if self.states:
            found &= np.isin(states, [int(state) for state in self.states])
        for name, wanted in (
            ("reason", self.reasons),
            ("path", self.fields),
            ("offset", self.offsets),
        ):
            if wanted:
                values = pa.array(sorted(wanted), keys.column(name).type)
                found &= pc.is_in(keys.column(name), values).to_numpy()
        if self.partitions:
            topics, numbers = keys.column("topic").to_pylist(), keys.column("partition").to_pylist()
            pairs = zip(topics, numbers, strict=True)
            found &= np.array([pair in self.partitions for pair in pairs], np.bool_)
        if self.before_ms is not None:
            old = pc.less(keys.column("timestamp_ms"), self.before_ms)
            found &= pc.fill_null(old, fill_value=False).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True, slots=True)
class Matched:
    """The selected rows of one file.

    Attributes:
        keys: Their columns topic, partition, offset, timestamp_ms, reason and path.
        numbers: Row numbers in the file, from 0, ascending.
    """

    file: DirtyFile
    keys: pa.Table
    numbers: NDArray[np.int64]

    @property
    def states(self) -> NDArray[np.int8]:
        """States of these rows."""
        found: NDArray[np.int8] = self.file.states[self.numbers]
        return found

    def ranges(self) -> Iterator[LaneRange]:
        """Runs of these rows in the file."""
        cuts = np.flatnonzero(np.diff(self.numbers) != 1) + 1
        for run in np.split(self.numbers, cuts):
            yield LaneRange(str(self.file.source), BigInt(int(run[0])), BigInt(int(run[-1]) + 1))


def matching(rows: DirtyRows, wanted: DirtyFilter) -> Iterator[Matched]:
    """Read the dirty files and yield the selected rows, oldest first.

    Raises:
        StorageUnavailableError: The store failed, or a file cannot be read.
    """
    for file in rows.files.values():
        if not wanted.takes_slot(file.source.seq):
            continue
        if wanted.states and not np.isin(file.states, [int(s) for s in wanted.states]).any():
            continue
        if is_let_go(rows.log, file):
            continue
        keys = _keys(rows.log, file)
        numbers = np.flatnonzero(wanted.mask(keys, file.states))
        if len(numbers):
            yield Matched(file, keys.take(pa.array(numbers)), numbers)


def _keys(ledger: LedgerLog, file: DirtyFile) -> pa.Table:
    size = len(file.states)
    read = read_dirty_rows(ledger.storage, place_of(ledger, file), 0, size, _KEYS)
    batches = [batch for _, batch in read]
    if sum(batch.num_rows for batch in batches) != size:
        raise StorageUnavailableError(
            f"it has other rows than the {size} that were committed",
            where=file.record.final,
            hint="`sluiceway verify JOB --deep` says what is wrong with it",
        )
    return pa.Table.from_batches(batches)


def is_let_go(ledger: LedgerLog, file: DirtyFile) -> bool:
    """Whether a file may be gone and is: no reader can ask for a row of it again.

    Raises:
        StorageUnavailableError: The store failed.
    """
    consumed = bool((file.states >= DirtyState.REPLAYED).all())
    return consumed and ledger.storage.status(ledger.layout.final(file.record.final)) is None


def place_of(ledger: LedgerLog, file: DirtyFile) -> str:
    """Where the file is now: a file may be committed and not yet published.

    Raises:
        StorageUnavailableError: The store failed, or the file is in neither place.
    """
    for path in (ledger.layout.final(file.record.final), ledger.layout.attempt(file.record.staged)):
        if ledger.storage.status(path) is not None:
            return path
    raise StorageUnavailableError(
        "a committed dirty file is gone",
        where=ledger.layout.final(file.record.final),
        hint="bring it back from a backup; `sluiceway verify JOB` lists all that is missing",
    )


@dataclass(frozen=True, slots=True)
class DirtyGroup:
    """Dirty rows of one reason, field and state."""

    reason: str
    path: str
    state: str
    rows: int
    files: int
    first_ms: int | None
    last_ms: int | None
    first_seq: int
    last_seq: int


def grouped(found: Sequence[Matched]) -> list[DirtyGroup]:
    """Count rows by reason, field and state, the most first."""
    tables = []
    for each in found:
        rows = len(each.numbers)
        columns = each.keys.select(["reason", "path", "timestamp_ms"])
        columns = columns.append_column("state", pa.array(each.states))
        columns = columns.append_column("seq", pa.array(np.full(rows, each.file.source.seq)))
        name = pa.array([str(each.file.source)] * rows)
        tables.append(columns.append_column("file", name))
    if not tables:
        return []
    groups = pa.concat_tables(tables).group_by(["reason", "path", "state"])
    summed = groups.aggregate(
        [
            ("seq", "count"),
            ("file", "count_distinct"),
            ("timestamp_ms", "min"),
            ("timestamp_ms", "max"),
            ("seq", "min"),
            ("seq", "max"),
        ]
    )
    result = [
        DirtyGroup(
            reason=row["reason"],
            path=row["path"],
            state=DirtyState(row["state"]).label,
            rows=row["seq_count"],
            files=row["file_count_distinct"],
            first_ms=row["timestamp_ms_min"],
            last_ms=row["timestamp_ms_max"],
            first_seq=row["seq_min"],
            last_seq=row["seq_max"],
        )
        for row in summed.to_pylist()
    ]
    return sorted(result, key=lambda each: (-each.rows, each.reason, each.path, each.state))


def whole_rows(ledger: LedgerLog, found: Matched) -> Iterator[dict[str, object]]:
    """The selected rows, with all that was kept of them.

    Raises:
        StorageUnavailableError: The store failed.
    """
    file = found.file
    start, stop = int(found.numbers[0]), int(found.numbers[-1]) + 1
    wanted = set(found.numbers.tolist())
    for first, batch in read_dirty_rows(ledger.storage, place_of(ledger, file), start, stop):
        for number, row in enumerate(batch.to_pylist(), first):
            if number in wanted:
                yield {
                    "slot": file.source.seq,
                    "file": file.source.file,
                    "row": number,
                    "state": DirtyState(int(file.states[number])).label,
                    **row,
                }
