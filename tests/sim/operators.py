"""Commands next to the drivers: the collector of garbage, and what an operator moves."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from sim.broker import SimSource
from sim.scheduler import Process
from sluiceway.audit.dirty_rows import DirtyFile, DirtyRows, DirtyState
from sluiceway.audit.late_choice import LateFiles, choose_late
from sluiceway.errors import (
    FencedError,
    LeaseHeldError,
    MetastoreUnavailableError,
    RequestRefusedError,
    ResetRefusedError,
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskFailedError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.ledger import collect
from sluiceway.ledger.lane_records import PURGE, REPLAY, LaneRange
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import GAP, TWICE
from sluiceway.operate import replay as replays
from sluiceway.operate import requested, reset_offsets, retire_partitions
from sluiceway.operate.offset_moves import IDENTITY, ResetRequest, ResetTarget, TargetKind
from sluiceway.operate.retire_partitions import RetireRequest
from sluiceway.sources.contract import SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_requests import (
    COMPACT,
    CompactAnswer,
    CompactionOutcome,
    CompactRequest,
)
from sluiceway.upkeep.requests import LaneRequest

if TYPE_CHECKING:
    from sim.world import World

_ALL = 1 << 62
_LONGEST_WAIT_S = 30
_KINDS: tuple[TargetKind, ...] = ("earliest", "latest", "offset", "offset")
_EXPECTED = (
    FencedError,
    LeaseHeldError,
    MetastoreUnavailableError,
    RequestRefusedError,
    ResetRefusedError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskFailedError,
    TopicNotFoundError,
)


@dataclass(eq=False, slots=True)
class Command:
    """A command from its start to its end."""

    process: Process
    resets: bool


def _needs_spark(world: "World", error: SluicewayError) -> bool:
    """Whether a command is refused because only a driver can run the SQL of the route."""
    return world.sql.there and isinstance(error, UnhealthyEnvironmentError)


def start(world: "World", name: str, run: Callable[["World"], None]) -> Process:
    """Run a command in a process of its own, on one of the hosts."""
    process = world.scheduler.process(f"{name}{len(world.commands)}", world.rng.choice(world.hosts))
    world.commands.append(Command(process, resets=run in (reset, change, accept_cut)))

    def whole() -> None:
        try:
            run(world)
        except _EXPECTED as error:
            world.note(f"{process.name} ends with {error.code} {error}")
        except SluicewayError as error:
            if run is replay and _needs_spark(world, error):
                world.seen["replays_refused"] += 1
                if not world.sql.well:
                    # As the error says.
                    world.start_driver(bounded=False)
            else:
                world.wrong.append(f"command: {process.name}: {error.code} {error}")
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
    wish = ResetRequest(
        ResetTarget(kind, offset=rng.randint(0, most)),
        reason="a test",
        operator="operator@host",
        partitions=tuple(SourcePartition(topic, number) for number in numbers),
        accepted=frozenset((GAP, TWICE)),
    )
    _move(world, wish, source, "resets")


def retire(world: "World") -> None:
    """`sluiceway offsets retire --accept-gap --execute`: all that are gone, or one of them."""
    source, topic = SimSource(world.broker), world.monitor.topic
    rng, logs = world.rng, world.broker.topics[topic]
    named = (SourcePartition(topic, rng.randrange(len(logs))),) if rng.random() < 0.3 else ()
    wish = RetireRequest("a test", "operator@host", named, accepts_gap=True)
    gone = retire_partitions.planned_retirements(_log(world).fold(), wish, source)
    if gone:
        retire_partitions.retire_partitions(world.route(), wish, gone, source)
        world.seen["retired"] += 1


def change(world: "World") -> None:
    """`sluiceway offsets reset --accept-identity --execute`, for the whole topic."""
    source, topic = SimSource(world.broker), world.monitor.topic
    most = min(len(log.rows) for log in world.broker.topics[topic])
    kind = world.rng.choice(_KINDS)
    wish = ResetRequest(
        ResetTarget(kind, offset=world.rng.randint(0, most)),
        reason="a test",
        operator="operator@host",
        accepted=frozenset((IDENTITY,)),
    )
    _move(world, wish, source, "changes")


def accept_cut(world: "World") -> None:
    """`offsets reset --to` the committed end: read on in a log that lost its end and grew again."""
    source, topic = SimSource(world.broker), world.monitor.topic
    for number in world.cut_partitions():
        end = world.monitor.fold.sources[number].end
        wish = ResetRequest(
            ResetTarget("offset", offset=end),
            reason="a test",
            operator="operator@host",
            partitions=(SourcePartition(topic, number),),
            accepted=frozenset((GAP, TWICE)),
        )
        _move(world, wish, source, "accepted_cuts")


def replay(world: "World") -> None:
    """`sluiceway dirty replay`; where the route has SQL, mostly while its driver lives."""
    if world.sql.there and not world.sql.well:
        for _ in range(_LONGEST_WAIT_S):
            if any(life.term == world.monitor.fold.term for life in world.running()):
                break
            world.scheduler.wait(None, 1.0)
    _lane(world, REPLAY)


def purge(world: "World") -> None:
    """`sluiceway dirty purge`."""
    _lane(world, PURGE)


def bring_in(world: "World") -> None:
    """`sluiceway late replay`, of some late rows; now and then of what somebody has taken."""
    rng, rows = world.rng, LateFiles.read(_log(world))
    choice = choose_late(rows)
    found = choice.ranges
    if rng.random() < 0.2:
        found = tuple(LaneRange(name, BigInt(0), file.rows) for name, file in rows.files.items())
    chosen = tuple(each for each in found if rng.random() < 0.8)
    if rng.random() < 0.3:
        world.scheduler.wait(None, rng.random() * 20)
    if not chosen:
        return
    request = replace(choice.request(rows, "operator@host", ""), ranges=chosen)
    done = replays.carry_out(
        world.route(), _log(world), request, lambda lane, elsewhere: None, world.command_log()
    )
    world.seen["brought_in"] += done.rows


def _lane(world: "World", kind: str) -> None:
    """Of some dirty rows that are open, or that were when the operator looked."""
    rng, rows = world.rng, DirtyRows.read(_log(world))
    first = rows.fold.first_fence
    found = [each for file in rows.files.values() for each in _runs(file, rng)]
    chosen = tuple(each for each in found if rng.random() < 0.6)
    if rng.random() < 0.3:
        world.scheduler.wait(None, rng.random() * 20)
    if first is None or not chosen:
        return
    request = LaneRequest(1, first.ledger, kind, "operator@host", "", chosen)
    done = replays.carry_out(
        world.route(), _log(world), request, lambda lane, elsewhere: None, world.command_log()
    )
    world.seen[f"{kind}s"] += 1
    world.seen["lane_rows"] += done.rows


def compact(world: "World") -> None:
    """`sluiceway compact`, of some partitions or all that are closed."""
    rng, fold = world.rng, _log(world).fold()
    names = sorted(name for name in fold.partitions if rng.random() < 0.5)
    first = fold.first_fence
    if first is None:
        return
    request = CompactRequest(1, first.ledger, COMPACT, "operator@host", tuple(names))
    answer = requested.carry_out(
        world.route(),
        _log(world),
        request,
        CompactAnswer,
        lambda done, elsewhere: None,
        world.command_log(),
    )
    done = [each for each in answer.partitions if each.outcome == CompactionOutcome.COMPACTED]
    world.seen["compacted"] += len(done)


def _runs(file: DirtyFile, rng: random.Random) -> list[LaneRange]:
    """Open rows of a file; now and then some that are taken."""
    stale = rng.random() < 0.05
    free = [number for number, state in enumerate(file.states) if stale or state == DirtyState.OPEN]
    if not free:
        return []
    if rng.random() < 0.3:
        free = free[: rng.randint(1, len(free))]
    cuts = [at for at in range(1, len(free)) if free[at] != free[at - 1] + 1]
    runs = [free[a:b] for a, b in pairwise([0, *cuts, len(free)])]
    name = str(file.source)
    return [LaneRange(name, BigInt(run[0]), BigInt(run[-1] + 1)) for run in runs]


def _move(world: "World", wish: ResetRequest, source: SimSource, seen: str) -> None:
    moves = reset_offsets.planned_moves(world.route(), _log(world).fold(), wish, source)
    if moves:
        reset_offsets.reset_route(world.route(), wish, moves, source)
        world.seen[seen] += 1
