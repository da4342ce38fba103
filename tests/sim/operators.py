"""Commands beside the drivers: the collector of garbage, and what an operator moves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.broker import SimSource
from sim.scheduler import Process
from sluiceway.errors import (
    FencedError,
    LeaseHeldError,
    MetastoreUnavailableError,
    ResetRefusedError,
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TopicNotFoundError,
)
from sluiceway.job import reset_offsets
from sluiceway.job.offset_moves import IDENTITY, ResetTarget, ResetWish, TargetKind
from sluiceway.ledger import collect
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import GAP, TWICE
from sluiceway.sources.contract import SourcePartition

if TYPE_CHECKING:
    from sim.world import World

_ALL = 1 << 62
_KINDS: tuple[TargetKind, ...] = ("earliest", "latest", "offset", "offset")
_EXPECTED = (
    FencedError,
    LeaseHeldError,
    MetastoreUnavailableError,
    ResetRefusedError,
    SourceUnavailableError,
    StorageUnavailableError,
    TopicNotFoundError,
)


@dataclass(eq=False, slots=True)
class Command:
    """A command from its start to its end."""

    process: Process
    resets: bool


def start(world: "World", name: str, run: Callable[["World"], None]) -> Process:
    """Run a command in a process of its own, on one of the hosts."""
    process = world.scheduler.process(f"{name}{len(world.commands)}", world.rng.choice(world.hosts))
    world.commands.append(Command(process, resets=run in (reset, change)))

    def whole() -> None:
        try:
            run(world)
        except _EXPECTED as error:
            world.note(f"{process.name} ends with {error.code} {error}")
        except SluicewayError as error:
            world.wrong.append(f"{process.name}: {error.code} {error}")
        world.note(f"{process.name} has ended")
        world.scheduler.kill_soon(process)

    world.scheduler.spawn(process, whole, "main")
    world.note(f"{process.name} starts on {process.host}")
    return process


def _log(world: "World") -> LedgerLog:
    return LedgerLog(world.storage(), LedgerLayout(world.monitor.root, world.route().route))


def gc(world: "World") -> None:
    """`sluiceway gc`."""
    if world.rng.random() < 0.5:
        world.scheduler.wait(None, world.rng.random() * 20)
    log = _log(world)
    done = collect.garbage_of(log, log.fold()).collect(most=_ALL)
    world.seen["gc_removed"] += len(done.removed)


def reset(world: "World") -> None:
    """`sluiceway offsets reset --execute`, with both consequences accepted."""
    source, topic = SimSource(world.broker), world.monitor.topic
    rng, logs = world.rng, world.broker.topics[world.monitor.topic]
    numbers = rng.sample(range(len(logs)), rng.randint(1, len(logs)))
    kind = rng.choice(_KINDS)
    most = min(len(logs[number].rows) for number in numbers)
    wish = ResetWish(
        ResetTarget(kind, offset=rng.randint(0, most)),
        reason="a test",
        operator="operator@host",
        partitions=tuple(SourcePartition(topic, number) for number in numbers),
        accepted=frozenset((GAP, TWICE)),
    )
    _move(world, wish, source, "resets")


def change(world: "World") -> None:
    """`sluiceway offsets reset --accept-identity --execute`, for the whole topic."""
    source, topic = SimSource(world.broker), world.monitor.topic
    most = min(len(log.rows) for log in world.broker.topics[topic])
    kind = world.rng.choice(_KINDS)
    wish = ResetWish(
        ResetTarget(kind, offset=world.rng.randint(0, most)),
        reason="a test",
        operator="operator@host",
        accepted=frozenset((IDENTITY,)),
    )
    _move(world, wish, source, "changes")


def _move(world: "World", wish: ResetWish, source: SimSource, seen: str) -> None:
    moves = reset_offsets.planned_moves(_log(world).fold(), wish, source)
    if moves:
        reset_offsets.reset_route(world.route(), wish, moves, source)
        world.seen[seen] += 1
