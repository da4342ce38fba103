"""What a driver needs to know of a job file, as values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.blocks.event_time import late_table_name
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.routes import default_route_name
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.jobfile.blocks.topic_pattern import render
from sluiceway.jobfile.blocks.values import is_lake_name, is_table_name
from sluiceway.jobfile.compile.dirty_limits import NO_LIMITS, DirtyLimits
from sluiceway.jobfile.compile.lineage_rule import LineageRule
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.observe.figures import PLAIN_LIMITS, FigureLimits
from sluiceway.sinks.registry import CatalogAccess
from sluiceway.sinks.table_options import TableOptions
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.side_topics import SideTopic
from sluiceway.storage.access import Stores
from sluiceway.types.evolution import Evolution
from sluiceway.types.schema import Schema
from sluiceway.worker.plan import (
    IN_TIME_ALWAYS,
    PLAIN_FILES,
    EventTimeRule,
    FileRules,
    KeyRule,
    LateRule,
    PartitionRule,
    PlannedMetaColumn,
)
from sluiceway.worker.row_rules import NO_CHOICES, RowChoices


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """One route: topics into one table.

    Attributes:
        topics: Literal names, or those that match `pattern` now.
        pattern: Pattern of topic names; empty when they are listed in the job file.
        start: For source partitions that the ledger does not know.
        columns: Declared payload columns; None takes them from the table.
        awaits_columns: The job file as the route sees it, where a registry says its columns: they
            are put in at each START.
        awaits_key: The same, where a registry or the topic says the key.
        choices: What the rows are made of them.
        left_out: Names, in lower case, by which nothing is read from the payload, whatever
            columns the table gets.
        interval_s: From one commit to the next.
        straggler_timeout_s: How long after that a task may take to close its files.
        max_rate_per_s: Records that the route may read a second; None sets no bound.
        max_unpublished: Records that it may have committed and not published.
        dirty: How many dirty rows it takes before it halts.
        dirty_topic: Fed with dirty rows; None feeds none.
        dirty_table: `database.table`, of the table's metastore, fed likewise.
        dirty_keep_ms: How long dirty rows are kept; None for ever.
        evolution: What it does when columns change.
        retention: How long partitions are kept; None for ever.
        rolling: How a task cuts rows into files.
        compact_before_ready: Whether a closed partition's files are merged before it is announced.
        memory_bytes: What a task may hold of rows.
        late: When rows are late and what becomes of them.
        late_table: A table over those that are put aside, as the job file names it; None makes
            none.
        ready: When partitions are complete; None announces nothing.
        figure_limits: How many values labels of its metrics may have.
        lineage: Who is told what is read into which table; None tells nobody.
        key: By what changes find their rows; None appends all.
    """

    job: str
    route: str
    topics: tuple[str, ...]
    pattern: str
    start: StartAt
    source: SourceAccess
    format: FormatChoice
    catalog: CatalogAccess
    hive: TableOptions
    columns: Schema | None
    meta: tuple[PlannedMetaColumn, ...]
    event_time: EventTimeRule | None
    partitions: tuple[PartitionRule, ...]
    interval_s: float
    straggler_timeout_s: float
    choices: RowChoices = NO_CHOICES
    left_out: frozenset[str] = frozenset()
    max_rate_per_s: int | None = None
    max_unpublished: int = 100
    dirty: DirtyLimits = NO_LIMITS
    dirty_topic: SideTopic | None = None
    dirty_table: str | None = None
    dirty_keep_ms: int | None = None
    evolution: Evolution = Evolution.FAIL
    retention: RetentionRule | None = None
    rolling: FileRules = PLAIN_FILES
    compact_before_ready: bool = True
    memory_bytes: int = 512 << 20
    late: LateRule = IN_TIME_ALWAYS
    late_table: str | None = None
    ready: ReadyRule | None = None
    figure_limits: FigureLimits = PLAIN_LIMITS
    lineage: LineageRule | None = None
    key: KeyRule | None = None
    awaits_columns: RouteSpec | None = field(default=None, hash=False, repr=False)
    awaits_key: RouteSpec | None = field(default=None, hash=False, repr=False)

    @property
    def group(self) -> str:
        """Consumer group under which progress is reported to lag tools."""
        return f"sluiceway-{self.job}-{self.route}"

    @property
    def stores(self) -> Stores:
        """How the stores of its tables are reached."""
        return self.hive.stores

    @property
    def late_table_name(self) -> str | None:
        """`database.table` over its late place, of the table's metastore; None when there is none.

        Of a template it is not known before its own table is.
        """
        named = self.late_table
        return None if named is None else late_table_name(named, self.hive.table)

    @property
    def subscription(self) -> Subscription:
        """What is read, as the ledger keeps it."""
        return Subscription(self.topics, self.pattern, str(self.start))


@dataclass(frozen=True, slots=True)
class RefusedTopic:
    """A topic that matches a pattern and gets no table, or none of its own, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a template makes of the topics that there are.

    Attributes:
        refused: Topics that give no table.
        shared: Topics whose table's name differs from another's in case only: one table for Hive.
    """

    routes: tuple[RouteConfig, ...]
    refused: tuple[RefusedTopic, ...]
    shared: tuple[RefusedTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteTemplate:
    """Routes that come with their topics: a pattern, and a table named by what it matches.

    Attributes:
        route: All that its routes share; its topics and table are filled in. A name that is
            not empty is that of its one route.
        table: `database.table`, with groups of the pattern as `ods.app_{1}`.
    """

    route: RouteConfig
    table: str

    def expand(self, topics: tuple[str, ...]) -> Expansion:
        """Make one route of each table that the topics give.

        Called at start and each time the topics are looked for. Topics are named by others:
        a name becomes part of a table's only when the whole is a plain identifier.

        Args:
            topics: All that the cluster has, internal ones left out.

        Returns:
            Routes in the order of their tables, topics sorted; and the topics that give none.
        """
        pattern = re.compile(self.route.pattern)
        by_table: dict[str, list[str]] = {}
        refused, shared = [], []
        spelt: dict[str, tuple[str, str]] = {}
        for topic in sorted(topics):
            match = pattern.fullmatch(topic)
            if match is None:
                continue
            written = render(self.table, match)
            table = written if self.route.hive.keeps_case else written.lower()
            if is_lake_name(table) if self.route.hive.keeps_case else is_table_name(table):
                first, like = spelt.setdefault(table, (written, topic))
                if first != written:
                    reason = f"{table} is filled from {like} too: the names differ in case only"
                    shared.append(RefusedTopic(topic, reason))
                by_table.setdefault(table, []).append(topic)
            else:
                refused.append(RefusedTopic(topic, f"{table[:200]!r} is no name of a table"))
        routes = tuple(self._route(table, tuple(by_table[table])) for table in sorted(by_table))
        return Expansion(routes, tuple(refused), tuple(shared))

    def _route(self, name: str, topics: tuple[str, ...]) -> RouteConfig:
        return replace(
            self.route,
            route=self.route.route or default_route_name(name),
            topics=topics,
            hive=self.route.hive.named(name),
        )


@dataclass(frozen=True, slots=True)
class CompiledJob:
    """A job as its driver runs it.

    Attributes:
        routes: Those whose topics are listed.
        templates: Those that topics bring along.
        discover_interval_s: How often topics are looked for.
        takeover: Route -> the term that may be replaced without waiting for its lease.
        max_rate_per_s: Records that all routes together may read a second; None sets no bound.
    """

    routes: tuple[RouteConfig, ...]
    templates: tuple[RouteTemplate, ...] = ()
    discover_interval_s: float = 30.0
    takeover: Mapping[str, int] = field(default_factory=dict)
    max_rate_per_s: int | None = None
