"""Which routes a job has now, for commands that look at their tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluiceway.driver.discovery import Discovery
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RefusedTopic, RouteConfig
from sluiceway.observe.log import Log
from sluiceway.route.clients import open_source

if TYPE_CHECKING:
    from sluiceway.sources.contract import SourceClient
    from sluiceway.sources.registry import SourceAccess

_SHOWN = 20


def job_routes(spec: JobSpec, log: Log) -> tuple[RouteConfig, ...]:
    """All routes of a job: those with listed topics, then those of its patterns.

    Asks the brokers for their topics when there are patterns. A pattern's route is no longer found
    when all its topics are gone.

    Args:
        spec: The job.
        log: Gets a warning for topics that match and get no table.

    Raises:
        SourceUnavailableError: The topics cannot be listed.
        JobFileError: A column type or a client property is not valid.
    """
    return found_routes(spec, log).routes


@dataclass(frozen=True, slots=True)
class FoundRoutes:
    """What a job reads now.

    Attributes:
        routes: Those with listed topics, then those of its patterns.
        refused: Topics that match a pattern and get no table.
        shared: Topics that fill a table together with one whose name differs in case only.
    """

    routes: tuple[RouteConfig, ...]
    refused: tuple[RefusedTopic, ...] = ()
    shared: tuple[RefusedTopic, ...] = ()


def found_routes(spec: JobSpec, log: Log) -> FoundRoutes:
    """As `job_routes`, with the topics that are not read as a user may expect.

    Raises:
        SourceUnavailableError: The topics cannot be listed.
        JobFileError: A column type or a client property is not valid.
    """
    job = compile_routes(spec)
    sources: dict[SourceAccess, SourceClient] = {}
    try:
        for template in job.templates:
            if template.route.source not in sources:
                sources[template.route.source] = open_source(template.route)
        discovery = Discovery(job, sources, log)
        found = discovery.read_topics()
    finally:
        for source in sources.values():
            source.close()
    if discovery.failure is not None:
        raise discovery.failure
    return FoundRoutes((*job.routes, *found), discovery.refused, discovery.shared)


def routes_without_brokers(spec: JobSpec, log: Log, name: str | None) -> tuple[RouteConfig, ...]:
    """The routes of a job, for commands that need no broker: asked only where topics name routes.

    Tables of a `route_by` are listed next to the ledger of its rest; catalog and store are asked.

    Args:
        spec: The job.
        log: As in `job_routes`.
        name: The route or table that is wanted; None for all.

    Raises:
        SluicewayError: As in `job_routes`.
    """
    job = compile_routes(spec)
    listed = any(name in (config.route, table_name(config)) for config in job.routes)
    more = job.templates or any(config.share is not None for config in job.routes)
    return job_routes(spec, log) if more and not listed else job.routes


def table_name(config: RouteConfig) -> str:
    """`database.table`, as people write it."""
    return f"{config.table.database}.{config.table.table}"


def pick_route(routes: Sequence[RouteConfig], name: str | None) -> RouteConfig:
    """The route of this name; without a name, the only one.

    Raises:
        WrongUsageError: There is none of this name, or there are several and no name.
    """
    names = [config.route for config in routes]
    known = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if name is None and len(routes) == 1:
        return routes[0]
    if name is None:
        raise WrongUsageError(
            f"the job has {len(routes)} routes",
            hint=f"choose one with --route: {known}" if names else "no topic matches its patterns",
        )
    found = next((config for config in routes if config.route == name), None)
    if found is None:
        raise WrongUsageError(f"the job has no route `{name}`", hint=f"its routes: {known}")
    return found
