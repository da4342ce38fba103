"""Route sessions that hold no ledger, for tests of what shows them."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import ignore_step
from sluiceway.route.clients import open_sink, open_source
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.storage.contract import Storage
from sluiceway.storage.local import LocalStorage

_JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
  hms: {metastore: {uri: "thrift://127.0.0.1:1"}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""


class PlacedSession(RouteSession):
    """A session whose status goes to a folder of the test; None nowhere."""

    place: Path | None = None
    store: Storage = LocalStorage()

    def status_place(self) -> tuple[Storage, str] | None:
        return None if self.place is None else (self.store, str(self.place))


@cache
def _config_and_parts() -> tuple[RouteConfig, RouteParts]:
    (config,) = compile_routes(parse_job(_JOB.encode(), Path("job.yaml"), {}).spec).routes
    source, log = open_source(config), stderr_log()
    parts = RouteParts(
        source,
        open_sink(config),
        log,
        ignore_step,
        Progress(),
    )
    return config, parts


def placed_session(route: str, place: Path | None = None) -> PlacedSession:
    """A session of its own route; `place` is its status file."""
    config, parts = _config_and_parts()
    session = PlacedSession(replace(config, route=route), parts)
    session.place = place
    return session
