"""A table with its ledger on this disk, one that follows it, and one that follows that: one seed.

The first table gets rows, merges and corrections; its driver dies. Drivers of the two others read
on, put rows aside, bring them in, rebuild what was corrected while epochs go on, die and go on as
zombies. They use the client, the reader, the backfiller, the swap and the ledger that ship. In the
end both tables have the rows of the first one, hour by hour, and at no time one of them twice.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from chain_sim.units import DiedError, QueueAtOnce
from chain_sim.world import (
    STEPS,
    ViolationError,
    World,
    no_wait,
    sources_due,
)
from sluiceway.chains.client import TableClient
from sluiceway.chains.options import ROOT, UpstreamOptions
from sluiceway.chains.reader import TableReader
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.errors import FencedError
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    REPLAY,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import AbandonRecord, SwapCounts, SwapRecord
from sluiceway.ledger.placing import placed, placed_lane
from sluiceway.ledger.records import EpochRecord, Record, RowCounts
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.schedule.planner import PlannedSplit, plan_splits
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.registry import SourceAccess, open_reader
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, encode
from sluiceway.upkeep.backfiller import Backfiller
from sluiceway.upkeep.record_queue import Build
from sluiceway.upkeep.rereading import ReadSoFar, Rereading
from sluiceway.worker.backfill_task import BackfillFiles, BackfillPlan
from tools.ledger_records import data, fence, span
from tools.small_task import route_plan

_LAST_ROUNDS = 120
_DIES, _ASIDE, _GOES_ON = 0.03, 0.25, 0.5
Rows = dict[str, list[int]]
"""Numbers of rows, by their hour."""


@dataclass
class Driver:
    """One driver of a table that follows another one.

    Attributes:
        read: What its tasks have read and it has not committed.
    """

    number: int
    client: TableClient
    writer: LedgerWriter
    read: tuple[PlannedSplit, Rows, int, int] | None = None
    backfiller: Any = None


class _Queue(QueueAtOnce):
    """Epochs go on between two requests."""

    def __init__(self, link: "Link", driver: Driver) -> None:
        super().__init__(link, driver.writer)
        self._link = link
        self._driver = driver

    def ask(self, build: Build) -> Any:
        self._link.go_on(self._driver)
        return super().ask(build)

    def _put(self, build: Build) -> int | None:
        slot = super()._put(build)
        if slot is not None:
            self._link.publish(slot)
        return slot


class _Reading(Rereading):
    """Reads in this process, while everything else goes on."""

    def __init__(self, link: "Link", driver: Driver) -> None:
        source = SourceAccess("table", (*link.options.texts(), (ROOT, link.options.root)))
        plan = replace(route_plan(link.log.layout.table_root), source=source)
        super().__init__(driver.client, lambda: plan, link.ledger)
        self._link = link
        self._driver = driver

    def _run(self, plan: BackfillPlan) -> BackfillFiles:
        reader = open_reader(plan.route.source, list(plan.splits), owner="sim")
        rows: Rows = {}
        while not reader.finished():
            for batch in reader.read(0.0):
                _add_batch(rows, batch)
            self._link.go_on(self._driver)
        reader.close(reusable=False)
        files = self._link.staged(plan.staged.rpartition("/")[2], rows)
        count = BigInt(sum(map(len, rows.values())))
        return BackfillFiles(tuple(files), (), SwapCounts(count, count), {})


class Link:
    """A table that follows another one, and its drivers.

    Args:
        world: Of its seed.
        name: Of its route.
        above: Folder of the table that it reads.
        root: Its own folder.
    """

    def __init__(self, world: "CorrectedWorld", name: str, above: str, root: str) -> None:
        self.name, self.world, self.rng = name, world, world.rng
        self.ledger = name[0] * 32
        self.options = UpstreamOptions("ods.above", "", root=above)
        self.topic = SourcePartition(self.options.topic, 0)
        self.drivers: list[Driver] = []
        self.log = LedgerLog(LocalStorage(), LedgerLayout(root, name))
        for place in (self.log.layout.log, self.log.layout.stage):
            self.log.storage.make_folders(place)
        owner = encode(Owner(self.ledger, "chain", name, root))
        self.log.storage.put_if_absent(
            self.log.layout.owner, owner, tmp_folder=self.log.layout.stage
        )
        self._numbers: dict[str, list[int]] = {}
        self._aside: dict[str, tuple[str, str, int]] = {}
        self._died = False
        self._seen = UpstreamLedger(root, NO_STORES, RowBook(COUNTED_ONLY))

    # Drivers

    def start(self) -> None:
        """A driver starts: it publishes and gives up what the one before has left."""
        number = self.world.next_term()
        log = LedgerLog(LocalStorage(), self.log.layout)
        writer = LedgerWriter(log, log.fold(), no_wait)
        writer.fence(fence(driver=f"d{number}", ledger=self.ledger, job="chain"), lambda: None)
        for record, _ in log.records():
            self._publish(record)
        for intent in sorted(writer.fold.intents):
            writer.commit(AbandonRecord(intent, "its driver has ended"))
        writer.set_published()
        driver = Driver(number, TableClient(self.options), writer)

        def said(event: str, **more: object) -> None:
            self.world.note(f"{event} {more}")

        notes: Any = SimpleNamespace(info=said, warning=said)
        driver.backfiller = Backfiller(
            _Queue(self, driver), _Reading(self, driver), notes, follows=True
        )
        self.drivers = [*self.drivers, driver][-2:]
        self.world.note(f"start {self.name} {number}")

    def turn(self) -> None:
        """A driver does its next step; one that was fenced ends."""
        if not self.drivers:
            self.start()
        driver = self.rng.choice(self.drivers)
        (step,) = self.rng.choices((self.epoch, self.correct, self.replay), (6, 2, 2))
        try:
            step(driver)
        except FencedError as error:
            self._drop(driver)
            died = isinstance(error, DiedError)
            self.world.note(f"{'died' if died else 'fenced'} {self.name} {driver.number}")

    def _drop(self, driver: Driver) -> None:
        self.drivers = [each for each in self.drivers if each is not driver]

    def may_die(self) -> None:
        """Called where a driver may die.

        Raises:
            DiedError: It does.
        """
        if not self.world.is_well and self.rng.random() < _DIES:
            self._died = True
            raise DiedError("it died")

    def go_on(self, driver: Driver) -> None:
        """What goes on while a driver rebuilds: its own epochs, other drivers, the table above.

        Raises:
            FencedError: The driver has died, or another one has taken over.
        """
        if driver not in self.drivers:
            raise DiedError("it has died meanwhile")
        if self.world.is_well or self.rng.random() >= _GOES_ON:
            return
        choice = self.rng.random()
        if choice < 0.7:
            self.epoch(driver)
        elif choice < 0.75:
            self.start()
        else:
            self.world.above()

    def epoch(self, driver: Driver) -> None:
        """Commit what was read, or read on."""
        if driver.read is not None and self.rng.random() < 0.8:
            self._commit(driver)
            return
        writer = driver.writer
        writer.read_new()
        record, bounds = sources_due(writer.fold, driver.client, self.topic)
        if record is not None:
            writer.commit(record)
            self.world.note(f"sources {self.name}")
            return
        for planned in plan_splits(writer.fold, bounds, None):
            driver.read = planned, *self._read(planned)

    def _read(self, planned: PlannedSplit) -> tuple[Rows, int, int]:
        """Rows by hour, where they end, and how many were replaced before they were read."""
        reader = TableReader([planned.split], self.options)
        rows: Rows = {}
        for _ in range(self.rng.randint(1, 6)):
            for batch in reader.read(0.0):
                _add_batch(rows, batch)
            if not self.world.is_well and self.rng.random() < 0.2:
                self.world.above()
        (end,) = reader.ends()
        reader.close(reusable=True)
        return rows, end.end_offset, end.gaps

    def _commit(self, driver: Driver) -> None:
        assert driver.read is not None
        (planned, rows, end, gaps), driver.read = driver.read, None
        writer, start = driver.writer, planned.range_start
        known = writer.fold.sources.get((self.topic.topic, self.topic.partition))
        if end == start or known is None or known.end != start:
            # As `follows` of the planner: the epoch was planned from what is not so.
            return
        read = replace(
            span(0, start, end, gaps=gaps),
            topic=self.topic.topic,
            cluster_id=known.cluster_id,
            topic_id=known.topic_id,
        )
        body = replace(data(writer.term, writer.fold.last_epoch + 1, read), files=())
        attempt = f"{writer.term}-{body.epoch}-{uuid4().hex}"
        hidden = self._put_aside(rows) if rows and self.rng.random() < _ASIDE else None
        body = replace(body, files=tuple(self.staged(attempt, rows)))
        if hidden is not None:
            kind, hour, row = hidden
            (file,) = self.staged(attempt, {hour: [row]})
            name, one = file.final.rpartition("/")[2], BigInt(1)
            counts: RowCounts = replace(body.counts, written=BigInt(body.counts.read - 1))
            if kind == LATE:
                file = replace(file, final=self.log.layout.late_relative(hour, name))
                body = replace(body, late_files=(file,), late_rows=LateRows(side=one))
                body = replace(body, counts=replace(counts, late=one))
            else:
                file = replace(file, final=self.log.layout.dirty_relative(name))
                body = replace(body, dirty_files=(file,), dirty_reasons={"broken": 1})
                body = replace(body, counts=replace(counts, dirty=one))
        committed = writer.commit(lambda now: placed(body, now))
        if hidden is not None:
            source = LateSource if hidden[0] == LATE else DirtySource
            self._aside[str(source(self.ledger, committed.seq, name))] = hidden
            self.world.note(f"aside {self.name} {hidden}")
        self.world.note(f"commit {self.name} {rows} in slot {committed.seq}")
        self.may_die()
        self.publish(committed.seq)
        writer.set_published()
        if self.rng.random() < 0.3:
            driver.client.report(f"sluiceway-{self.name}", {self.topic: end})

    def _put_aside(self, rows: Rows) -> tuple[str, str, int]:
        hour = self.rng.choice(sorted(rows))
        row = rows[hour].pop(self.rng.randrange(len(rows[hour])))
        if not rows[hour]:
            del rows[hour]
        return self.rng.choice((LATE, REPLAY)), hour, row

    def replay(self, driver: Driver) -> None:
        """Bring in a row that is aside."""
        if not self._aside:
            return
        source, (kind, hour, row) = self.rng.choice(sorted(self._aside.items()))
        writer, one = driver.writer, BigInt(1)
        writer.read_new()
        ranges = (LaneRange(source, BigInt(0), one),)
        writer.commit(LaneRecord(source, kind, "u@h", "", ranges))
        epoch = writer.fold.last_epoch + 1
        attempt = f"{writer.term}-{epoch}-{uuid4().hex}"
        body = LaneDataRecord(
            lane=source,
            epoch=epoch,
            ranges=(LaneSpan(source, BigInt(0), one),),
            files=tuple(self.staged(attempt, {hour: [row]})),
            dirty_files=(),
            counts=replace(NO_LANE_ROWS, read=one, written=one),
            schema="s",
            dirty_reasons={},
            timings_ms={},
            late_in=(),
        )
        committed = writer.commit(lambda now: placed_lane(body, now))
        del self._aside[source]
        self.publish(committed.seq)
        writer.set_published()
        self.world.note(f"replay {self.name} row {row} in slot {committed.seq}")

    def correct(self, driver: Driver) -> None:
        """Its backfiller looks for corrections, and rebuilds what is due."""
        driver.backfiller._look_due, self._died = 0.0, False
        driver.backfiller._correct()
        if self._died:
            # The backfiller takes it for any other error.
            raise DiedError("it died")
        driver.writer.read_new()

    # Files

    def staged(self, attempt: str, rows: Rows) -> Iterator[FileRecord]:
        """Files of these rows, staged; their final names are those of their hours."""
        for hour, numbers in sorted(rows.items()):
            name = f"{uuid4().hex}.parquet"
            path = Path(self.log.layout.attempt(attempt)) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            columns = {"ts": pa.array(numbers, pa.int64()), "app": pa.array([hour] * len(numbers))}
            pq.write_table(pa.table(columns), path)
            content = path.read_bytes()
            crc = google_crc32c.value(content).to_bytes(4, "big").hex()
            values = tuple(part.partition("=")[2] for part in hour.split("/"))
            count, size = BigInt(len(numbers)), BigInt(len(content))
            self._numbers[name] = numbers
            yield FileRecord(f"{attempt}/{name}", f"{hour}/{name}", values, count, size, crc, {})

    def publish(self, slot: int) -> None:
        """Files of a record get their final names."""
        found = self.log.read_slot(slot)
        assert found is not None
        self._publish(found[0])

    def _publish(self, record: Record) -> None:
        body, files = record.body, tuple[FileRecord, ...]()
        if isinstance(body, EpochRecord):
            files = (*body.files, *body.dirty_files, *body.late_files)
        elif isinstance(body, SwapRecord):
            files = body.live
        for file in files:
            path = Path(self.log.layout.attempt(file.staged))
            if path.exists():
                final = Path(self.log.layout.final(file.final))
                final.parent.mkdir(parents=True, exist_ok=True)
                path.rename(final)

    # What must hold

    def content(self) -> Rows:
        """Rows by hour.

        Raises:
            ViolationError: A row is there twice.
        """
        self._seen.read_through(self._last_slot())
        rows: Rows = {}
        for hour, files in self._seen.book.live():
            names = (file.final.rpartition("/")[2] for file in files)
            rows[hour] = sorted(row for name in names for row in self._numbers[name])
            twice = [row for row, count in Counter(rows[hour]).items() if count > 1]
            if twice:
                raise ViolationError(f"{self.name}: rows {twice} of {hour} are there twice")
        return {hour: found for hour, found in rows.items() if found}

    def _last_slot(self) -> int:
        return max((record.seq for record, _ in self.log.records()), default=-1)

    def owes(self, wanted: Rows) -> str:
        """What is left to do until it has what the first table has; empty for nothing."""
        if self._aside:
            return f"rows {self._aside} are aside"
        fold = LedgerLog(LocalStorage(), self.log.layout).fold()
        client, read = TableClient(self.options), ReadSoFar.of(fold)
        if not read.ends or read.ends != {
            one: bounds.end_offset for one, bounds in client.bounds([self.topic]).items()
        }:
            return "rows are not read"
        due = Rereading(client, lambda: route_plan(""), self.ledger).due(read, self.log)
        if due:
            return f"{due} are due"
        found = self.content()
        return "" if found == wanted else f"it has {found}, the table that is read {wanted}"


def _add_batch(rows: Rows, batch: Any) -> None:
    columns = batch.values.columns
    hours, numbers = columns["app"].to_pylist(), columns["ts"].to_pylist()
    for hour, number in zip(hours, numbers, strict=True):
        rows.setdefault(hour, []).append(number)


class CorrectedWorld(World):
    """Everything of one seed.

    Args:
        seed: Of all choices.
        folder: Empty.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.hands_over = False
        refined = str(folder / "refined")
        self._links = (
            Link(self, "refined", str(self.table.root), refined),
            Link(self, "again", refined, str(folder / "again")),
        )

    @property
    def is_well(self) -> bool:
        """Whether nothing dies any more."""
        return self._well

    def note(self, what: str) -> None:
        """Keep it in the trace."""
        self._note(what)

    def next_term(self) -> int:
        """A number for a driver."""
        self._terms += 1
        return self._terms

    def live(self) -> None:
        """The whole history.

        Raises:
            ViolationError: A promise was broken; the trace says how.
        """
        self._add()
        for _ in range(2 * STEPS):
            (step,) = self.rng.choices((self.above, self._turn), (2, 5))
            step()
            for link in self._links:
                link.content()
        self._end()

    def above(self) -> None:
        """Something happens to the first table."""
        actions = (self._add, self._add_late, self._merge, self._swap, self._upstream_dies)
        (action,) = self.rng.choices(actions, (4, 1, 2, 2, 0.5))
        action()

    def _turn(self) -> None:
        self.rng.choice(self._links).turn()

    def _end(self) -> None:
        """The world is well: last drivers read, bring in and rebuild all that is left."""
        self._finish()
        self._well = True
        wanted = {hour: sorted(rows) for hour, rows in self._rows_of.items() if rows}
        for link in self._links:
            link.drivers.clear()
            link.start()
            for _ in range(_LAST_ROUNDS):
                if not link.owes(wanted):
                    break
                link.turn()
            if why := link.owes(wanted):
                raise ViolationError(f"{link.name}: {why}")
