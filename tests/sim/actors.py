"""Who makes things happen: each actor does one thing to the world, as often as its weight says.

A feature that adds records or requests of its own gets an actor here; nothing else has to change.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sim import operators
from sim.background import BACKGROUND
from sim.lives import Life
from sim.rooms import blind_room, lose_room, switch_room
from sim.scheduler import Process
from sim.sql import SQL
from sim.world import TOPIC, World
from sluiceway.jobfile.compile.dirty_limits import DirtyLimits

_MOST_PARTITIONS = 4
_MOST_DRIVERS = 2
_TIMES = 10
_CREEP_S = 4.0


def _awake(world: World) -> list[Life]:
    return [life for life in world.running() if not life.process.paused]


def append_rows(world: World) -> None:
    """Producers write."""
    for _ in range(world.rng.randint(1, 4)):
        world.broker.append(TOPIC)


def add_partition(world: World) -> None:
    """The topic gets a partition."""
    logs = world.broker.topics[TOPIC]
    if len(logs) < _MOST_PARTITIONS:
        logs.append(type(logs[0])())
        world.note("a partition is added")


def expire_rows(world: World) -> None:
    """Retention deletes what is committed, or the beginning of what no driver has read."""
    monitor = world.monitor
    if any(command.resets for command in world.commanded()):
        # It may go back to what would be deleted now.
        return
    if world.is_another_log:
        # What is committed says nothing about this log.
        return
    if world.store == "local" and monitor.acknowledged < len(monitor.fold.records):
        # A power cut could still take the last record back.
        return
    for number, log in enumerate(world.broker.topics[TOPIC]):
        known = monitor.fold.sources.get(number)
        if known is not None and world.rng.random() < 0.5:
            end = min(known.end, len(log.rows))
            log.first = max(log.first, world.rng.randint(0, end))


def start_driver(world: World) -> None:
    """A driver starts, perhaps while another runs."""
    if len(world.running()) < _MOST_DRIVERS:
        life = world.start_driver(bounded=world.rng.random() < 0.15)
        if world.rng.random() < 0.3:
            life.process.crash_in = world.rng.randrange(1, 250)


def start_strict_driver(world: World) -> None:
    """A driver that takes few dirty rows: PREPARE refuses an epoch, perhaps with one in flight."""
    if len(world.running()) < _MOST_DRIVERS:
        # So long a window holds the whole ledger: no real time decides anything here.
        limits = DirtyLimits(rows=world.rng.randint(0, 3), rows_window_ms=86_400_000)
        world.start_driver(bounded=world.rng.random() < 0.15, limits=limits)


def crash_driver(world: World) -> None:
    """A driver dies in one of its next calls."""
    for life in _awake(world):
        if world.rng.random() < 0.7:
            life.process.crash_in = world.rng.randrange(0, 120)


def kill_driver(world: World) -> None:
    """A driver and perhaps its tasks die now."""
    if world.running():
        world.kill(world.rng.choice(world.running()))


def pause_driver(world: World) -> None:
    """SIGSTOP; another takes over meanwhile."""
    awake = _awake(world)
    if awake:
        life = world.rng.choice(awake)
        world.scheduler.pause(life.process, paused=True)
        world.note(f"{life.process.name} is paused")
        if len(awake) == 1:
            start_driver(world)


def lull(world: World) -> None:
    """SIGSTOP for long while another takes over and no row comes; then the first one goes on.

    It has nothing to commit, so that it does not meet the fence by itself.
    """
    awake = _awake(world)
    if not awake or world.lull:
        return
    life = world.rng.choice(awake)
    process = life.process
    if world.rng.random() < 0.7:
        process.stops_at = "apply"
    else:
        world.scheduler.pause(process, paused=True)

    def take_over() -> None:
        world.scheduler.pause(process, paused=True)
        process.lulled = True
        if len(awake) == 1 and world.monitor.fold.term:
            late = None if world.rng.random() < 0.5 else world.monitor.fold.term
            world.start_driver(bounded=False, replaces=late)

    def go_on() -> None:
        process.stops_at = ""
        world.scheduler.pause(process, paused=False)
        world.note(f"{process.name} goes on after a lull")
        world.seen["lulls"] += 1

    world.note(f"no row comes, {process.name} is paused")
    world.lull = [
        (world.rng.uniform(0.0, 6.0), take_over),
        (world.rng.choice((12.0, 40.0)) * world.rng.uniform(0.3, 1.0), go_on),
        (world.rng.uniform(5.0, 40.0), lambda: None),
    ]


def step_clock(world: World) -> None:
    """The wall clock of a host is set to another time, often only for a while."""
    if not world.has_clocks:
        return
    host = world.rng.choice(world.hosts)
    if world.clocks.wrong_s(host) and world.rng.random() < 0.7:
        wrong_s = 0.0
    else:
        wrong_s = world.rng.choice((1, 1, -1)) * world.rng.choice((4.0, 7.0, 90.0, 3600.0))
    _set_clock(world, host, wrong_s)


def creep_clock(world: World) -> None:
    """The wall clock of a host goes ahead by one more step that is too small to be noticed."""
    if world.has_clocks:
        host = world.rng.choice(world.hosts)
        _set_clock(world, host, world.clocks.wrong_s(host) + _CREEP_S)


def _set_clock(world: World, host: str, wrong_s: float) -> None:
    world.clocks.step(host, wrong_s)
    world.seen["clock_steps"] += 1
    world.note(f"the clock of {host} is {wrong_s} s ahead from now on")


def resume_driver(world: World) -> None:
    """SIGCONT."""
    for life in world.running():
        if life.process.paused and world.rng.random() < 0.6:
            world.scheduler.pause(life.process, paused=False)
            world.note(f"{life.process.name} goes on")


def pause_at_put(world: World) -> None:
    """SIGSTOP just before a record has its slot, or is durable; another takes over meanwhile."""
    awake = _awake(world)
    if awake:
        world.rng.choice(awake).process.stops_at = world.rng.choice(("put", "put", "record"))
        if len(awake) == 1:
            start_driver(world)


def pause_at_publish(world: World) -> None:
    """SIGSTOP between a file's final name and its durability; garbage is collected meanwhile."""
    awake = _awake(world)
    if awake:
        world.rng.choice(awake).process.stops_at = "publish"
        collect_garbage(world)


