"""Reads log ends of routes that the loop leaves alone: they wait, halted, or caught up.

Without it their figures would stay those of the last epoch. It also finds the age of the oldest
waiting record, until the driver has caught up once and knows it.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sluiceway.driver.status_board import StatusBoard
from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.route.route_meter import Bounds, Ends
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.schedule.oldest_waiting import oldest_waiting_ms, waiting_ends
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.sources.contract import SourceClient

if TYPE_CHECKING:
    from sluiceway.sources.registry import SourceAccess

_FIRST_S, _EVERY_S = 2.0, 10.0
_CLOSE_TIMEOUT_S = 2.0
_BESIDE = (RouteState.WAITING, RouteState.HALTED, RouteState.CAUGHT_UP)

_ObservedRoute = tuple[RouteSession, RouteStatus]


class LagWatch:
    """A thread of the driver, with its own clients. No other thread waits for it.

    Args:
        board: The board with the routes.
        log: Gets failures, at debug level: the route itself says why it waits.
        open_client: Opens a source.
    """

    def __init__(
        self,
        board: StatusBoard,
        log: Log,
        open_client: Callable[[RouteConfig], SourceClient],
    ) -> None:
        self._board = board
        self._log = log
        self._open = open_client
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)

    def start(self) -> None:
        """Start the thread. Called once."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; a running look ends by itself."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        pause_s = _FIRST_S
        while not self._closing.wait(pause_s):
            pause_s = _EVERY_S
            self.read()

    def read(self) -> None:
        """Look once. Called by the thread; by tests too."""
        by_access: dict[SourceAccess, list[_ObservedRoute]] = {}
        for session, status in self._board.entries():
            if session.meter.ends and (status.state in _BESIDE or _lag_is_open(status)):
                by_access.setdefault(session.config.source, []).append((session, status))
        for routes in by_access.values():
            self._read_lags(routes)

    def _read_lags(self, routes: list[_ObservedRoute]) -> None:
        beside = [session for session, status in routes if status.state in _BESIDE]
        ends = {session.config.route: session.meter.ends for session, _ in routes}
        client = None
        try:
            client = self._open(routes[0][0].config)
            view = read_source_view(client, {one.topic for each in ends.values() for one in each})
            bounds = {route: _of_same_logs(each, view) for route, each in ends.items()}
            waiting = {
                route: waiting_ends({one: known.end for one, known in each.items()}, bounds[route])
                for route, each in ends.items()
            }
            oldest = oldest_waiting_ms(client, waiting)
        except SluicewayError as error:
            self._log.debug("lag_not_known", code=error.code, error=str(error))
            for session in beside:
                session.meter.update_idle(None)
                session.figures.looked_beside({}, {})
            return
        finally:
            if client is not None:
                client.close()
        for session in beside:
            route = session.config.route
            session.meter.update_idle(bounds[route])
            session.figures.looked_beside(ends[route], bounds[route])
        for session, _ in routes:
            session.meter.set_oldest(oldest.get(session.config.route))


def _lag_is_open(status: RouteStatus) -> bool:
    """Whether records wait and it is not known for how long."""
    return status.lag_ms is None and bool(status.lag_records)


def _of_same_logs(ends: Ends, view: SourceView) -> Bounds:
    """Log ends of logs that were not replaced since they were read.

    Where a table has removed rows, its end does not say how many wait.
    """
    there = {(found.partition, found.identity) for each in view.by_topic.values() for found in each}
    return {
        one: view.bounds[one]
        for one, known in ends.items()
        if one in view.bounds and (one, known.identity) in there and not view.bounds[one].removals
    }
