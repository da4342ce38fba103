"""An Iceberg table of others on this disk, and drivers of a route that reads it: all from one seed.

Its writers append, merge files, let snapshots go with their files, and at times remove rows or roll
back; half of such routes pass over what removes rows. Answers of the catalog come late, after more
has happened, or not at all. Row n is the n-th that was ever appended, so what a route has committed
can be judged row by row.
"""

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ADDED_RECORDS, DELETED_RECORDS, TOTAL_RECORDS

from chain_sim.world import Follower, ViolationError, World
from sluiceway.chains.lake_client import LakeClient
from sluiceway.chains.lake_reader import LakeReader
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.errors import MetastoreUnavailableError, OffsetsLostError, SourceUnavailableError
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.schedule import source_view
from sluiceway.schedule.planner import (
    new_partitions,
    plan_hand_over,
    plan_sources,
    plan_splits,
)
from sluiceway.schedule.start_offsets import ResolvedStart
from sluiceway.sources.contract import SourcePartition, Split
from tools.lake_chain import NAME, SCHEMA, expire_all_but_newest, merge_files, roll_back, rows

_LATE, _FAILS, _WRONG = 0.1, 0.1, 0.15


class _Catalog:
    """The catalog as a driver asks it."""

    def __init__(self, world: "LakeWorld") -> None:
        self._world = world

    def load(self, name: object) -> Table:
        """What there is when it is asked; the answer may come after more has happened."""
        del name
        return self._world.answer()

    def close(self) -> None:
        """Nothing is held."""


