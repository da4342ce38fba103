"""Lists topics: which routes the templates make of the clusters' present topics."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluiceway.errors import Fatal, SluicewayError, TableNotFoundError, WrongUsageError
from sluiceway.jobfile.blocks.start import EARLIEST
from sluiceway.jobfile.blocks.topic_pattern import meant_as_glob
from sluiceway.jobfile.compile.config import CompiledJob, RefusedTopic, RouteConfig, RouteTemplate
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.value_tables import ValueTable, ValueTableLog
from sluiceway.observe.log import Log
from sluiceway.sinks.registry import find_table
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.registry import open_storage

MAX_ROUTES = 5000
"""Most tables of one job, for a pattern that matches more than was meant."""

_RETRY_S = 5.0


@dataclass(slots=True)
class _Template:
    """A template and the routes that it has made, by name.

    Attributes:
        expanded: Whether its topics were listed once.
        misread: Whether it matches no topic, and would match as a shell pattern.
        refused: Topics without a table, by the last list.
        shared: Topics that share a table with others whose names differ in case only.
    """

    template: RouteTemplate
    routes: dict[str, RouteConfig] = field(default_factory=dict)
    expanded: bool = False
    misread: bool = False
    refused: list[RefusedTopic] = field(default_factory=list)
    shared: tuple[RefusedTopic, ...] = ()


@dataclass(slots=True)
class _Rest:
    """The rest of a `route_by`, and the routes of tables that values have named.

    Attributes:
        known: Number of named tables that are known.
        current: Whether all tables that were named are known.
    """

    config: RouteConfig
    routes: list[RouteConfig] = field(default_factory=list)
    known: int = 0
    current: bool = False


class Discovery:
    """Expands a job's templates again and again. Owned and called by the job's loop.

    A route stays once it exists: when all its topics are gone it has none, until one comes back. A
    table or a name of another route is refused; the first one in the job file wins.

    Args:
        job: The whole job.
        sources: One client for each cluster connection.
        log: Gets a warning for each topic without a table, once.
    """

    def __init__(
        self, job: CompiledJob, sources: Mapping[SourceAccess, SourceClient], log: Log
    ) -> None:
        self._templates = [_Template(template) for template in job.templates]
        self._rests = [_Rest(config) for config in job.routes if config.max_tables]
        self._sources = sources
        self._log = log
        self._interval_s = job.discover_interval_s
        self._due = 0.0
        self._told: set[tuple[str, str]] = set()
        self._tables = {table for config in job.routes for table in _tables(config)}
        self._names = {config.route for config in job.routes}
        self.failure: SluicewayError | None = None

    @property
    def pending(self) -> bool:
        """Whether some template's topics, or tables of values, were not listed yet."""
        current = all(each.current for each in self._rests)
        return not current or any(not each.expanded for each in self._templates)

    def due(self, *, once: bool, named: bool = False) -> bool:
        """Whether to list topics, and tables that values have named, now.

        Args:
            once: Whether each template is expanded only once.
            named: Whether values have named tables since.
        """
        if named:
            self._due = 0.0
            for each in self._rests:
                each.current = False
        wanted = self.pending if once else bool(self._templates or self._rests)
        return wanted and time.monotonic() >= self._due

    def read_topics(self) -> tuple[RouteConfig, ...]:
        """List the topics and expand; a cluster that does not answer changes nothing.

        Returns:
            Every route that any template has made so far, with its present topics.
        """
        self.failure = None
        listed: dict[SourceAccess, tuple[str, ...]] = {}
        for access in {each.template.route.source for each in self._templates}:
            try:
                listed[access] = self._sources[access].list_topics()
            except SluicewayError as error:
                self.failure = error
                tell = self._log.error if isinstance(error, Fatal) else self._log.warning
                tell("discovery_failed", code=error.code, error=str(error))
        for rest in self._rests:
            self._read_values(rest)
        self._due = time.monotonic() + (
            min(_RETRY_S, self._interval_s) if self.failure else self._interval_s
        )
        for each in self._templates:
            if each.template.route.source in listed:
                self._expand(each, listed[each.template.route.source])
        of_topics = (config for each in self._templates for config in each.routes.values())
        return (*of_topics, *(config for each in self._rests for config in each.routes))

    def _read_values(self, rest: _Rest) -> None:
        """Make the routes of tables that values have named since."""
        try:
            found = _value_tables(rest.config)
        except SluicewayError as error:
            self.failure = error
            self._log.warning("discovery_failed", code=error.code, error=str(error))
            return
        for named in found[rest.known :]:
            config = rest.config.of_value(named)
            reason = self._claim_names(config)
            if reason:
                # Its rows stay in the topic: it starts where they begin, once it can.
                self._log.error("route_refused", route=config.route, code="", error=reason)
            else:
                rest.routes.append(config)
        rest.known, rest.current = len(found), True

    @property
    def refused(self) -> tuple[RefusedTopic, ...]:
        """Topics that match and get no table, by the last list."""
        return tuple(one for each in self._templates for one in each.refused)

    @property
    def shared(self) -> tuple[RefusedTopic, ...]:
        """Topics that fill a table together with one whose name differs in case only."""
        return tuple(one for each in self._templates for one in each.shared)

    @property
    def misread(self) -> WrongUsageError | None:
        """Why a pattern matches no topic, where it was probably a shell pattern; None for none."""
        for each in self._templates:
            if each.misread and each.refused:
                return WrongUsageError(
                    f"no topic matches the pattern `{each.template.route.pattern}`",
                    where=f"topic {each.refused[0].topic}",
                    hint=each.refused[0].reason,
                )
        return None

    def siblings(self, route: str) -> frozenset[str]:
        """Names of all routes of the template that has made this one."""
        made = (each.routes.keys() for each in self._templates if route in each.routes)
        return frozenset(name for names in made for name in names)

    def _expand(self, each: _Template, topics: tuple[str, ...]) -> None:
        expansion = each.template.expand(topics)
        each.refused, each.shared = [], expansion.shared
        refused, each.misread = expansion.refused, False
        if not (each.routes or expansion.routes or refused):
            refused = _unmatched(each.template.route.pattern, topics)
            each.misread = bool(refused)
        self._refuse(each, refused)
        for one in expansion.shared:
            if self._is_news(each, one):
                self._log.warning("topics_share_table", topic=one.topic, reason=one.reason)
        found = set()
        for config in expansion.routes:
            known = each.routes.get(config.route)
            if known is None and not self._claim(each, config):
                continue
            if known is None and each.expanded:
                # Its topics came while the job ran; their first rows count too.
                known = replace(config, start=EARLIEST)
            found.add(config.route)
            each.routes[config.route] = replace(known or config, topics=config.topics)
        for name in each.routes.keys() - found:
            each.routes[name] = replace(each.routes[name], topics=())
        each.expanded = True

    def _claim(self, each: _Template, config: RouteConfig) -> bool:
        reason = self._claim_names(config)
        if reason:
            self._refuse(each, [RefusedTopic(topic, reason) for topic in config.topics])
        return not reason

    def _claim_names(self, config: RouteConfig) -> str:
        """Keep its tables and its name for a new route; else why it cannot have them."""
        tables = _tables(config)
        if not self._tables.isdisjoint(tables) or config.route in self._names:
            taken = [table for table in tables if table in self._tables]
            _, name = (taken or tables)[0]
            return f"another route fills {name}"
        if len(self._names) >= MAX_ROUTES:
            return f"the job has {MAX_ROUTES} routes already"
        self._tables.update(tables)
        self._names.add(config.route)
        return ""

    def _refuse(self, each: _Template, refused: Sequence[RefusedTopic]) -> None:
        each.refused += refused
        for one in refused:
            if self._is_news(each, one):
                self._log.error(
                    "topic_refused",
                    topic=one.topic,
                    pattern=each.template.route.pattern,
                    reason=one.reason,
                )

    def _is_news(self, each: _Template, one: RefusedTopic) -> bool:
        key = (each.template.table, one.topic)
        if key in self._told:
            return False
        self._told.add(key)
        return True


def _value_tables(rest: RouteConfig) -> tuple[ValueTable, ...]:
    """Tables that values have named; none before the rest has started.

    Raises:
        SluicewayError: Catalog or store do not answer.
    """
    try:
        home = find_table(rest.catalog, rest.table).home
    except TableNotFoundError:
        return ()
    storage, root = open_storage(home, rest.stores)
    known = ValueTableLog(storage, LedgerLayout(root, rest.route))
    known.read_on()
    return tuple(known.tables.values())


def _unmatched(pattern: str, topics: Sequence[str]) -> tuple[RefusedTopic, ...]:
    """The first topic that a pattern would match as a shell pattern."""
    meant, found = meant_as_glob(pattern, topics)
    if not found:
        return ()
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    reason = f"`{pattern}` is a regular expression, which it{more} does not match: write `{meant}`"
    return (RefusedTopic(found[0], reason),)


def _tables(config: RouteConfig) -> tuple[tuple[str, str], ...]:
    """The tables that only this route fills: its own, and the one over its late place."""
    own, late = f"{config.table.database}.{config.table.table}", config.late_table_name
    names = (own,) if late is None else (own, late)
    return tuple((config.table.metastore, name) for name in names)
