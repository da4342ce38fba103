"""Two rooms with a queue each, and a home room that is back: cut off, lost for a while, or alive.

Operators confirm what is so and what is not. The lost room's rows are drained, or given up, and
the job returns to a topic that is created again, or to the one that it has left.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from shared_sim.judge import ViolationError
from shared_sim.mirror import HEADER, MirrorWorld, RoomTopic
from shared_sim.source import Note, SharedReader
from shared_sim.world import HOSTS, Life
from sluiceway.errors import SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.log_tail import tail_runs
from sluiceway.ledger.operator_records import MISSING, SourceChangeRecord
from sluiceway.ledger.records import DataRecord
from sluiceway.ledger.room_files import SwitchRequest, lost_room, write_advice
from sluiceway.operate import drain
from sluiceway.operate.switch import RoutePlace
from sluiceway.sources.contract import SourcePartition, Split, SplitReader
from sluiceway.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.scheduler import Process

_HOME, _OTHER = HOSTS
_CONFIRMS = ("mirror_closed", "mirror_end", "mirror_only")
_ACTIONS = 40
_OWN_ROWS = 0.3
_DRAIN_S = 20.0
_REFUSED_FOR = 6


class ReturningWorld(MirrorWorld):
    """Everything of one seed: what the operators believe, and what is so.

    Attributes:
        cut: Hosts that neither the store nor another room can be reached from.
    """

    def __init__(self, seed: int, folder: Path, *, traced: bool = False) -> None:
        super().__init__(seed, folder, traced=traced)
        self.cut: set[str] = set()
        self._back_to: RoomTopic | None = None
        self._drained: list[tuple[drain.LeftLog, ...]] = []
        self._operators: list[Process] = []
        self._is_drained = self._given_up = self._lied = False

    def reader(self, splits: list[Split]) -> SplitReader:
        return SharedReader(self, splits)

    def is_sick(self, place: str) -> bool:
        """A host that is cut off reaches no file."""
        thread = self.scheduler.current
        return super().is_sick(place) or (thread is not None and thread.process.host in self.cut)

    # What happens

    def append(self) -> None:
        """Producers write where their room is."""
        for _ in range(self.rng.randint(1, 6)):
            self._time_ms += self.rng.randint(0, 2)
            queue = self.queues[_HOME]
            if self._home_lost or (self.has_header and self.rng.random() < _OWN_ROWS):
                if not self.has_header:
                    return
                queue = self.queues[_OTHER]
            partition = self.rng.choice(list(queue.logs))
            # Before its first copy, a row of its own would hide that copies lack their header.
            if queue is not self._back_to or queue.logs[partition]:
                queue.add(partition, self._row(), Note(self._time_ms))

    def mirror(self) -> None:
        """The mirror copies to the room that does not have the rows."""
        if self.cut:
            return
        if self._back_to is None:
            super().mirror()
            return
        came_from = self.queues[_OTHER]
        for one, log in came_from.logs.items():
            if self.rng.random() < 0.15 and not came_from.well:
                self._copied[one] = self.rng.randint(0, self._copied[one])
            until = min(came_from.end(one), self._copied[one] + self.rng.randint(0, 6))
            for offset in range(self._copied[one], until):
                note = came_from.notes[one, offset]
                name = f"{came_from.cluster}/{one.topic}/{one.partition}"
                origin = f"{name}:{offset}@{note.time_ms}".encode()
                headers = (*note.headers, (HEADER, origin))
                self._back_to.add(one, log[offset], Note(note.time_ms, headers))
            self._copied[one] = max(self._copied[one], until)

    def cut_off(self) -> None:
        """A room loses all connections but to its own brokers, or has them again."""
        if self.cut:
            self.cut.clear()
        else:
            self.cut = {self.rng.choice(HOSTS)}
            self.seen["rooms_cut"] += 1
        self.note(f"cut off: {sorted(self.cut)}")

    def return_home(self) -> None:
        """The home room is back, with all that its brokers had."""
        if self._home_lost:
            self.note("the home room is back")
            self.seen["rooms_back"] += 1
            self._home_lost = self._driverless = False

    def confirm_something(self) -> None:
        """An operator takes the home for lost, perhaps wrongly, or names a term of before."""
        fold = self._fold()
        if fold is None or not fold.term or self._is_back():
            return
        term, luck = fold.term, self.rng.random()
        if luck < 0.4:
            self.note("an operator confirms for a term that is over")
            self._ask(_OTHER, term - 1, now=True, confirms=_CONFIRMS)
            return
        if luck < 0.55 and not self._closed and not self.has_header:
            self._lied = True
            self.seen["lies"] += 1
        elif not self.has_header:
            # The operator has stopped the mirror for good.
            self._closed = True
            self.queues[_OTHER].open_since.clear()
        self.note(f"an operator confirms{' what is not so' * self._lied}")
        self._ask(_OTHER, term, now=True, confirms=_CONFIRMS)

    def _is_back(self) -> bool:
        return self._back_to is not None

    def switch_back(self) -> None:
        """An operator has the job return to the home, whatever topic is there."""
        fold = self._fold()
        if self._home_lost or fold is None or fold.fence is None or fold.fence.site != _OTHER:
            return
        self.note("an operator switches back to the home")
        self.seen["switched_back"] += 1
        self._ask(_HOME, fold.term, now=not self.queues[_HOME].well and self.rng.random() < 0.3)

    def _ask(self, to: str, term: int, *, now: bool, confirms: tuple[str, ...] = ()) -> None:
        layout = self._layout()
        if layout is None:
            return
        asked = SwitchRequest(
            "i", to, term, "o@h", "a test", now=now, force=False, requested_ms=1, confirms=confirms
        )
        with suppress(SluicewayError):
            write_advice(LocalStorage(), layout, layout.switch, asked)

    def drain(self) -> None:
        """An operator in the home waits until no row is left there."""
        fold = self._fold()
        if self._home_lost or not self.has_header or self._is_back() or fold is None:
            return
        process = self.scheduler.process("drain", _HOME)
        self._operators.append(process)

        def run() -> None:
            self._drain()
            self.scheduler.kill_soon(process)

        self.scheduler.spawn(process, run, "main")

    def _drain(self) -> None:
        config = self.routes_of(_HOME, bounded=False)[0]
        layout = self._layout()
        assert layout is not None
        assert config.rooms is not None
        with suppress(SluicewayError):
            log = LedgerLog(LocalStorage(), layout)
            place = RoutePlace(config, config.rooms, log.storage, layout, log, log.fold())
            left = drain.await_drain(place, _HOME, self.client(), _DRAIN_S)
            if not any(each.rows for each in left):
                self._drained.append(left)
                drain.give_up(place, _HOME, "o@h", "", drained=True)

    def give_up(self) -> None:
        """An operator has nothing wait for the home any more."""
        fold, layout = self._fold(), self._layout()
        if fold is None or layout is None or self.rng.random() < 0.7:
            return
        config = self.routes_of(_OTHER, bounded=False)[0]
        assert config.rooms is not None
        log = LedgerLog(LocalStorage(), layout)
        place = RoutePlace(config, config.rooms, log.storage, layout, log, fold)
        with suppress(SluicewayError):
            drain.give_up(place, _HOME, "o@h", "a test", drained=False)
            self._given_up = True

    def create_again(self) -> None:
        """The home's topic is created again, once it is drained; the mirror copies back to it."""
        fold = self._fold()
        if not self._is_drained or self._is_back() or self._home_lost or fold is None:
            return
        if fold.fence is None or fold.fence.site != _OTHER or self._left_in_home():
            return
        self.note("the home's topic is created again")
        self.seen["created_again"] += 1
        self._old = self.queues[_HOME]
        partitions = list(self._old.logs)
        self._back_to = RoomTopic(partitions, self._old.cluster)
        self._back_to.topic_id = "t2"
        self._back_to.well = self._old.well
        self.queues[_HOME] = self._back_to
        self._copied = dict.fromkeys(partitions, 0)

    def _left_in_home(self) -> bool:
        """Whether the home has rows that the table lacks; its producers have stopped by then."""
        return bool(_ids(self.queues[_HOME]) - self._committed())

    def trouble(self) -> None:
        """Actions until their number is up."""
        self.append()
        self._start_in(_HOME)
        actions = (
            (8, self.append),
            (6, self.mirror),
            (5, lambda: self._start_in(self.rng.choice(HOSTS))),
            (1, self._crash),
            (1, self._pause),
            (2, self.lose_home),
            (1, self.return_home),
            (1, self.cut_off),
            (3, self.confirm_something),
            (1, self.switch_back),
            (2, self.drain),
            (1, self.give_up),
            (2, self.create_again),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(self.rng.randint(12, _ACTIONS)):
            self._go_on(int(2500 ** self.rng.random()))
            if self._home_lost and not self.cut:
                self._start_in(_OTHER)
            (call,) = self.rng.choices(calls, weights)
            call()
            self._check_claims()

    # What has to be so

    def _check_claims(self) -> None:
        """Nothing is drained that the table lacks, and times wait for the home's last rows."""
        if self._drained:
            committed = self._committed()
            for left in self._drained:
                for each in left:
                    log = self.queues[_HOME].logs[each.partition][: each.log_end]
                    lacking = {json.loads(value)["id"] for value in log} - committed
                    if lacking and not self._is_back():
                        raise ViolationError(f"drained, and rows {sorted(lacking)[:9]} are missing")
            self._drained.clear()
            self._is_drained = True
            self.seen["drained"] += 1
        fold, layout = self._fold(), self._layout()
        if fold is None or layout is None or not self._home_lost or not self.has_header:
            return
        moved = any(
            each.cluster_id == self.queues[_OTHER].cluster for each in fold.sources.values()
        )
        # Where a driver released its route in order, the mirror lived: no room was lost then.
        in_order = self.seen["room_released"] or self.seen["switched_back"]
        over = in_order or self._is_drained or self._given_up
        if moved and not over and lost_room(LocalStorage(), layout, _OTHER) is None:
            raise ViolationError("no time waits for the rows of the lost room")

    def _fold(self) -> Fold | None:
        layout = self._layout()
        return None if layout is None else LedgerLog(LocalStorage(), layout).fold()

    def _committed(self) -> set[int]:
        """Rows of the ledger, whether their files have their final names or not."""
        layout = self._layout()
        assert layout is not None
        found: set[int] = set()
        for record, _ in LedgerLog(LocalStorage(), layout).records():
            if isinstance(record.body, DataRecord):
                for file in record.body.files:
                    places = (Path(layout.attempt(file.staged)), Path(layout.final(file.final)))
                    path = next(each for each in places if each.exists())
                    found.update(pq.read_table(path, partitioning=None).column("id").to_pylist())
        return found

    def heal(self) -> None:
        """All rooms are well again; what the mirror copies arrives, and each row is there once."""
        self.note("the world is well from here on")
        self.cut.clear()
        self.return_home()
        for queue in self.queues.values():
            queue.well = True
            queue.open_since.clear()
        self.hive.well = True
        for life in self.running():
            life.stop.ask()
            life.process.crash_in = None
            self.scheduler.pause(life.process, paused=False)
        self._until_ended([*self._operators, *(life.process for life in self.running())])
        self._check_claims()
        if not self._has_begun():
            self.seen["never_begun"] += 1
            return
        # The other room may be lost now, and the home has the topic that it has left.
        hosts = HOSTS if self.rng.random() < 0.7 else (_HOME,)
        lives = [self.start_driver(host=host) for host in hosts]
        if len(hosts) > 1 and self.has_header and self.rng.random() < 0.7:
            self._come_home()
        for turn in range(40):
            self._mirror_on()
            refused = turn > _REFUSED_FOR and self._refuses(self._waits(lives))
            if refused or not self._lacking() or any(life.halts for life in lives):
                break
        self._end(lives)
        self._check_end(lives)

    def _mirror_on(self) -> None:
        for _ in range(5):
            self.mirror()
        self._go_on_for(8.0)
        self._check_claims()

    def _come_home(self) -> None:
        """What the guide says: drain the home, create its topic again, switch back."""
        steps: tuple[tuple[Callable[[], None], Callable[[], bool]], ...] = (
            (self.drain, lambda: self._is_drained),
            (self.create_again, self._is_back),
            (self.switch_back, lambda: self._holder() == _HOME),
        )
        for action, is_done in steps:
            for _ in range(20):
                if is_done() or self._holder() == _HOME:
                    break
                action()
                self._mirror_on()
                if self._is_back() and self.rng.random() < 0.5:
                    self.append()

    def _holder(self) -> str:
        fold = self._fold()
        return "" if fold is None or fold.fence is None else fold.fence.site or _HOME

    def _end(self, lives: list[Life]) -> None:
        """End the driver that has the route, once no other can take over."""
        holder = self._holder()
        for life in lives:
            if life.process.host != holder and not life.process.dead:
                self.scheduler.kill(life.process)
        for life in lives:
            life.stop.ask()
        self._until_ended([life.process for life in lives])

    def _check_end(self, lives: list[Life]) -> None:
        found = self._found()
        twice = {row for row, count in found.items() if count > 1} - self._may_be_twice()
        if twice:
            raise ViolationError(f"rows {sorted(twice)[:9]} are there twice")
        halts = [text for life in lives for text in life.halts]
        if self._lied and any("`mirror_closed` was confirmed" in text for text in halts):
            self.seen["halted_by_a_lie"] += 1
            return
        if self._lacking():
            why = [*halts[:1], *self._waits(lives)]
            if not halts and self._refuses(why):
                self.seen["refused"] += 1
                return
            raise ViolationError(f"rows {sorted(self._lacking())[:9]} are never read: {why}")

    @staticmethod
    def _waits(lives: list[Life]) -> list[str]:
        """What each driver says last."""
        return [text for life in lives for text in (life.error, *life.waits[-1:])]

    @staticmethod
    def _refuses(why: list[str]) -> bool:
        """Whether a room says why it does not take over, and an operator can decide it."""
        return any("no resume position" in each or "could continue in its" in each for each in why)

    def _lacking(self) -> set[int]:
        """Rows that the table should have: of all rooms, where copies name their rows."""
        fold = self._fold()
        assert fold is not None
        clusters = {each.cluster_id for each in fold.sources.values()}
        came_back = self._is_back() or (self.has_header and self.queues[_OTHER].cluster in clusters)
        read = [q for q in self.queues.values() if came_back or q.cluster in clusters]
        rows = set().union(*map(_ids, read))
        return rows - set(self._found())

    def _may_be_twice(self) -> set[int]:
        """Rows that no ledger can know of, once an operator has confirmed what is not so."""
        layout = self._layout()
        if not self._lied or layout is None:
            return set()
        found: set[int] = set()
        for record, _ in LedgerLog(LocalStorage(), layout).records():
            if not isinstance(record.body, SourceChangeRecord):
                continue
            for each in record.body.partitions:
                log = self.queues[_HOME].logs[SourcePartition(each.topic, each.partition)]
                missing = len(tail_runs(each.evidence.get(MISSING, "")))
                if missing:
                    before = log[: int(each.old_end) - missing]
                    found.update(json.loads(value)["id"] for value in before)
        return found


def _ids(queue: RoomTopic) -> set[int]:
    return {json.loads(value)["id"] for log in queue.logs.values() for value in log}
