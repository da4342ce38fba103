"""A keyed lake table in the same weather: what a reader finds is a fold of the log.

The log's changes are put there by hand: images, deletes and truncates, some of them dirty and
replayed later, as the product's judge lets them. Whatever others do to the table is noted with
the slot that the table named then. So at each moment the slot that the table names says what it
has to hold: all changes up to there, in the log's order, and what others did in between.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException

from lake_sim.violation import ViolationError
from lake_sim.world import Actions, World
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import (
    REPLAY,
    LaneCounts,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.sinks.iceberg.keyed import keyed_upkeep
from sluiceway.sinks.iceberg.keyed.change_history import ChangeHistory
from sluiceway.sinks.iceberg.keyed.keyed_changes import ChangeColumns
from sluiceway.sinks.iceberg.keyed.keyed_publisher import KeyedPublisher
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.replayed_changes import judged
from tools.keyed_lake import KEYED_BY_APP, KeyedLake
from tools.ledger_records import LEDGER, data, span

KEYS = 6
_KINDS = (*(RowKind.IMAGE,) * 6, *(RowKind.DELETE,) * 2, RowKind.TRUNCATE)
_DIRTY = 0.2
_APPS = "ab"
_PIECES = (1_000_000, 3)
# Few, so that a short life gets there.
_LIKE_FILES, _DELETE_FILES = 3, 4
Row = tuple[int, str, int]
"""Key, partition and offset of the change that left it so."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record of the topic; a truncate has no key."""

    kind: RowKind
    key: int | None
    app: str
    offset: int


@dataclass(frozen=True, slots=True)
class Dirty:
    """Rows of one slot that were dirty when they were read; `done` of them are consumed."""

    source: str
    changes: tuple[Change, ...]
    done: int = 0


@dataclass(frozen=True, slots=True)
class Foreign:
    """What others have made of a key while the table named a slot."""

    slot: int
    key: int
    rows: tuple[Row, ...]


class SimKeyedLake(KeyedLake):
    """One whose changes have places of their own."""

    def commit_changes(self, clean: Sequence[Change], dirty: Sequence[Change]) -> tuple[int, str]:
        """Commit an epoch; its slot, and the dirty file as a replay names it."""
        start = self.writer.fold.sources["orders", 0].end
        read = span(0, start, start + len(clean) + len(dirty))
        body = data(self.writer.term, self.writer.fold.last_epoch + 1, read, dirty=len(dirty))
        body = replace(body, files=tuple(self._files(body.files, clean)))
        if dirty:
            place = Path(self.log.layout.final(body.dirty_files[0].final))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"0123456789")
        seq = self.writer.commit(body).seq
        name = body.dirty_files[0].final.rpartition("/")[2] if dirty else ""
        return seq, str(DirtySource(LEDGER, seq, name))

    def commit_replayed(self, lane: str, begin: int, asked: Dirty, kept: Sequence[Change]) -> int:
        """Commit an epoch of a lane that consumed rows and wrote those that nothing overtook."""
        count = asked.done - begin
        epoch = self.writer.fold.last_epoch + 1
        like = data(self.writer.term, epoch, span(0, 0, len(kept))).files
        rows = (LaneSpan(asked.source, BigInt(begin), BigInt(asked.done)),)
        counts = LaneCounts(*map(BigInt, (count, len(kept), 0, 0, 0, 0, 0, 0, count - len(kept))))
        files = tuple(self._files(like, kept))
        body = LaneDataRecord(lane, epoch, rows, files, (), counts, "s", {}, {}, ())
        return self.writer.commit(body).seq

    def _files(
        self, like: tuple[FileRecord, ...], changes: Sequence[Change]
    ) -> Iterator[FileRecord]:
        """A file a partition."""
        by_app = sorted(changes, key=lambda change: change.app)
        for app, group in groupby(by_app, key=lambda change: change.app):
            rows = list(group)
            name = f"orders-{uuid4().hex}.parquet"
            folder = like[0].staged.partition("/")[0]
            file = replace(like[0], staged=f"{folder}/{name}", final=name, rows=BigInt(len(rows)))
            yield self.staged(file, changes_batch(rows), app)