def replace_driver(world: World) -> None:
    """`run --takeover`: a driver that does not wait for the lease of the latest term."""
    if len(world.running()) <= _MOST_DRIVERS and world.monitor.fold.term:
        late = world.rng.random() < 0.2
        world.start_driver(bounded=False, replaces=world.monitor.fold.term - late)


def collect_garbage(world: World) -> None:
    """`sluiceway gc`, while others run; it may die, or stand still with what it has read."""
    _beset(world, operators.start(world, "gc", operators.gc))


def reset_offsets(world: World) -> None:
    """`sluiceway offsets reset`, if it can take the fence; it may die at any place."""
    if world.monitor.fold.sources and not world.is_another_log:
        if world.rng.random() < 0.7:
            for life in _awake(world):
                life.stop.ask()
        _beset(world, operators.start(world, "reset", operators.reset))


def retire_partitions(world: World) -> None:
    """`sluiceway offsets retire`, when something has vanished; it may die at any place."""
    if world.monitor.fold.sources and world.doubts.operator_looks():
        for life in _awake(world):
            life.stop.ask()
        _beset(world, operators.start(world, "retire", operators.retire))


def accept_identity(world: World) -> None:
    """`offsets reset --accept-identity`: the operator takes the topic of that name for the next."""
    if world.is_another_log:
        for life in _awake(world):
            life.stop.ask()
        _beset(world, operators.start(world, "change", operators.change))


def replay_rows(world: World) -> None:
    """`dirty replay`, while others run, are paused or dead; it may die at any place."""
    if world.monitor.fold.lanes.files:
        _beset(world, operators.start(world, "replay", operators.replay))


def compact(world: World) -> None:
    """`compact`, while others run, are paused or dead; it may die at any place."""
    if world.monitor.fold.files:
        _beset(world, operators.start(world, "compact", operators.compact))


def purge_rows(world: World) -> None:
    """`dirty purge`, in the same way."""
    if world.monitor.fold.lanes.files:
        _beset(world, operators.start(world, "purge", operators.purge))


def bring_in(world: World) -> None:
    """`late replay`, in the same way."""
    if any(file.kind == "late" for file in world.monitor.fold.lanes.files.values()):
        _beset(world, operators.start(world, "bring_in", operators.bring_in))


def _beset(world: World, process: Process) -> None:
    if world.rng.random() < 0.3:
        process.crash_in = world.rng.randrange(1, 120)
    if world.rng.random() < 0.1:
        process.stops_at = "put"


def disturb_command(world: World) -> None:
    """SIGSTOP, SIGCONT or SIGKILL of a command."""
    for command in world.commanded():
        if world.rng.random() < 0.15:
            world.scheduler.kill(command.process)
        else:
            world.scheduler.pause(command.process, paused=not command.process.paused)
        world.note(f"{command.process.name}: {'dead' if command.process.dead else 'paused or not'}")


def spoil_advice(world: World) -> None:
    """Side files and the hint vanish, or hold something else."""
    folder = f"{world.monitor.stage}snapshots/"
    hint = f"{world.monitor.held.log.removesuffix('log/')}hint.json"
    for path in sorted(world.all_files()):
        if (path.startswith(folder) or path == hint) and world.rng.random() < 0.5:
            content = world.monitor.look.content(path) or b""
            other = (
                None,
                b"{}",
                content.replace(b'"end":"', b'"end":"1'),
                b'{"snapshot":%d}' % world.rng.randint(-1, len(world.monitor.fold.records) + 1),
            )
            world.spoil(path, world.rng.choice(other))