class LakeWorld(World):
    """Everything of one seed.

    Args:
        seed: Of all choices; every other one has writers that remove rows or roll back.
        folder: Empty.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.hands_over, self.log = False, SourcePartition(f"table:{NAME}", 0)
        self._harmless = seed % 2 == 1
        catalog = SqlCatalog("lake", uri="sqlite://", warehouse=f"file://{folder}/lake")
        catalog.create_namespace("others")
        self._table = catalog.create_table(NAME, SCHEMA)
        self._written = 0
        self._planning: Any = None
        self._rule = "ignore" if seed % 4 == 2 else "halt"
        self._unseen: set[int] = set()
        self._removed = False
        self._rolled_back = False
        self._expired = False

    def live(self) -> None:
        """See `World.live`."""
        catalog = _Catalog(self)
        with patch("sluiceway.chains.lake_client.pooled_catalog", lambda *_: catalog):
            super().live()

    def answer(self) -> Table:
        """The table as it is when the catalog is asked."""
        chance = 1.0 if self._well else self.rng.random()
        if chance < _FAILS:
            raise MetastoreUnavailableError("it does not answer")
        table = self._fresh()
        if chance < _FAILS + _LATE:
            self._note("late answer")
            self.rng.choice((self._add, self._merge, self._expire))()
        return table

    def _fresh(self) -> Table:
        return self._table.catalog.load_table(NAME)

    # Writers of the table

    def _add(self) -> None:
        count = self.rng.randint(1, 5)
        self._fresh().append(rows(range(self._written, self._written + count)))
        self._note(f"add rows {self._written} to {self._written + count}")
        self._written += count

    def _add_late(self) -> None:
        self._add()

    def _merge(self) -> None:
        if self.rng.random() < _WRONG:
            self._upstream_dies()
        if self._written:
            merge_files(self._fresh())
            self._note("merge")

    def _expire(self) -> None:
        """Snapshots go, and with them the files that no other one has."""
        table = self._fresh()
        if not self._written or self.rng.random() < 0.7:
            return
        before = set(table.inspect.all_files()["file_path"].to_pylist())
        expire_all_but_newest(table)
        for path in before - set(self._fresh().inspect.all_files()["file_path"].to_pylist()):
            Path(path.removeprefix("file://")).unlink()
        sources = self._log.fold().sources
        known = sources.get((self.log.topic, self.log.partition))
        if self._rule == "ignore":
            # Its offsets are those of several logs: any row that is not read may go.
            unread = set(range(self._written)) - self._unseen - set(self._rows())
            self._expired |= bool(unread)
        else:
            self._expired |= known is None or known.end < _newest_begin(table)
        self._note("expire")

    def _upstream_dies(self) -> None:
        """A writer does what a table that is only appended to does not bear."""
        table = self._fresh()
        newest = table.metadata.current_snapshot()
        if self._harmless or newest is None:
            return
        before = newest.parent_snapshot_id
        removes = self.rng.random() < (0.9 if self._rule == "ignore" else 0.5)
        if before is None or table.snapshot_by_id(before) is None or removes:
            row = self.rng.randrange(self._written)
            table.delete(EqualTo("id", row))
            if not self._log.fold().sources:
                self._unseen.add(row)
            self._removed |= self._rule == "halt"
            self._note(f"remove {row}")
        else:
            self._rolled_back = self._removed = True
            roll_back(table, before)
            self._note("roll-back")
            for _ in range(self.rng.randint(0, 3)):
                self._add()

    # Drivers of the route

    def _client(self) -> Any:
        return LakeClient(LakeUpstream(NAME, (), on_correction=self._rule), 1.0)

    def _turn(self) -> None:
        try:
            super()._turn()
        except SourceUnavailableError:
            self._note("unavailable")

    def _step(self, follower: Follower) -> None:
        follower.reports.clear()
        super()._step(follower)

    def _read(self, split: Split) -> tuple[list[int], int, int | None]:
        (follower,) = [each for each in self._followers if each.client is self._planning]
        options = LakeUpstream.of(
            {
                **dict(LakeUpstream(NAME, (), on_correction=self._rule).texts()),
                **follower.client.reader_options(),
            }
        )
        found: list[int] = []
        reader = LakeReader([split], options)
        for _ in range(self.rng.randint(1, 6)):
            for batch in reader.read(0.0):
                found += batch.values.columns["id"].to_pylist()  # type: ignore[attr-defined]
            if not self._well and self.rng.random() < 0.2:
                self.rng.choice((self._add, self._merge, self._expire))()
        (end,) = reader.ends()
        return found, end.end_offset, end.leader_epoch

    def _plan(self, follower: Follower) -> None:
        self._planning = follower.client
        writer, topic = follower.writer, self.log.topic
        writer.read_new()
        fold, wanted = writer.fold, Subscription((topic,), "", "earliest")
        view = source_view.read_route_view(follower.client, [topic], fold)
        passed = source_view.passed_over(fold, view)
        if passed is None:
            found = view.of([topic])
            new = new_partitions(fold, wanted, found)
            starts = {one: ResolvedStart(view.bounds[one].start_offset, "earliest") for one in new}
            record = plan_sources(fold, wanted, found, view.bounds, starts)
        else:
            record = plan_hand_over(fold, wanted, passed)
        if record is not None:
            writer.commit(record)
            self._note(f"sources {[pin.how for pin in record.partitions]} {record.reason}")
            if passed is not None:
                self._note(f"pass snapshot {passed.slot}")
            return
        for planned in plan_splits(fold, view.bounds, None):
            follower.read = planned, *self._read(planned.split)

    # What must hold

    def _check(self) -> None:
        twice = [row for row, count in Counter(self._rows()).items() if count > 1]
        if twice:
            raise ViolationError(f"rows {twice} are there twice")

    def _judge_loss(self, follower: Follower, error: OffsetsLostError) -> None:
        if not self._removed and not self._expired:
            raise ViolationError(f"nothing was removed, and nothing unread has expired: {error}")
        self.halted = True
        self._note(f"halted driver {follower.number}")

    def _missing(self) -> list[int]:
        held = self._fresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        wanted = set(held)
        if self._rule == "ignore" and not self._rolled_back:
            # Also what was removed before it was read.
            wanted |= set(range(self._written)) - self._unseen
        return sorted(wanted - set(self._rows()))


def _newest_begin(table: Table) -> int:
    """Offset of the first row of the newest snapshot."""
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    total, added, deleted = (
        int(told.get(key, 0)) for key in (TOTAL_RECORDS, ADDED_RECORDS, DELETED_RECORDS)
    )
    return total - added + deleted