def changes_batch(changes: Sequence[Change]) -> pa.RecordBatch:
    """What a file of changes holds."""
    told = [each.app if each.kind is RowKind.IMAGE else None for each in changes]
    return pa.RecordBatch.from_pydict(
        {
            "n": pa.array([each.key for each in changes], pa.int64()),
            "app": pa.array(told, pa.string()),
            "_partition": pa.array([0] * len(changes), pa.int32()),
            "_offset": pa.array([each.offset for each in changes], pa.int64()),
            KIND_COLUMN: pa.array([int(each.kind) for each in changes], pa.int32()),
        }
    )


class KeyedWorld(World):
    """Everything of one seed."""

    lake: SimKeyedLake

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        vars(keyed_upkeep).update(LIKE_FILES=_LIKE_FILES, MOST_DELETE_FILES=_DELETE_FILES)
        KeyedPublisher.most_rows = _PIECES[seed % len(_PIECES)]
        # By slot: changes that count, in the order of the queue.
        self._log: dict[int, list[Change]] = {}
        self._others: list[Foreign] = []
        self._open: list[Dirty] = []
        schema = self.lake.table().schema()
        ids = {field.name: field.field_id for field in schema.fields}
        self._columns = ChangeColumns((ids["n"],), ids["_offset"], ids["_partition"])

    def new_lake(self, folder: Path) -> SimKeyedLake:
        """See `World.new_lake`."""
        return SimKeyedLake(folder, KEYED_BY_APP)

    def actions(self) -> Actions:
        """See `World.actions`: a keyed table is compacted within its publishes."""
        return (
            (4, self._commit),
            (4, self._publish),
            (1, self._new_driver),
            (0.3, self._all_leave),
            (1, self._land),
            (1, self._replay),
            (0.7, self._append_foreign),
            (0.5, self._compact_foreign),
            (0.7, self._expire_ours),
            (0.7, self._delete_foreign),
            (0.4, self._expire),
            (0.4, self._put_back_older),
            (0.3, self._roll_back),
            (0.6, self._come_back),
        )

    def check(self) -> None:
        """What a reader finds now is what the slot says that the table names."""
        self.lending.judge()
        last, rows = self._as_read()
        found = Counter(rows)
        if self._rolled_back:
            # The owner has taken rows away; nobody may put more of them there than there were.
            if any(count > 1 for count in found.values()):
                raise ViolationError(f"rows twice after a rollback: {found}")
            return
        wanted = Counter(row for rows in self._expected(last).values() for row in rows)
        if found != wanted:
            raise ViolationError(
                f"at slot {last} a reader finds {dict(found - wanted)} too much, "
                f"{dict(wanted - found)} too little"
            )

    def _judge_end(self) -> None:
        """All of the log is in the table."""
        found = Counter(self._rows())
        rest = self._expected(self.lake.writer.fold.next_seq)
        wanted = Counter(row for rows in rest.values() for row in rows)
        if found != wanted:
            raise ViolationError(
                f"at the end {dict(found - wanted)} too much, {dict(wanted - found)} too little"
            )

    # What has to be there

    def _expected(self, last: int) -> dict[int, tuple[Row, ...]]:
        """Rows by key when all changes up to a slot were made."""
        found: dict[int, tuple[Row, ...]] = {}
        for slot in range(-1, last + 1):
            for change in self._log.get(slot, ()):
                _apply(change, found)
            for other in self._others:
                if other.slot == slot:
                    found[other.key] = other.rows
        return {key: rows for key, rows in found.items() if rows}

    def _rows(self) -> list[Any]:
        """See `World._rows`."""
        table = self.lake.table().scan().to_arrow()
        columns = (table[name].to_pylist() for name in ("n", "app", "_offset"))
        return sorted(zip(*columns, strict=True))

    def _accept(self) -> None:
        """The owner wants what a reader finds now; see `World._accept`."""
        last, rows = self._as_read()
        self._others = [each for each in self._others if each.slot <= last]
        found: dict[int, tuple[Row, ...]] = {}
        for row in rows:
            found[row[0]] = (*found.get(row[0], ()), row)
        wanted = self._expected(last)
        for key in wanted.keys() | found.keys():
            if Counter(found.get(key, ())) != Counter(wanted.get(key, ())):
                self._others.append(Foreign(last, key, found.get(key, ())))

    def _is_overtaken(self, change: Change) -> bool:
        """Whether a later change of its key, or of all keys, is committed."""
        return any(
            other.offset > change.offset and (other.key in (change.key, None))
            for changes in self._log.values()
            for other in changes
        )

    # Actions

    def _commit(self) -> None:
        start = self.lake.writer.fold.sources["orders", 0].end
        clean: list[Change] = []
        dirty: list[Change] = []
        for offset in range(start, start + self.rng.choice((0, 1, 2, 3, 4))):
            kind = self.rng.choice(_KINDS)
            key = None if kind is RowKind.TRUNCATE else self.rng.randrange(KEYS)
            change = Change(kind, key, self.rng.choice(_APPS), offset)
            is_dirty = key is not None and self.rng.random() < _DIRTY
            (dirty if is_dirty else clean).append(change)
        slot, source = self.lake.commit_changes(clean, dirty)
        self._log[slot] = clean
        self.seen["truncates"] += any(change.key is None for change in clean)
        if dirty:
            self._open.append(Dirty(source, tuple(dirty)))

    def _replay(self) -> None:
        """Dirty rows are whole now: a lane reads them, an epoch or two, among other things."""
        if not self._open:
            return
        asked = self._open.pop(self.rng.randrange(len(self._open)))
        lane, whole = f"lane-{uuid4().hex}", BigInt(len(asked.changes))
        rows = (LaneRange(asked.source, BigInt(0), whole),)
        self.lake.writer.commit(LaneRecord(lane, REPLAY, "me", "", rows))
        while asked.done < len(asked.changes):
            begin = asked.done
            asked = replace(asked, done=self.rng.randint(begin + 1, len(asked.changes)))
            changes = asked.changes[begin : asked.done]
            kept = self._let_through(changes, asked.source)
            slot = self.lake.commit_replayed(lane, begin, asked, kept)
            self._log[slot] = kept
            self.seen["replayed"] += len(kept)
            self.seen["superseded"] += len(changes) - len(kept)
            if self.rng.random() < 0.5:
                self._act(((1, self._commit), (1, self._publish)))

    def _let_through(self, changes: Sequence[Change], source: str) -> list[Change]:
        """Those that the product's judge lets through, which has to be right."""
        names = ("_offset", "_partition", None)
        history = ChangeHistory(self.lake.log, ("n",), self._columns, names)
        try:
            batch = changes_batch(changes)
            _, superseded, unknown = judged(history, batch, [source] * len(changes))
        finally:
            history.close()
        told = [not over for over in superseded.tolist()]
        if unknown or told != [not self._is_overtaken(change) for change in changes]:
            raise ViolationError(f"of {changes} the judge lets through {told}, unsure {unknown}")
        return [change for change, good in zip(changes, told, strict=True) if good]

    def _append_foreign(self) -> None:
        """Another writer adds a row, at times one whose key we know: it is there twice then."""
        if self._rolled_back:
            return
        self._next_foreign += 1
        key = self.rng.choice((self._next_foreign, self.rng.randrange(KEYS)))
        table = self.lake.table()
        row = (key, "x", -self._next_foreign)
        columns = dict(zip(("n", "app", "_offset"), ([value] for value in row), strict=True))
        with suppress(CommitFailedException):
            schema = table.schema().as_arrow()
            table.append(pa.Table.from_pydict({**columns, "_partition": [0]}, schema=schema))
            last = self._as_read()[0]
            self._others.append(Foreign(last, key, (*self._expected(last).get(key, ()), row)))

    def _put_back_older(self) -> None:
        """See `World._put_back_older`; at times metadata of several changes before."""
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            super()._put_back_older()

    def _delete_foreign(self) -> None:
        """Another writer deletes a row by its place."""
        last, rows = self._as_read()
        once = sorted(key for key, count in Counter(row[0] for row in rows).items() if count == 1)
        if not once or self._rolled_back:
            return
        key = self.rng.choice(once)
        if self.lake.delete_foreign(key):
            self._others.append(Foreign(last, key, ()))


def _apply(change: Change, rows: dict[int, tuple[Row, ...]]) -> None:
    if change.key is None:
        rows.clear()
    elif change.kind is RowKind.DELETE:
        rows.pop(change.key, None)
    else:
        rows[change.key] = ((change.key, change.app, change.offset),)
