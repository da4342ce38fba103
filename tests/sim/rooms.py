"""Hosts in two rooms: a room that is lost with all in it, that the brokers do not answer, a switch.

Whoever has the fence is the log's matter, and the monitor's. Here a room may not fence while it
could not work, and what a lost room's catalog forgot has to come back.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim import operators
from sim.broker import SimSource
from sim.scheduler import Process
from sluiceway.errors import SourceUnavailableError
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.room_files import SwitchRequest, write_advice
from sluiceway.sources.contract import DiscoveredPartition, LogBounds, SourcePartition

if TYPE_CHECKING:
    from sim.world import World

ROOMS = ("a", "b")
_EVERY, _THIS = 7, 3
_AFTER_S, _GIVE_WAY_S = 6.0, 5.0
# Between the check and the fence time passes, and more while a process stands still.
_CHECKED_WITHIN_S = 8.0
_MOST_FORGOTTEN = 2
_ACTORS = frozenset({"lose_room", "blind_room", "switch_room"})


class SimRooms:
    """The rooms of a world; in most worlds there are none.

    Attributes:
        blind: Rooms whose drivers get no answer of the brokers, and since when.
        lost: Rooms that were lost while they had the route.
        replacing: Drivers that an operator has replace a term, whatever answers them.
    """

    def __init__(self, world: "World", seed: int) -> None:
        self.there = seed % _EVERY == _THIS or bool(world.often & _ACTORS)
        self.blind: dict[str, float] = {}
        self.lost: set[str] = set()
        self.replacing: set[str] = set()
        self._world = world
        self._holder = ""
        self._rng = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def hosts(self, drawn: tuple[str, ...]) -> tuple[str, ...]:
        """Hosts of the world: one a room, where there are rooms."""
        return ROOMS if self.there else drawn

    def rule(self) -> RoomRule | None:
        """What the job file says to the process that acts now."""
        thread = self._world.scheduler.current
        if not self.there or thread is None:
            return None
        room = thread.process.host
        # Where no driver has ever been, each room may begin: the last driver starts anywhere.
        home = ROOMS[0] if self._world.monitor.fold.term else room
        return RoomRule(
            room, home, ROOMS, auto=True, after_s=_AFTER_S, give_way_s=_GIVE_WAY_S, digest="d"
        )

    def answers(self) -> None:
        """Pass when the brokers answer the process that acts now."""
        thread = self._world.scheduler.current
        if thread is not None and thread.process.host in self.blind:
            raise SourceUnavailableError("no broker answers this room")

    def fenced(self, process: Process) -> None:
        """A driver or a command has fenced; the catalog may be another room's from here on."""
        if not self.there:
            return
        before, self._holder = self._holder, process.host
        if before in ("", process.host):
            return
        world = self._world
        world.seen["room_changes"] += 1
        since = self.blind.get(process.host)
        blind_s = 0.0 if since is None else world.scheduler.now - max(since, process.awake_since)
        if blind_s > _CHECKED_WITHIN_S and process.name not in self.replacing:
            world.wrong.append(f"rooms: {process.name} fences from a room that no broker answers")
        if before in self.lost:
            self.lost.discard(before)
            self._forget()

    def _forget(self) -> None:
        """The catalog loses what it got last; what is sealed it got long ago."""
        table, sealed = self._world.table, self._world.monitor.fold.places.sealed
        open_still = [each for each in table.partitions if f"hr={each[0]}" not in sealed]
        for values in open_still[::-1][: self._rng.randint(0, _MOST_FORGOTTEN)]:
            del table.partitions[values]
            self._world.seen["partitions_forgotten"] += 1

    def heal(self) -> None:
        """All rooms are as they should be."""
        self.blind.clear()


class RoomSource(SimSource):
    """The brokers as a room's driver sees them."""

    def __init__(self, rooms: SimRooms, world: "World") -> None:
        super().__init__(world.broker)
        self._rooms = rooms

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        self._rooms.answers()
        return super().discover(topics)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        self._rooms.answers()
        return super().bounds(partitions)


def lose_room(world: "World") -> None:
    """All that runs in a room dies at once, with the newest entries of its catalog."""
    rooms = world.rooms
    if not rooms.there or not world.running():
        return
    room = world.rng.choice(world.running()).process.host
    world.note(f"room {room} is lost")
    world.seen["rooms_lost"] += 1
    if any(life.process.host == room and life.term for life in world.running()):
        rooms.lost.add(room)
    for life in world.running():
        if life.process.host == room:
            world.kill(life)
    for command in world.commanded():
        if command.process.host == room:
            world.scheduler.kill(command.process)


def blind_room(world: "World") -> None:
    """The brokers stop answering a room, or answer it again."""
    rooms = world.rooms
    if not rooms.there:
        return
    room = world.rng.choice(ROOMS)
    if rooms.blind.pop(room, None) is None:
        rooms.blind[room] = world.scheduler.now
    world.seen["rooms_blind"] += 1
    world.note(f"brokers answer all rooms but {sorted(rooms.blind)}")


def switch_room(world: "World") -> None:
    """`sluiceway switch --execute`, in order or with --now, of a term that may be gone."""
    if not world.rooms.there or not world.monitor.fold.term:
        return
    to, now = world.rng.choice(ROOMS), world.rng.random() < 0.3
    term = world.monitor.fold.term - (world.rng.random() < 0.2)
    operators.start(world, "switch", lambda _: _ask(world, to, term, now=now))
    if world.rng.random() < 0.5:
        world.start_driver(bounded=False)


def _ask(world: "World", to: str, term: int, *, now: bool) -> None:
    storage, layout = world.storage(), LedgerLayout(world.monitor.root, world.route().route)
    operator, reason = "operator@host", "a test"
    asked = SwitchRequest("i", to, term, operator, reason, now, force=False, requested_ms=1)
    write_advice(storage, layout, layout.switch, asked)
