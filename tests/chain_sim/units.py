"""A table with its ledger on this disk, and drivers that compute its hours: all from one seed.

The table's driver commits, publishes late, merges, replaces, lets go, announces and dies. Drivers
that compute its hours die at any record and in the middle of the SQL, go on as zombies, and start
with another query. They use the recomputer, the swap and the ledger that ship; the SQL of an hour
is all of its rows, so what a driver has computed can be judged row by row.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast
from unittest.mock import patch
from uuid import uuid4

import pyarrow.parquet as pq

from chain_sim.world import STEPS, ViolationError, World, no_wait
from sluiceway.chains import lake_units
from sluiceway.chains.lake_units import LakeUnits, _HeldFile
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.chains.unit_tables import LedgerUnits, partition_values
from sluiceway.chains.units import UnitRule, UnitWhen
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.errors import FencedError, SourceUnavailableError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import AbandonRecord, ReadyRecord, SwapRecord
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.schedule.unit_sql import UnitQuery, UnitResult
from sluiceway.sinks.iceberg.table_history import LastSnapshot, Lineage, property_name
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import recomputing
from sluiceway.upkeep.recomputing import Recomputer, UnitWork
from sluiceway.upkeep.record_queue import Build, RecordQueue
from tools.ledger_records import LEDGER, fence, sources
from tools.table_on_disk import TableOnDisk

_QUERIES = ("a" * 64, "b" * 64)
_DIES = 0.04
_ROUNDS = 30


class DiedError(FencedError):
    """A driver dies here: nothing that it would do comes any more."""


class Mortal(Protocol):
    """Whose drivers may die at any record."""

    def may_die(self) -> None:
        """Called before and after one lands; raises `DiedError` where the driver dies."""


class QueueAtOnce(RecordQueue):
    """Puts what is asked for at once, as the driver's thread does in its next turn."""

    def __init__(self, world: Mortal, writer: LedgerWriter) -> None:
        super().__init__(writer.log, writer.fold.closed)
        self._world = world
        self._writer = writer
        self._table = TableOnDisk(Path(), writer)

    def ask(self, build: Build) -> "Future[int | None]":
        answer = super().ask(build)
        self.serve(self._put)
        return answer

    def _put(self, build: Build) -> int | None:
        self._world.may_die()
        self._writer.read_new()
        if self.owes_closing(self._writer.fold):
            self._table.rows(closed=self.closed())
        done = self._writer.commit_made(build)
        if done is None:
            return None
        self._writer.set_published()
        self._world.may_die()
        return done.seq


