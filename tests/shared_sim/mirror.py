"""Two rooms with a queue each, and a mirror between them; the store spans both.

The mirror adds the origin of a row, and then may repeat itself; or it adds nothing, and the tail
alone says where a room continues. It dies inside a transaction, which hides the copy's last rows.
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from shared_sim.judge import ViolationError
from shared_sim.source import TOPIC, Note, SharedClient, SharedReader, Topic
from shared_sim.world import HOSTS, World
from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.ledger import room_files
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.room_files import HandPosition, SwitchRequest, write_advice
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition, Split, SplitReader
from sluiceway.storage.local import LocalStorage

HEADER = "sw-origin"
_HOME, _OTHER = HOSTS
_AFTER_S, _GIVE_WAY_S = 6.0, 60.0
_MOST_COPIED = 6
_ACTIONS = 24
_LOOKS = 400


class RoomTopic(Topic):
    """The topic in one room: its rows say where they came from.

    Attributes:
        notes: Of rows that have a time or headers.
        open_since: Where the mirror's open transaction began, in logs that have one.
        keeps_transactions: Whether drivers may not end it.
    """

    keeps_transactions = False

    def __init__(self, partitions: Sequence[SourcePartition], cluster: str) -> None:
        super().__init__({one: [] for one in partitions}, cluster)
        self.open_since: dict[SourcePartition, int] = {}

    def end(self, partition: SourcePartition) -> int:
        return self.open_since.get(partition, len(self.logs[partition]))

    def add(self, partition: SourcePartition, value: bytes, note: Note) -> int:
        """Append a row; its offset."""
        log = self.logs[partition]
        self.notes[partition, len(log)] = note
        log.append(value)
        return len(log) - 1


class RoomClient(SharedClient):
    """A driver's view of its room's queue."""

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        topic = self._cluster.topic_here()
        found = {}
        for one in partitions:
            times = (topic.notes[one, at].time_ms or 0 for at in range(len(topic.logs[one])))
            late = (at for at, time_ms in enumerate(times) if time_ms >= timestamp_ms)
            found[one] = next(late, topic.end(one))
        return found

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        self._ask()
        topic = self._cluster.topic_here()
        return {one: LogBounds(0, topic.end(one), len(topic.logs[one])) for one in partitions}

    def end_transactions(self, ids: Sequence[str]) -> None:
        self._ask()
        topic = self._cluster.topic_here()
        assert isinstance(topic, RoomTopic)
        if topic.keeps_transactions:
            raise UnhealthyEnvironmentError("the broker refused it", where=f"id {ids[0]}")
        topic.open_since.clear()


class MirrorWorld(World):
    """Everything of one seed: which proof there is, what the mirror may do, who dies."""

    def __init__(self, seed: int, folder: Path, *, traced: bool = False) -> None:
        partitions = [SourcePartition(TOPIC, n) for n in range(1 + seed % 2)]
        self.queues = {room: RoomTopic(partitions, f"c-{room}") for room in HOSTS}
        super().__init__(seed, folder, traced=traced)
        self.has_header = seed % 3 != 2
        # By the tail, rows of it that become visible later would have to be aborted ones.
        self.queues[_OTHER].keeps_transactions = self.has_header and seed % 5 == 0
        self._copied = dict.fromkeys(partitions, 0)
        self._closed = self._home_lost = self._driverless = self._switched = False
        self._time_ms = 1_000

    def topic_here(self) -> Topic:
        """The queue of the room whose process acts; the home's, for the judge."""
        thread = self.scheduler.current
        return self.queues[_HOME if thread is None else thread.process.host]

    def client(self) -> SourceClient:
        return RoomClient(self)

    def reader(self, splits: list[Split]) -> SplitReader:
        return SharedReader(self, splits)

    def routes(self) -> list[RouteConfig]:
        """The one route, as each driver has it: its room is asked for at the start."""
        return [replace(self._plain[0], topics=(TOPIC,), rooms=self._rule(_HOME))]

    def _rule(self, room: str) -> RoomRule:
        mirror = MirrorRule(
            linked=False,
            exactly_once=not self.has_header,
            origin=HEADER if self.has_header else None,
            own_writers=not self.has_header,
            transactional_ids=("mirror",),
        )
        return RoomRule(
            room,
            _HOME,
            HOSTS,
            auto=True,
            after_s=_AFTER_S,
            give_way_s=_GIVE_WAY_S,
            digest="d",
            mirror=mirror,
        )

    def routes_of(self, room: str, *, bounded: bool) -> list[RouteConfig]:
        """The routes of a driver in a room."""
        del bounded
        return [replace(each, rooms=self._rule(room)) for each in self.routes()]

    # What happens

    def append(self) -> None:
        """Producers write in the home room, and to the copies once that is lost."""
        for _ in range(self.rng.randint(1, 6)):
            self._time_ms += self.rng.randint(0, 2)
            queue = self.queues[_HOME]
            if self._home_lost or (self.has_header and self.rng.random() < 0.2):
                if not self._may_own():
                    return
                queue = self.queues[_OTHER]
            partition = self.rng.choice(list(queue.logs))
            queue.add(partition, self._row(), Note(self._time_ms))

    def _begin_own(self) -> None:
        """Producers of the other room begin as early as they may."""
        for _ in range(_LOOKS):
            if self._may_own():
                break
            self._go_on(self.rng.randint(1, 15))
        self.append()

    def _may_own(self) -> bool:
        """Whether producers write to the copies: without a header, once the switch is done."""
        if self.has_header or self._switched:
            return True
        layout = self._layout()
        fold = None if layout is None else LedgerLog(LocalStorage(), layout).fold()
        if layout is None or fold is None or fold.fence is None or fold.fence.site != _OTHER:
            return False
        self._switched = room_files.has_taken(LocalStorage(), layout, _OTHER, fold.term)
        self.seen["own_rows_by_tail"] += self._switched
        return self._switched

    def _row(self) -> bytes:
        number, self._written = self._written, self._written + 1
        return f'{{"id": {number}}}'.encode()

    def mirror(self) -> None:
        """The mirror copies some rows, perhaps in a transaction that stays open."""
        if self._closed or self._home_lost:
            return
        home, there = self.queues[_HOME], self.queues[_OTHER]
        for one, log in home.logs.items():
            if self.has_header and not home.well and self.rng.random() < 0.15:
                self._copied[one] = self.rng.randint(0, self._copied[one])
                self.note(f"the mirror begins again at {one}@{self._copied[one]}")
                self.seen["mirror_repeats"] += 1
            until = min(len(log), self._copied[one] + self.rng.randint(0, _MOST_COPIED))
            there.open_since.pop(one, None)
            if not home.well and self.rng.random() < 0.2:
                there.open_since[one] = len(there.logs[one])
            for offset in range(self._copied[one], until):
                note = home.notes[one, offset]
                name = f"{home.cluster}/{one.topic}/{one.partition}"
                origin = f"{name}:{offset}@{note.time_ms}".encode()
                headers = ((HEADER, origin),) if self.has_header else ()
                there.add(one, log[offset], Note(note.time_ms, headers))
            self._copied[one] = until

    def lose_home(self) -> None:
        """All that runs in the home room dies, with its brokers."""
        if self._home_lost:
            return
        self.note("the home room is lost")
        self.seen["rooms_lost"] += 1
        self._home_lost = True
        self.lose_drivers()

    def lose_drivers(self) -> None:
        """No driver runs in the home any more; its brokers and the mirror do."""
        self._driverless = True
        for life in self.running():
            if life.process.host == _HOME:
                self.scheduler.kill(life.process)
                for process in life.runner.processes:
                    if not process.dead:
                        self.scheduler.kill(process)

    def confirm(self, by_hand: tuple[HandPosition, ...] = ()) -> None:
        """An operator in the other room confirms what is so: the home never comes back."""
        if not self._home_lost:
            return
        layout = self._layout()
        term = LedgerLog(LocalStorage(), layout).fold().term if layout is not None else 0
        if layout is None or not term:
            return
        self._closed = True
        confirms = ("mirror_closed", "mirror_end", "mirror_only")
        asked = SwitchRequest(
            "i", _OTHER, term, "o@h", "a test", now=True, force=False, requested_ms=1,
            confirms=confirms, by_hand=by_hand,
        )  # fmt: skip
        with suppress(SluicewayError):
            write_advice(LocalStorage(), layout, layout.switch, asked)
        self.seen["confirmed"] += 1

    def _places(self) -> tuple[HandPosition, ...]:
        """First offsets of the other room whose rows are not in the table."""
        found = self._found()
        places = []
        for one, log in self.queues[_OTHER].logs.items():
            lacking = (n for n, value in enumerate(log) if json.loads(value)["id"] not in found)
            places.append(HandPosition(one.topic, one.partition, next(lacking, len(log)), "gap"))
        self.seen["by_hand"] += 1
        return tuple(places)

    def _layout(self) -> LedgerLayout | None:
        found = sorted(self.folder.glob("lake/*.db/raw/_sluiceway/*/log"))
        return None if not found else LedgerLayout(str(found[0].parents[2]), found[0].parent.name)

    def _start_in(self, room: str) -> None:
        if room == _HOME and self._driverless:
            return
        if not any(life.process.host == room for life in self.running()):
            self.start_driver(host=room)

    def trouble(self) -> None:
        """Actions until their number is up; the home is lost in most worlds."""
        self.append()
        self._start_in(_HOME)
        actions = (
            (8, self.append),
            (9, self.mirror),
            (3, lambda: self._start_in(self.rng.choice(HOSTS))),
            (2, self._crash),
            (1, self._pause),
            (1, self.lose_home),
            (1, self.lose_drivers),
            (1, self.confirm),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(self.rng.randint(8, _ACTIONS)):
            self._go_on(int(2000 ** self.rng.random()))
            (call,) = self.rng.choices(calls, weights)
            call()

    def heal(self) -> None:
        """The home is lost for good; the other room has the rest, once."""
        self.note("the world is well from here on")
        self.lose_home()
        self.queues[_OTHER].open_since.clear()
        for queue in self.queues.values():
            queue.well = True
        self.hive.well = True
        for life in self.running():
            life.stop.ask()
            life.process.crash_in = None
            self.scheduler.pause(life.process, paused=False)
        self._until_ended([life.process for life in self.running()])
        if not self._has_begun():
            self.seen["never_begun"] += 1
            return
        self.confirm()
        last = self.start_driver(host=_OTHER)
        self._begin_own()
        for _ in range(60):
            self._go_on_for(10.0)
            if self._missing() == set():
                break
            if last.waits and "no resume position" in last.waits[-1]:
                # No row of a copy is there, or no tail: an operator says where it begins.
                self.confirm(by_hand=self._places())
        last.stop.ask()
        self._until_ended([last.process])
        found = self._found()
        twice = [row for row, count in found.items() if count > 1]
        if twice:
            raise ViolationError(f"rows {sorted(twice)[:9]} are there twice")
        if self._missing():
            why = [*last.halts[:1], last.error, *last.waits[-1:]]
            raise ViolationError(f"rows {sorted(self._missing())[:9]} are never read: {why}")

    def _has_begun(self) -> bool:
        """Whether the home has read anything, so that the other room may go on."""
        layout = self._layout()
        return layout is not None and bool(LedgerLog(LocalStorage(), layout).fold().sources)

    def _missing(self) -> set[int]:
        """Rows of the other room's queue that are not in the table."""
        logs = self.queues[_OTHER].logs.values()
        return {json.loads(value)["id"] for log in logs for value in log} - set(self._found())

    def _found(self) -> Counter[int]:
        layout = self._layout()
        assert layout is not None
        files = sorted(Path(layout.table_root).glob("*.parquet"))
        tables = (pq.read_table(file, partitioning=None) for file in files)
        return Counter(row for table in tables for row in table.column("id").to_pylist())
