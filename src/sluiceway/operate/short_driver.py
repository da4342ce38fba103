"""Tools that ask a route's driver, or are it for a short while when none lives (P8)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sluiceway.host.process import is_alive
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.lease import DEAD_AFTER_S, Lease
from sluiceway.observe.failpoints import reaching
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import ignore_step
from sluiceway.route.clients import open_sink, open_source
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.schedule.unit_sql import UnitSql


class Heartbeat:
    """Whether a driver lives, as far as its lease says."""

    def __init__(self) -> None:
        self._observed: tuple[str, int] | None = None
        self._since = 0.0

    def heard(self, lease: Lease | None) -> bool:
        """Take in the lease as it is now; whether its driver lives."""
        if lease is None or lease.released or is_alive(lease.process()) is False:
            return False
        beat = (lease.driver, lease.counter)
        if beat != self._observed:
            self._observed, self._since = beat, time.monotonic()
        return time.monotonic() - self._since < DEAD_AFTER_S


@contextmanager
def short_driver(
    config: RouteConfig, log: Log, unit_sql: UnitSql | None = None
) -> Iterator[RouteSession]:
    """Be the route's driver for the block: fenced and recovered, without a runner of tasks.

    Args:
        config: The route.
        log: Log of this process.
        unit_sql: Runs the SQL of units that are asked for; None computes none. Other due units
            are left to the job's driver.

    Raises:
        LeaseHeldError: Another driver lives.
        SluicewayError: As at any driver's start.
    """
    source = open_source(config)
    upstream = None if config.followed is None else open_source(config.followed)
    observe = reaching(ignore_step, log)
    parts = RouteParts(
        source,
        open_sink(config),
        log,
        observe,
        Progress(),
        upstream=upstream,
        unit_sql=unit_sql,
        units_on_request=True,
    )
    session = RouteSession(config, parts)
    try:
        session.start()
        yield session
        session.finish_effects()
    finally:
        session.leave()
        source.close()
        if upstream is not None:
            upstream.close()