def land_stray(world: World) -> None:
    """A put of a driver that died long ago arrives in a slot that was emptied."""
    monitor = world.monitor
    for seq in range(len(monitor.fold.records)):
        path = monitor.held.path(seq)
        emptied = monitor.held.packed(seq) is not None and monitor.look.content(path) is None
        if emptied and world.rng.random() < 0.6:
            old = monitor.fold.records[seq]
            world.spoil(path, re.sub(rb'"id":"(.)', _other_digit, old, count=1))
    if world.rng.random() < 0.5:
        spoil_advice(world)


def _other_digit(found: re.Match[bytes]) -> bytes:
    return b'"id":"%x' % (int(found[1], 16) ^ 1)


def stop_driver(world: World) -> None:
    """SIGTERM."""
    awake = _awake(world)
    if awake:
        life = world.rng.choice(awake)
        life.stop.ask()
        world.note(f"{life.process.name} is asked to stop")


def cut_power(world: World) -> None:
    """Everything dies, and what was not fsynced is gone."""
    world.power_cut()


def _trouble(kind: str, most_steps: int = 150) -> Callable[[World], None]:
    def begin(world: World) -> None:
        steps = world.rng.randrange(5, most_steps)
        world.note(f"trouble: {kind} for {steps} steps")
        world.weather.begin(kind, steps)

    return begin


def recreate_topic(world: World) -> None:
    """The topic is deleted and created again: the route has to halt until that is accepted."""
    if world.rng.random() < 0.25 and not world.is_another_log and world.monitor.fold.sources:
        world.broker.create(TOPIC, len(world.broker.topics[TOPIC]))
        world.ever_recreated = True
        for _ in range(world.rng.randint(0, 12)):
            world.broker.append(TOPIC)
        world.note("the topic is created anew")


def elect_leader(world: World) -> None:
    """A broker restarts, in the middle of a transaction or not."""
    world.broker.elect(TOPIC)
    world.note("another leader")
    retire_partitions(world)


def cut_log(world: World) -> None:
    """An unclean election: a log loses its end, and a driver has to notice it."""
    if world.rng.random() < 0.4 and not world.is_another_log:
        world.broker.cut(TOPIC)
        world.ever_cut = True
        world.note("a log has lost its end")


def change_dimension(world: World) -> None:
    """The small table that the SQL joins gets rows, loses them, is created again or goes away."""
    act = world.sql.dimension.change(world.rng, world.scheduler.now)
    world.seen[f"dimension_{act}"] += 1
    world.note(f"the small table: {act}, states {world.sql.dimension.states}")


@dataclass(frozen=True, slots=True)
class Actor:
    """Something that happens, and how often among the others.

    Attributes:
        weight: 0 where it happens in worlds only that are asked to have it often.
    """

    act: Callable[[World], None]
    weight: int


def weight_of(actor: Actor, often: Collection[str]) -> int:
    """How often it is drawn in a world where so much happens often."""
    named = actor.act.__name__ in often
    return max(actor.weight, 1) * _TIMES if named else actor.weight


ACTORS = (
    Actor(append_rows, 16),
    Actor(add_partition, 1),
    Actor(expire_rows, 2),
    Actor(start_driver, 9),
    Actor(start_strict_driver, 3),
    Actor(crash_driver, 5),
    Actor(kill_driver, 2),
    Actor(pause_driver, 4),
    Actor(pause_at_put, 3),
    Actor(pause_at_publish, 1),
    Actor(resume_driver, 4),
    Actor(lull, 4),
    Actor(step_clock, 8),
    Actor(creep_clock, 0),
    Actor(replace_driver, 1),
    Actor(collect_garbage, 3),
    Actor(reset_offsets, 2),
    Actor(accept_identity, 3),
    Actor(replay_rows, 4),
    Actor(purge_rows, 1),
    Actor(bring_in, 0),
    Actor(compact, 6),
    Actor(disturb_command, 2),
    Actor(spoil_advice, 2),
    Actor(land_stray, 2),
    Actor(stop_driver, 1),
    Actor(cut_power, 2),
    Actor(_trouble("storage"), 2),
    Actor(_trouble("full"), 1),
    Actor(_trouble("broker"), 1),
    Actor(_trouble("metastore"), 2),
    Actor(_trouble("metastore", 800), 2),
    Actor(recreate_topic, 1),
    Actor(elect_leader, 5),
    Actor(cut_log, 1),
)

ROOM_ACTORS = (Actor(lose_room, 3), Actor(blind_room, 3), Actor(switch_room, 4))
"""In worlds of two rooms only, so that all other worlds stay as they are."""

SQL_ACTORS = (Actor(change_dimension, 8),)
"""In worlds whose route has SQL, likewise."""

_ALL = (*ACTORS, *ROOM_ACTORS, *SQL_ACTORS)
OFTEN = frozenset({BACKGROUND, SQL, *(each.act.__name__ for each in _ALL)})
"""What a world can be asked to have often."""
