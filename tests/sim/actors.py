"""Who makes things happen: each actor does one thing to the world, as often as its weight says.

A feature that adds records or requests of its own gets an actor here; nothing else has to change.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sim.world import TOPIC, Life, World

_MOST_PARTITIONS = 4
_MOST_DRIVERS = 2


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
    """Retention deletes what is committed, or the beginning of what nobody has read."""
    monitor = world.monitor
    if world.store == "local" and monitor.acknowledged < len(monitor.fold.records):
        # A power cut could still take the last record back.
        return
    for number, log in enumerate(world.broker.topics[TOPIC]):
        known = monitor.fold.sources.get(number)
        if known is not None and world.rng.random() < 0.5:
            log.first = max(log.first, world.rng.randint(0, known.end))


def start_driver(world: World) -> None:
    """A driver starts, perhaps beside another."""
    if len(world.running()) < _MOST_DRIVERS:
        life = world.start_driver(bounded=world.rng.random() < 0.15)
        if world.rng.random() < 0.3:
            life.process.crash_in = world.rng.randrange(1, 250)


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


def resume_driver(world: World) -> None:
    """SIGCONT."""
    for life in world.running():
        if life.process.paused and world.rng.random() < 0.6:
            world.scheduler.pause(life.process, paused=False)
            world.note(f"{life.process.name} goes on")


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


def _trouble(kind: str) -> Callable[[World], None]:
    def begin(world: World) -> None:
        steps = world.rng.randrange(5, 150)
        world.note(f"trouble: {kind} for {steps} steps")
        world.weather.begin(kind, steps)

    return begin


def recreate_topic(world: World) -> None:
    """The topic is deleted and created again: the route has to halt."""
    if world.rng.random() < 0.05 and not world.recreated and world.monitor.fold.sources:
        world.broker.create(TOPIC, len(world.broker.topics[TOPIC]))
        world.recreated = True
        world.note("the topic is created anew")


@dataclass(frozen=True, slots=True)
class Actor:
    """Something that happens, and how often among the others."""

    act: Callable[[World], None]
    weight: int


ACTORS = (
    Actor(append_rows, 16),
    Actor(add_partition, 1),
    Actor(expire_rows, 2),
    Actor(start_driver, 9),
    Actor(crash_driver, 5),
    Actor(kill_driver, 2),
    Actor(pause_driver, 4),
    Actor(resume_driver, 4),
    Actor(stop_driver, 1),
    Actor(cut_power, 2),
    Actor(_trouble("storage"), 2),
    Actor(_trouble("full"), 1),
    Actor(_trouble("broker"), 1),
    Actor(_trouble("metastore"), 2),
    Actor(recreate_topic, 1),
)
