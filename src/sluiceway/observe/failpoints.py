"""Failpoints: tests make a process die, stop or see an error at a named place.

Off, as always outside of tests, a point costs one comparison. They are switched on for a process
and its workers by `SLUICEWAY_FAILPOINTS` only, and a driver says so in its log.
"""

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Final

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe.failpoint_names import POINTS, REPLY, REQUEST, FailpointSide
from sluiceway.observe.log import Log
from sluiceway.observe.steps import Observer, Step

VARIABLE: Final = "SLUICEWAY_FAILPOINTS"
HIT: Final = "hit"
_DRIVER: Final = "driver.pid"
_WORKERS: Final = "workers"


class Action(StrEnum):
    """What happens at the point.

    `kill` and `stop` mean the driver and `kill_worker` a Python worker, whichever of them has
    reached the point.
    """

    KILL = "kill"
    KILL_WORKER = "kill_worker"
    STOP = "stop"
    RAISE = "raise"
    ENOSPC = "enospc"
    LOSE_REQUEST = "lose_request"
    LOSE_REPLY = "lose_reply"
    DELAY = "delay"


class Role(StrEnum):
    """Which kind of process reaches the point."""

    DRIVER = "driver"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class FailpointSpec:
    """What `SLUICEWAY_FAILPOINTS` holds, as JSON.

    Attributes:
        point: One of `POINTS`.
        folder: An existing folder: pids go there, and the marker `hit` when the point was met.
        hit: At which visit of one process it happens, from 1. It happens once in all.
        place: Shell pattern for what the point is about: a path, a topic, a table.
        by: Only visits of this kind of process count; None counts all.
        delay_s: For `delay`.
    """

    point: str
    action: Action
    folder: str
    hit: int = 1
    place: str = "*"
    by: Role | None = None
    delay_s: float = 0.0

    def text(self) -> str:
        """The variable's value."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in given.items() if value is not None})


def parse_spec(text: str) -> FailpointSpec:
    """The spec that the variable holds.

    Raises:
        UnhealthyEnvironmentError: It is none, or names a point that does not exist.
    """
    try:
        given = json.loads(text)
        by = given.get("by")
        found = FailpointSpec(
            **{**given, "action": Action(given["action"]), "by": None if by is None else Role(by)}
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnhealthyEnvironmentError(
            f"{VARIABLE} is no failpoint: {error}",
            hint="it is for tests of the product only; unset it",
        ) from error
    if found.point not in POINTS:
        raise UnhealthyEnvironmentError(
            f"{VARIABLE} names {found.point!r}, which is no failpoint",
            hint="it is for tests of the product only; unset it",
        )
    return found


@dataclass(slots=True)
class _Armed:
    """A spec at work in this process; safe for several threads."""

    spec: FailpointSpec
    role: Role
    visits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def visit(self, point: str, place: str) -> None:
        spec = self.spec
        if point != spec.point or (spec.by is not None and self.role is not spec.by):
            return
        if not fnmatchcase(place, spec.place):
            return
        with self.lock:
            self.visits += 1
            due = self.visits == spec.hit
        if due and _mark(Path(spec.folder), f"{self.role} {os.getpid()} {point} {place}\n"):
            self._act(point)

    def _act(self, point: str) -> None:
        spec = self.spec
        folder = Path(spec.folder)
        match spec.action:
            case Action.KILL:
                _signal(_pids(folder / _DRIVER), signal.SIGKILL)
            case Action.STOP:
                _signal(_pids(folder / _DRIVER), signal.SIGSTOP)
            case Action.KILL_WORKER:
                own = [os.getpid()] if self.role is Role.WORKER else None
                _signal(own or _pids(*sorted((folder / _WORKERS).iterdir())), signal.SIGKILL)
            case Action.DELAY:
                time.sleep(spec.delay_s)
            case Action.RAISE | Action.ENOSPC | Action.LOSE_REQUEST | Action.LOSE_REPLY:
                raise _error(POINTS[point], spec.action, point)


_armed: _Armed | None = None


class _Edge(AbstractContextManager[None]):
    """Both points of a call; the second one is met when the call has returned."""

    def __init__(self, armed: _Armed, name: str, place: str) -> None:
        self._armed = armed
        self._name = name
        self._place = place

    def __enter__(self) -> None:
        self._armed.visit(f"{self._name}.{REQUEST}", self._place)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._armed.visit(f"{self._name}.{REPLY}", self._place)


class _Nothing(AbstractContextManager[None]):
    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


_NOTHING: Final = _Nothing()


def edge(name: str, place: object = "") -> AbstractContextManager[None]:
    """Put around a call to the world, inside of what translates its errors.

    Args:
        name: One of `EDGES`.
        place: What the call is about, for the spec's pattern.
    """
    return _NOTHING if _armed is None else _Edge(_armed, name, str(place))


def reach(name: str, place: object = "") -> None:
    """Pass a mark.

    Args:
        name: One of `MARKS`.
        place: What it is about, for the spec's pattern.
    """
    if _armed is not None:
        _armed.visit(name, str(place))


def arm(role: Role, environment: Mapping[str, str] | None = None) -> FailpointSpec | None:
    """Switch the failpoint of this process on, if its environment asks for one.

    Called at a driver's start and by a worker before each task; the first call decides.

    Returns:
        The spec, for the log; None in every process that is not under test.

    Raises:
        UnhealthyEnvironmentError: The variable holds no spec.
    """
    global _armed  # noqa: PLW0603 - one comparison at each point is all that it may cost
    text = (os.environ if environment is None else environment).get(VARIABLE)
    if not text:
        return None
    if _armed is None:
        spec = parse_spec(text)
        name = _DRIVER if role is Role.DRIVER else f"{_WORKERS}/{os.getpid()}"
        announced = Path(spec.folder) / name
        announced.parent.mkdir(exist_ok=True)
        announced.write_text(str(os.getpid()))
        _armed = _Armed(spec, role)
    return _armed.spec


def disarm() -> None:
    """Switch it off again: for tests, and for a process that was forked from an armed one."""
    global _armed  # noqa: PLW0603
    _armed = None


def _mark(folder: Path, text: str) -> bool:
    """Note durably that the point was met; False when it was before."""
    try:
        with (folder / HIT).open("x") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError:
        return False
    return True


def _pids(*paths: Path) -> list[int]:
    return [int(path.read_text()) for path in paths]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _error(kind: FailpointSide, action: Action, point: str) -> Exception:
    """An error as the other side of the point would make it."""
    lost = action in (Action.LOSE_REQUEST, Action.LOSE_REPLY)
    if action is Action.ENOSPC:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), point)
    match kind:
        case FailpointSide.POSIX:
            number = errno.ETIMEDOUT if lost else errno.EIO
            return OSError(number, os.strerror(number), point)
        case FailpointSide.THRIFT:
            from thrift.transport.TTransport import TTransportException  # noqa: PLC0415

            broken = TTransportException.TIMED_OUT if lost else TTransportException.END_OF_FILE
            found: Exception = TTransportException(broken, f"failpoint {point}")
            return found
        case FailpointSide.KAFKA:
            from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

            code = KafkaError._TIMED_OUT if lost else KafkaError._FAIL  # noqa: SLF001
            failure: Exception = KafkaException(KafkaError(code, f"failpoint {point}"))
            return failure
        case FailpointSide.CODE:
            return RuntimeError(f"failpoint {point}")


def reaching(observe: Observer, log: Log) -> Observer:
    """An observer of a driver's steps that reaches their failpoints too.

    Called once in each process that is a driver, before its first step.
    """
    armed = arm(Role.DRIVER)
    if armed is not None:
        log.warning("failpoint_armed", variable=VARIABLE, point=armed.point, action=armed.action)

    def observe_and_reach(step: Step) -> None:
        observe(step)
        reach(f"step.{step}")

    return observe_and_reach
