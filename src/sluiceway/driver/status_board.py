"""The states of routes that the loop publishes, and the writer of `status.json`."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from sluiceway.errors import (
    FencedError,
    LeaseHeldError,
    SluicewayError,
    StorageFullError,
    StorageUnavailableError,
)
from sluiceway.observe.figures import FiguresRead
from sluiceway.observe.log import Log
from sluiceway.observe.metrics import Metric
from sluiceway.route.halt_report import HaltReport, halt_report
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import (
    RouteState,
    RouteStatus,
    RouteSummary,
    RunSummary,
    encode_status,
)
from sluiceway.storage.contract import Storage

_WRITE_EVERY_S = 2.0
_BETWEEN_PASSES_S = 0.2
_LAST_PASS_S = 10.0
_STARTUP_S = 300.0


@dataclass(frozen=True, slots=True)
class _Entry:
    """The last state of a route from the loop."""

    session: RouteSession
    state: RouteState
    error: SluicewayError | None
    since_ms: int
    next_try_ms: int | None
    last_error: SluicewayError | None = None

    def status(self, now_ms: int, spark_ui: str | None) -> RouteStatus:
        numbers = self.session.meter.read()
        if isinstance(self.error, FencedError | LeaseHeldError):
            # Another driver commits: the known lag is no longer valid.
            numbers = replace(numbers, lag_records=None, lag_ms=None, lag_at_least_ms=None)
        return RouteStatus(
            # Not `asdict`, which would convert inner values too.
            **{each.name: getattr(numbers, each.name) for each in fields(numbers)},
            route=self.session.config.route,
            table=_table(self.session),
            state=self.state,
            code=self.error.code if self.error else None,
            message=str(self.error) if self.error else None,
            report=self._report(),
            since_ms=self.since_ms,
            as_of_ms=now_ms,
            next_try_ms=self.next_try_ms,
            watermark_us=self.session.figures.watermark_us,
            epochs=tuple(self.session.figures.epochs),
            spark_ui=spark_ui,
        )

    def _report(self) -> HaltReport | None:
        if self.error is None or self.state is not RouteState.HALTED:
            return None
        return halt_report(self.error, self.session.config.route)

    def summary(self) -> RouteSummary:
        meter = self.session.meter
        return RouteSummary(
            route=self.session.config.route,
            table=_table(self.session),
            state=self.state,
            error=str(self.error) if self.error else None,
            commits=meter.commits,
            rows_read=int(meter.done.read),
            rows_written=int(meter.done.written),
            rows_dirty=int(meter.done.dirty),
        )


@dataclass(frozen=True, slots=True)
class MeasuredRoute:
    """A route at one moment.

    Attributes:
        announced: Prefixes that were announced last, and when, in seconds since 1970.
        phases: Name -> seconds that it took in the last committed epoch.
        rooms: Gauges of the job's rooms, by metric; empty for a job that has one place only.
    """

    status: RouteStatus
    figures: FiguresRead
    announced: tuple[tuple[str, float], ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    rooms: Mapping[str, Mapping[tuple[str, ...], float]] = field(default_factory=dict)

    def value(self, metric: Metric, *labels: str) -> float | None:
        """Value of a counter or gauge under these labels; None without one."""
        return self.figures.numbers.get(metric.name, {}).get(labels)


class StatusBoard:
    """Written by the loop's thread, read by any other; a reader never makes the loop wait.

    Attributes:
        changed: Set when a route came or its state changed; a waiting thread clears it.
        spark_ui: Address of the Spark UI; empty where it is off, None where it is not known.
    """

    def __init__(self) -> None:
        self.spark_ui: str | None = None
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._beaten = False
        self._beat_at = time.monotonic()
        self._beat_limit_s = _STARTUP_S

    def update(
        self,
        session: RouteSession,
        state: RouteState,
        error: SluicewayError | None,
        next_try_ms: int | None = None,
    ) -> None:
        """Set the state of a route. Called for each route after each turn of the loop.

        Args:
            session: Session of the route.
            state: New state.
            error: Why it waits or has halted; None in other states.
            next_try_ms: When a halted route is started again, ms since 1970; None when it never is.
        """
        name = session.config.route
        error = error if state in (RouteState.WAITING, RouteState.HALTED) else None
        before = self._entries.get(name)
        if before is not None and (before.state, before.error, before.next_try_ms) == (
            state,
            error,
            next_try_ms,
        ):
            return
        kept = before is not None and before.state is state
        since_ms = before.since_ms if before is not None and kept else _now_ms()
        last = error or (before.last_error if before is not None else None)
        with self._lock:
            self._entries[name] = _Entry(session, state, error, since_ms, next_try_ms, last)
        self.changed.set()

    def beat(self, limit_s: float | None = None) -> None:
        """Record that the loop goes round.

        Args:
            limit_s: Seconds after which the next beat is overdue; None keeps the last limit.
        """
        if limit_s is not None:
            self._beat_limit_s = limit_s
            self._beaten = True
        self._beat_at = time.monotonic()

    def beat_age_s(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._beat_at

    def is_alive(self) -> bool:
        """Whether the loop goes round; until its first turn Spark may take its time."""
        return self.beat_age_s() < self._beat_limit_s

    def is_ready(self) -> bool:
        """Whether the loop runs, every route has fenced its ledger and none has halted."""
        return self._beaten and all(
            status.term is not None and status.state is not RouteState.HALTED
            for status in self.snapshot()
        )

    def snapshot(self) -> tuple[RouteStatus, ...]:
        """States of all routes now, in the order in which they came."""
        now_ms = _now_ms()
        return tuple(entry.status(now_ms, self.spark_ui) for entry in self._copy())

    def measured(self) -> tuple[MeasuredRoute, ...]:
        """As `snapshot`, with the metrics of each route."""
        now_ms = _now_ms()
        return tuple(
            MeasuredRoute(
                entry.status(now_ms, self.spark_ui),
                entry.session.figures.figures.read(),
                tuple(entry.session.figures.announced),
                {phase.value: s for phase, s in entry.session.figures.phases.items()},
                entry.session.rooms.gauges(),
            )
            for entry in self._copy()
        )

    def unfinished(self) -> tuple[tuple[RouteStatus, SluicewayError | None, bool], ...]:
        """Routes that have neither caught up nor halted.

        Returns:
            Each with its last error, and whether its brokers were ever reached.
        """
        now_ms = _now_ms()
        ended = (RouteState.CAUGHT_UP, RouteState.HALTED)
        return tuple(
            (
                entry.status(now_ms, self.spark_ui),
                entry.last_error,
                entry.session.meter.was_looked_at,
            )
            for entry in self._copy()
            if entry.state not in ended
        )

    def halted(self) -> tuple[tuple[str, SluicewayError], ...]:
        """Names of routes that have halted, each with the reason."""
        return tuple(
            (entry.session.config.route, entry.error)
            for entry in self._copy()
            if entry.state is RouteState.HALTED and entry.error is not None
        )

    def summary(self) -> RunSummary:
        """Totals of the run so far."""
        return RunSummary(tuple(entry.summary() for entry in self._copy()))

    def entries(self) -> tuple[tuple[RouteSession, RouteStatus], ...]:
        """As `snapshot`, without routes whose ledger another driver is known to have."""
        now_ms = _now_ms()
        return tuple(
            (entry.session, entry.status(now_ms, self.spark_ui))
            for entry in self._copy()
            if not isinstance(entry.error, FencedError | LeaseHeldError)
        )

    def _copy(self) -> tuple[_Entry, ...]:
        with self._lock:
            return tuple(self._entries.values())


class StatusFiles:
    """Writes `status.json` of each route from its own thread; never truth, never waited for.

    Args:
        board: The board with the states.
        log: Gets failures, at debug level.
    """

    def __init__(self, board: StatusBoard, log: Log) -> None:
        self._board = board
        self._log = log
        self._written: dict[str, tuple[float, RouteStatus]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Start the thread. Called once."""
        self._thread.start()

    def close(self) -> None:
        """Write a last time and end. Called while the routes still hold their ledgers."""
        self._closing.set()
        self._board.changed.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_PASS_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._write_due()
            # States that change at the same time are written together.
            self._closing.wait(_BETWEEN_PASSES_S)
            self._board.changed.wait(_WRITE_EVERY_S)
            self._board.changed.clear()
        self._written.clear()
        # It ends with the driver.
        self._board.spark_ui = None
        self._write_due(last=True)

    def _write_due(self, *, last: bool = False) -> None:
        for session, seen in self._board.entries():
            halted = seen.state is RouteState.HALTED
            # No driver tries it again from here on; the reason stays.
            status = replace(seen, state=RouteState.STOPPED) if last and halted else seen
            place = session.status_place()
            if place is None or not self._is_due(status):
                continue
            try:
                _write(*place, encode_status(status))
            except StorageUnavailableError as error:
                # Tried again in the next pass: the file on the store is out of date.
                self._log.debug("status_not_written", route=status.route, error=str(error))
            else:
                self._written[status.route] = (time.monotonic(), status)

    def _is_due(self, status: RouteStatus) -> bool:
        at, before = self._written.get(status.route, (0.0, None))
        if before is None or (before.state, before.message, before.next_try_ms) != (
            status.state,
            status.message,
            status.next_try_ms,
        ):
            return True
        return time.monotonic() - at >= _WRITE_EVERY_S and status.is_news(before)


def _write(storage: Storage, path: str, content: bytes) -> None:
    """Write a status; on a full store into the space of the one before."""
    try:
        storage.overwrite(path, content)
    except StorageFullError:
        storage.remove(path)
        storage.overwrite(path, content)


def _table(session: RouteSession) -> str:
    hive = session.config.table
    return f"{hive.database}.{hive.table}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
