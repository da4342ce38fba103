"""A route's clients: the driver's view of its source, and of its table."""

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.registry import open_sink as open_catalog_sink
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import open_client

REQUEST_TIMEOUT_S = 10.0


def open_source(config: RouteConfig) -> SourceClient:
    """The driver's view of the route's source."""
    return open_client(config.source, REQUEST_TIMEOUT_S)


def open_sink(config: RouteConfig) -> TableSink:
    """The driver's view of the route's table."""
    return open_catalog_sink(config.catalog, config.table)
