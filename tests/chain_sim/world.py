"""A table with its ledger on this disk, and drivers of a route that reads it: all from one seed.

The table's driver commits, publishes late, merges, lets go and dies. Drivers of the route start,
read a part, die before or after their record has landed, and go on as zombies. They use the client,
the reader, the planner and the ledger that ship. Row n of the table is record n of its topic, so
what a follower has committed can be judged row by row.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sluiceway.chains import reader as reader_module
from sluiceway.chains.client import TableClient
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.reader import TableReader
from sluiceway.chains.unit_tables import LedgerUnits
from sluiceway.errors import FencedError, OffsetsLostError
from sluiceway.ledger import reader_leases
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.placing import placed
from sluiceway.ledger.reader_leases import lease_name, read_reader_lease
from sluiceway.ledger.records import SourcesRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.route.route_planner import hand_over_record
from sluiceway.schedule.planner import PlannedSplit, new_partitions, plan_sources, plan_splits
from sluiceway.schedule.start_offsets import ResolvedStart
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
    Split,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep import backfiller, recomputing
from tools.ledger_records import data, fence, span
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

STEPS = 45
TABLE, TOPIC = SourcePartition("table:ods.orders", 0), SourcePartition("orders", 0)
GROUP = "sluiceway-chain-anew"
_HOURS = tuple(f"dt=20261120/hr={hour:02}" for hour in range(3))
_MOST_FOLLOWERS = 2
_AHEAD = 3
"""Records of the topic that the table does not have yet."""


class ViolationError(Exception):
    """A promise was broken."""


def sources_due(
    fold: Fold, client: SourceClient, log: SourcePartition
) -> tuple[SourcesRecord | None, Mapping[SourcePartition, LogBounds]]:
    """The record that pins a table that is not pinned yet, and what there is of it."""
    found, bounds = client.discover([log.topic]), client.bounds([log])
    wanted = Subscription((log.topic,), "", "earliest")
    new = new_partitions(fold, wanted, found)
    starts = {one: ResolvedStart(bounds[one].start_offset, "earliest") for one in new}
    return plan_sources(fold, wanted, found, bounds, starts), bounds


def no_wait(attempts: int, error: Exception) -> None:
    raise AssertionError((attempts, error))


class Topic:
    """The topic that fills the table, as far as a route asks for it."""

    def discover(self, topics: tuple[str, ...]) -> tuple[DiscoveredPartition, ...]:
        """Its one partition."""
        del topics
        return (DiscoveredPartition(TOPIC, SourceIdentity("c1", "t1"), None),)


@dataclass
class Follower:
    """One driver of the route that reads the table.

    Attributes:
        read: What its tasks have read and it has not committed.
    """

    number: int
    client: Any
    writer: LedgerWriter
    read: tuple[PlannedSplit, list[int], int, int | None] | None = None
    epoch: int = 0
    reports: list[int] = field(default_factory=list)


class World:
    """Everything of one seed.

    Args:
        seed: Of all choices; every other one hands over to the topic.
        folder: Empty.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.log = TABLE
        self.hands_over = seed % 2 == 1
        self.table: RowsOnDisk = rows_on_disk(folder)
        self._options = UpstreamOptions("ods.orders", "", root=str(self.table.root))
        self._log = LedgerLog(LocalStorage(), LedgerLayout(str(folder / "down"), "anew"))
        for place in (self._log.layout.log, self._log.layout.stage):
            self._log.storage.make_folders(place)
        self.seen: Counter[str] = Counter()
        self.trace: list[str] = []
        self.landed: dict[int, list[int]] = {}
        self._followers: list[Follower] = []
        self._terms = 0
        self._late: Callable[[], None] | None = None
        self._slots: list[tuple[int, int]] = []
        self._filled: set[str] = set()
        self._rows_of: dict[str, list[int]] = {}
        self._gone: dict[int, int] = {}
        self._well = False
        self.halted = False

    def live(self) -> None:
        """The whole history.

        Raises:
            ViolationError: A promise was broken; the trace says how.
        """
        self._add()
        actions = (
            (4, self._add),
            (1, self._add_late),
            (2, self._merge),
            (0.2 if not self.hands_over else 0, self._expire),
            (0.5, self._upstream_dies),
            (1, self._start),
            (0.7, self._die),
            (9, self._turn),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(STEPS):
            (call,) = self.rng.choices(calls, weights)
            call()
            self._check()
            if self.halted:
                return
        self._end()

    def _note(self, what: str) -> None:
        self.trace.append(what)
        self.seen[what.split(maxsplit=1)[0]] += 1

    # The table's driver

    def _finish(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            late()

    def _chosen(self) -> tuple[list[str], int]:
        hours = self.rng.sample(_HOURS, self.rng.randint(1, 3))
        self._filled.update(hours)
        rows = self.rng.randint(1, 5)
        for at, hour in enumerate(hours):
            first = self.table.written + at * rows
            self._rows_of.setdefault(hour, []).extend(range(first, first + rows))
        return hours, rows

    def _add(self) -> None:
        self._finish()
        hours, rows = self._chosen()
        first = self.table.written
        slot = self.table.add(*hours, rows=rows)
        self._slots.append((slot, self.table.written))
        self._note(f"add rows {first} to {self.table.written} in slot {slot}")

    def _add_late(self) -> None:
        """A record lands, and its driver publishes the files later, or its successor does."""
        self._finish()
        hours, rows = self._chosen()
        kept: list[tuple[Any, ...]] = []
        with patch.object(RowsOnDisk, "_write", lambda _, *given: kept.append(given)):
            slot = self.table.add(*hours, rows=rows)
        self._slots.append((slot, self.table.written))
        self._note(f"late slot {slot}")

        def publish() -> None:
            for given in kept:
                self.table._write(*given)

        self._late = publish

    def _merge(self) -> None:
        self._finish()
        if not self._filled:
            return
        name = self.rng.choice(sorted(self._filled))
        self._note(f"merge {name} in slot {self.table.merge(name, self.rng.randint(2, 20))}")

    def _swap(self) -> None:
        self._finish()
        hours = sorted(hour for hour in self._filled if len(self._rows_of[hour]) > 1)
        if not hours:
            return
        hour = self.rng.choice(hours)
        kept = self._rows_of[hour][: self.rng.randint(1, len(self._rows_of[hour]) - 1)]
        self._rows_of[hour] = kept
        self._note(f"swap {hour} in slot {self.table.swap(hour, kept)}")

    def _expire(self) -> None:
        self._finish()
        if not self._filled:
            return
        name = self.rng.choice(sorted(self._filled))
        self._filled.discard(name)
        slot = self.table.expire(name)
        self._gone.update(dict.fromkeys(self._rows_of.pop(name), slot))
        self._note(f"expire {name} in slot {slot}")

    def _upstream_dies(self) -> None:
        """Its successor publishes what was committed."""
        if self.rng.random() < 0.5:
            self._finish()
        log = LedgerLog(LocalStorage(), self.table.table.log.layout)
        writer = LedgerWriter(log, log.fold(), no_wait)
        self._finish()
        writer.fence(fence(driver=f"u{len(self.trace)}"), lambda: None)
        writer.set_published()
        self.table.table = replace(self.table.table, writer=writer)
        self._note("upstream-dies")

    # Drivers of the route

    def _start(self) -> None:
        if len(self._followers) == _MOST_FOLLOWERS:
            self._die()
        self._terms += 1
        log = LedgerLog(LocalStorage(), self._log.layout)
        writer = LedgerWriter(log, log.fold(), no_wait)
        writer.fence(fence(driver=f"d{self._terms}", ledger="d" * 32, job="chain"), lambda: None)
        client = self._client()
        self._followers.append(Follower(self._terms, client, writer))
        self._note(f"start driver {self._terms}")

    def _client(self) -> Any:
        return TableClient(self._options)

    def _die(self) -> None:
        if self._followers:
            gone = self._followers.pop(self.rng.randrange(len(self._followers)))
            self._note(f"die driver {gone.number}")

    def _turn(self) -> None:
        if not self._followers:
            self._start()
        follower = self.rng.choice(self._followers)
        try:
            self._step(follower)
        except FencedError:
            self._followers.remove(follower)
            self._note(f"fenced driver {follower.number}")
        except OffsetsLostError as error:
            self._judge_loss(follower, error)

    def _step(self, follower: Follower) -> None:
        if follower.read is not None and self.rng.random() < 0.8:
            self._commit(follower)
        elif follower.reports and self.rng.random() < 0.5:
            follower.client.report(GROUP, {TABLE: follower.reports.pop()})
            self._note(f"report by driver {follower.number}")
        else:
            self._plan(follower)

    def _plan(self, follower: Follower) -> None:
        writer, client = follower.writer, follower.client
        writer.read_new()
        fold = writer.fold
        following = all(not known.retired for known in fold.sources.values())
        if following:
            due, bounds = sources_due(fold, client, self.log)
            record = (self._hand_over(follower) if self.hands_over else None) or due
            if record is not None:
                writer.commit(record)
                if record.because is not None:
                    client.leave(GROUP)
                self._note(f"sources {[pin.how for pin in record.partitions]}")
                return
        else:
            end = self.table.written + _AHEAD
            bounds = {TOPIC: LogBounds(0, end, end)}
        for planned in plan_splits(fold, bounds, None):
            follower.read = planned, *self._read(planned.split)

    def _hand_over(self, follower: Follower) -> Any:
        topics = SimpleNamespace(
            topics=(TOPIC.topic,), subscription=Subscription((TOPIC.topic,), "", "latest")
        )
        context: Any = SimpleNamespace(
            topics=topics,
            source=follower.client,
            config=SimpleNamespace(interval_s=1.0, topics=(TABLE.topic,)),
            parts=SimpleNamespace(source=Topic()),
        )
        return hand_over_record(context, follower.writer.fold)

    def _read(self, split: Split) -> tuple[list[int], int, int | None]:
        """Rows of some reads, where they end, and the epoch there, where the source has one.

        The table may be merged between two of them.
        """
        if split.partition == TOPIC:
            stop = min(split.start_offset + self.rng.randint(1, 4), self.table.written + _AHEAD)
            return list(range(split.start_offset, stop)), stop, None
        reader = TableReader([split], self._options)
        rows: list[int] = []
        for _ in range(self.rng.randint(1, 6)):
            for batch in reader.read(0.0):
                found = batch.values.columns["ts"].to_pylist()  # type: ignore[attr-defined]
                if found != list(batch.offsets):
                    raise ViolationError(f"places {list(batch.offsets)} have the rows {found}")
                rows += found
            if self._well:
                continue
            if self.rng.random() < 0.2:
                self._merge()
            elif self.rng.random() < 0.1:
                self._add()
        (end,) = reader.ends()
        reader.close(reusable=True)
        if end.rows != len(rows) or end.gaps != end.end_offset - split.start_offset - end.rows:
            raise ViolationError(f"{len(rows)} rows are said to be {end}")
        return rows, end.end_offset, None

    def _commit(self, follower: Follower) -> None:
        assert follower.read is not None
        (planned, rows, end, epoch), follower.read = follower.read, None
        writer, start = follower.writer, planned.range_start
        one = planned.split.partition
        if end == start:
            return
        known = writer.fold.sources.get((one.topic, one.partition))
        if known is None or known.end != start or known.retired:
            # As `follows` of the planner: the epoch was planned from what is not so.
            return
        read = replace(
            span(0, start, end, gaps=end - start - len(rows)),
            topic=one.topic,
            partition=one.partition,
            cluster_id=known.cluster_id,
            topic_id=known.topic_id,
            end_epoch=epoch,
        )
        follower.epoch += 1
        body = data(writer.term, follower.epoch, read)
        committed = writer.commit(lambda now: placed(body, now))
        writer.set_published()
        self.landed[committed.seq] = rows
        if one == TABLE:
            follower.reports.append(end)
        self._note(f"commit rows {start} to {end} of {one.topic} in slot {committed.seq}")
        if self.rng.random() < 0.15:
            # It has landed, and the driver dies before it knows.
            self._followers.remove(follower)
            self._note(f"die driver {follower.number}")

    # What must hold

    def _rows(self) -> list[int]:
        return [row for _, rows in sorted(self.landed.items()) for row in rows]

    def _check(self) -> None:
        twice = [row for row, count in Counter(self._rows()).items() if count > 1]
        if twice:
            raise ViolationError(f"rows {twice} are there twice")
        lease = read_reader_lease(
            LocalStorage(), self.table.table.log.layout.reader(lease_name(GROUP))
        )
        if lease is not None:
            through = max((end for slot, end in self._slots if slot <= lease.slot), default=0)
            first = self._first()
            missing = [row for row in self._missing() if first <= row < through]
            if missing:
                raise ViolationError(f"the lease says slot {lease.slot}, rows {missing} are unread")

    def _first(self) -> int:
        """Where the route began."""
        fold = self._log.fold()
        known = fold.sources.get((TABLE.topic, TABLE.partition))
        return 0 if known is None else known.start

    def _judge_loss(self, follower: Follower, error: OffsetsLostError) -> None:
        """Rows may be lost only where the table let go of them before they were read."""
        known = follower.writer.fold.sources[TABLE.topic, TABLE.partition]
        read = set(self._rows())
        lost = [row for row, slot in self._gone.items() if slot > known.newest_slot]
        if not set(lost) - read:
            raise ViolationError(f"no row was let go of that the route had to read: {error}")
        self.halted = True
        self._note(f"halted driver {follower.number}")

    def _end(self) -> None:
        """The world is well: a last driver reads all that is left."""
        self._finish()
        self._well = True
        self._followers.clear()
        self._start()
        (last,) = self._followers
        for _ in range(200):
            if self.halted or self._is_whole():
                break
            if last not in self._followers:
                self._start()
                (last,) = self._followers
            self._turn()
            self._check()
        if not self.halted and not self._is_whole():
            raise ViolationError(f"rows {self._missing()} are never read")

    def _missing(self) -> list[int]:
        """Rows that are in the table and not in the route's."""
        rows = {*self._rows(), *self._gone}
        return [row for row in range(self._first(), self.table.written) if row not in rows]

    def _is_whole(self) -> bool:
        if self._missing():
            return False
        return not self.hands_over or any(
            not known.retired for (topic, _), known in self._log.fold().sources.items()
            if topic == TOPIC.topic
        )  # fmt: skip


@contextmanager
def _alone() -> Iterator[None]:
    """Leases and units without threads, without a catalog, and without a process that lives on."""
    none: Any = None
    work = SimpleNamespace(end=lambda _: True, wake=lambda: None)
    nothing = SimpleNamespace(add=lambda *_: work)
    with (
        patch.object(reader_leases, "is_alive", lambda _: False),
        patch.object(reader_leases, "process_renewals", lambda: nothing),
        patch.object(backfiller, "process_upkeep", lambda: nothing),
        patch.object(reader_module, "_LOOK_AGAIN_S", 0.0),
        patch.object(recomputing.Recomputer, "_run", lambda _: None),
        patch.object(
            recomputing,
            "open_unit_table",
            lambda above, rule: LedgerUnits(above.root, above.stores, rule, none, above.topic),
        ),
    ):
        yield
    reader_module._KEPT.clear()


def simulate(seed: int, folder: Path, kind: type[World] = World) -> tuple[str, World]:
    """Live one seed: what was broken, empty for nothing."""
    own = folder / str(seed)
    own.mkdir()
    world = kind(seed, own)
    violation = ""
    with _alone():
        try:
            world.live()
        except ViolationError as error:
            violation = str(error)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of the product is one
            violation = f"{type(error).__name__}: {error}"
    shutil.rmtree(own, ignore_errors=True)
    return violation, world