class _AtOnce:
    """A pool of threads that has none."""

    def submit(self, call: Callable[..., Any], *given: Any) -> "Future[Any]":
        """The work is over when this returns."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            done.set_exception(error)
        return done


@dataclass(frozen=True, slots=True)
class Computed:
    """What a driver has written for an hour: the numbers of the rows, and the query."""

    rows: tuple[int, ...]
    query: str


class _SnapshotUnits(LakeUnits):
    """Units of the table as an Iceberg table: a snapshot has its files up to some slot."""

    def __init__(self, world: "UnitWorld", rule: UnitRule) -> None:
        self._world = world
        self._options = LakeUpstream("ods.orders", ())
        self._files = {}
        self._lake = world.snapshot()
        root, none = str(world.table.root), cast("Any", None)
        LedgerUnits.__init__(self, root, NO_STORES, rule, none, self._options.topic)

    def _read_manifests(self, table: Any) -> list[Any]:
        del table
        return self._world.held_files


class UnitWorld(World):
    """Everything of one seed.

    Args:
        seed: Of all choices; every third one follows no announcements, and the table of every
            fourth one is an Iceberg table.
        folder: Empty.

    Attributes:
        held_files: Files of the newest snapshot.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self._when = UnitWhen.SETTLED if seed % 3 == 2 else UnitWhen.READY
        self._query = _QUERIES[0]
        self._drivers: list[tuple[int, Recomputer]] = []
        self._nested = False
        self._is_lake = seed % 4 == 3
        self._through = -1
        self.held_files: list[_HeldFile] = []
        self._lost: set[str] = set()
        self._history: list[tuple[int, dict[str, tuple[int, ...]]]] = []
        self._computed: dict[str, Computed] = {}

    def live(self) -> None:
        """The whole history.

        Raises:
            ViolationError: A promise was broken; the trace says how.
        """
        if not self._is_lake:
            self._live()
            return
        made: Any = {
            "lake_table": lambda _: self.snapshot(),
            "lineage": lambda *_: Lineage.GOOD,
            "readable": lambda *_: None,
        }
        with (
            patch.multiple(lake_units, **made),
            patch.object(
                recomputing, "open_unit_table", lambda _, rule: _SnapshotUnits(self, rule)
            ),
        ):
            self._live()

    def _live(self) -> None:
        self._change(self._add)
        for _ in range(STEPS):
            (step,) = self.rng.choices((self._above, self._round, self._ask_again), (6, 5, 0.5))
            step()
            self._check()
        self._end()

    # As an Iceberg table

    def snapshot(self) -> Any:
        """The table as its catalog has it."""
        last = LastSnapshot(self._through, 1, 1, "0" * 16)
        named = {} if self._through < 0 else {property_name(LEDGER): str(last)}
        return SimpleNamespace(metadata=SimpleNamespace(table_uuid="u", properties=named))

    def _publish(self) -> None:
        """A snapshot gets the files of all slots whose rows are published."""
        self._finish()
        found = UpstreamLedger(str(self.table.root), NO_STORES, RowBook(COUNTED_ONLY))
        found.read_on()
        self._through = found.book.slot
        self.held_files = [
            _HeldFile(partition_values(name), found.layout.final(file.final), int(file.rows))
            for name, files in found.book.live()
            for file in files
        ]
        self._note(f"snapshot through slot {self._through}")

    # The table that is read

    def _above(self) -> None:
        """Something happens to the table that is read."""
        actions: list[tuple[float, Callable[[], None]]] = [
            (3, self._add),
            (1, self._add_late),
            (2, self._merge),
            (1, self._swap),
            (0.2, self._let_go),
            (4, self._announce),
            (0.5, self._upstream_dies),
        ]
        if self._is_lake:
            # Merges and deletes are no records of its ledger.
            gone = (self._merge, self._let_go)
            actions = [(3, self._publish), *(each for each in actions if each[1] not in gone)]
        weights, calls = zip(*actions, strict=True)
        (action,) = self.rng.choices(calls, weights)
        self._change(action)

    def _change(self, action: Callable[[], None]) -> None:
        action()
        rows = {hour: tuple(found) for hour, found in self._rows_of.items()}
        self._history.append((self.table.table.writer.fold.next_seq - 1, rows))

    def _let_go(self) -> None:
        filled = set(self._filled)
        self._expire()
        # An hour that has lost rows stays as it was computed.
        self._lost |= filled - self._filled

    def _announce(self, hour: str = "") -> None:
        self._finish()
        if not self._filled:
            return
        hour = hour or self.rng.choice(sorted(self._filled))
        if hour not in self.table.table.writer.fold.closed:
            self.table.table.rows(closed=(hour,))
        try:
            self._note(f"announce {hour} in slot {self.table.announce(hour)}")
        except AssertionError:
            # It has no new rows.
            return

    # Drivers that compute

    def _ask_again(self) -> None:
        """Another query: its driver stops, and a new one starts with it."""
        self._query = self.rng.choice([each for each in _QUERIES if each != self._query])
        self._drivers.clear()
        self._note(f"query {self._query[0]}")

    def _begin(self) -> None:
        self._terms += 1
        log = LedgerLog(LocalStorage(), self._log.layout)
        writer = LedgerWriter(log, log.fold(), no_wait)
        writer.fence(fence(driver=f"d{self._terms}", ledger="d" * 32, job="units"), lambda: None)
        if not writer.fold.sources:
            writer.commit(sources(0))
        for intent in sorted(writer.fold.intents):
            writer.commit(AbandonRecord(intent, "its driver has ended"))
        writer.set_published()
        rule, none = UnitRule(("dt", "hr"), self._when, 0, self._query), cast("Any", None)
        work = UnitWork(rule, none, self._options, "hourly", self, lambda: none, 0.0)
        quiet: Any = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
        driver = Recomputer(QueueAtOnce(self, writer), work, quiet)
        driver._threads = _AtOnce()  # type: ignore[assignment]
        self._drivers = [*self._drivers, (self._terms, driver)][-2:]
        self._note(f"start driver {self._terms}")

    def _round(self) -> bool:
        if not self._drivers or self.rng.random() < 0.1:
            self._begin()
        number, driver = self.rng.choice(self._drivers)
        self._note(f"round of driver {number}")
        try:
            return driver._round()
        except FencedError as error:
            self._drivers = [each for each in self._drivers if each[0] != number]
            self._note(f"{'died' if isinstance(error, DiedError) else 'fenced'} driver {number}")
            return True
        except SourceUnavailableError:
            self._note(f"lease of driver {number} is another's")
            return True

    def may_die(self) -> None:
        """Called where a driver may die.

        Raises:
            DiedError: It does.
        """
        if not self._well and self.rng.random() < _DIES:
            raise DiedError("it died")

    def columns(self, *_: Any) -> Any:
        """See `UnitSql.columns`: a table of its own has its columns."""
        raise AssertionError

    def run(self, query: UnitQuery, check: Callable[[], None]) -> UnitResult:
        """See `UnitSql.run`. The table goes on meanwhile, and another driver may start."""
        self.may_die()
        rows: list[int] = []
        for part in query.files.partitions:
            for path in part.paths:
                rows += pq.read_table(path)["ts"].to_pylist()
            if not self._well and self.rng.random() < 0.4:
                self._above()
        if not self._well and not self._nested and self.rng.random() < 0.05:
            self._nested = True
            self._begin()
            self._round()
            self._nested = False
        self.may_die()
        check()
        return UnitResult(len(rows), (self._written(query, rows),))

    def _written(self, query: UnitQuery, rows: list[int]) -> FileRecord:
        values, name = query.output.values, f"{uuid4().hex}.parquet"
        staged = f"{query.output.attempt}/{name}"
        self._computed[staged] = Computed(tuple(sorted(rows)), self._query)
        folder = partition_folder(("dt", "hr"), values)
        return FileRecord(staged, f"{folder}/{name}", values, BigInt(1), BigInt(9), "00000001", {})

    # What must hold

    def _bodies(self, log: LedgerLog, kind: type[Any]) -> list[tuple[int, Any]]:
        return [(each.seq, each.body) for each, _ in log.records() if isinstance(each.body, kind)]

    def _check(self) -> None:
        announced = self._bodies(self.table.table.log, ReadyRecord)
        last: dict[str, SwapRecord] = {}
        merged = sorted(
            [*self._bodies(self._log, SwapRecord), *self._bodies(self._log, ReadyRecord)],
            key=lambda each: each[0],
        )
        for seq, body in merged:
            before = last.get(body.prefix)
            if isinstance(body, SwapRecord):
                last[body.prefix] = body
                self._judge_swap(seq, body, before, announced)
            elif before is None:
                raise ViolationError(f"slot {seq} announces {body.prefix}, which is not computed")
            elif self._when is UnitWhen.READY and (
                body.because is None or body.because.version != before.inputs[0].version
            ):
                raise ViolationError(f"slot {seq} announces {body.prefix} for {body.because}")

    def _judge_swap(
        self,
        seq: int,
        body: SwapRecord,
        before: SwapRecord | None,
        announced: list[tuple[int, ReadyRecord]],
    ) -> None:
        (read,) = body.inputs
        rows = next((held for slot, held in reversed(self._history) if slot <= read.slot), {})
        wanted = tuple(sorted(rows.get(body.prefix, ())))
        found = self._computed[body.live[0].staged].rows
        if found != wanted:
            raise ViolationError(f"slot {seq}: {body.prefix} was {wanted}, computed from {found}")
        if (
            before is not None
            and (before.inputs[0].version, before.sql) == (read.version, body.sql)
            and self._computed[before.live[0].staged].rows == found
        ):
            raise ViolationError(f"slot {seq} computes {body.prefix} again for nothing")
        if self._when is UnitWhen.READY and not any(
            (each.prefix, each.version) == (body.prefix, read.version) and read.slot <= slot
            for slot, each in announced
        ):
            raise ViolationError(f"slot {seq} has rows of {body.prefix} that are not announced")

    def _announce_all(self) -> None:
        for hour in sorted(self._filled):
            self._change(lambda hour=hour: self._announce(hour))  # type: ignore[misc]
        if self._is_lake:
            self._publish()

    def _end(self) -> None:
        """The world is well: all is announced, and a last driver computes all that is due."""
        self._well = True
        self._announce_all()
        self._drivers.clear()
        if self.rng.random() < 0.3:
            self._ask_again()
        self._begin()
        ((_, driver),) = self._drivers
        for _ in range(_ROUNDS):
            if not driver._round():
                break
        else:
            raise ViolationError("there is always something to compute")
        self._check()
        announced = {
            each.prefix: each for _, each in self._bodies(self.table.table.log, ReadyRecord)
        }
        swaps = {each.prefix: (seq, each) for seq, each in self._bodies(self._log, SwapRecord)}
        ready = {each.prefix: (seq, each) for seq, each in self._bodies(self._log, ReadyRecord)}
        for hour in self._filled - self._lost:
            if hour not in swaps:
                raise ViolationError(f"{hour} is never computed")
            (at, swap), (seen, said) = swaps[hour], ready.get(hour, (-1, None))
            found = self._computed[swap.live[0].staged]
            if found != Computed(tuple(sorted(self._rows_of[hour])), self._query):
                raise ViolationError(f"{hour} has the rows {found}, now {self._rows_of[hour]}")
            if seen < at:
                raise ViolationError(f"{hour} was computed in slot {at} and is not announced")
            if self._when is UnitWhen.READY and (
                said is None or said.because.version != announced[hour].version
            ):
                raise ViolationError(f"{hour} is announced for {said}, not {announced[hour]}")
