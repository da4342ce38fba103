"""The driver's values from a job file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluiceway.chains.units import UnitRule
from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.blocks.event_time import late_table_name
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.routes import default_route_name
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.jobfile.blocks.topic_pattern import render
from sluiceway.jobfile.blocks.values import is_lake_name, is_table_name
from sluiceway.jobfile.compile.dirty_limits import NO_LIMITS, DirtyLimits
from sluiceway.jobfile.compile.ready_rule import AnnounceRule, LineageRule, ReadyRule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.folding.fold_state import FoldState, Subscription
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
    RowShare,
)
from sluiceway.worker.row_rules import NO_CHOICES, REST, VALUE_COLUMN, VALUE_IN_NAME, RowChoices

if TYPE_CHECKING:
    from sluiceway.ledger.value_tables import ValueTable


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """One route: topics into one table.

    Attributes:
        topics: Literal names; for a pattern, the names that match now.
        pattern: Pattern of topic names; empty when they are listed in the job file.
        start: Start of source partitions that the ledger does not know.
        columns: Declared payload columns; None takes them from the table.
        awaits_columns: The job file as the route sees it, where a registry gives its columns, which
            each START fills in; None where it has all columns.
        awaits_key: Likewise, where a registry or the topic gives the key.
        followed: The route as long as it reads a table in place of its topics; None without one.
        choices: How rows are made from them.
        sql: SQL that makes the rows of the table from these; None writes them as they are.
        sql_columns: Columns that the SQL returns; None before the route has started.
        units: Units of a table that the SQL computes; None for a route that appends rows.
        left_out: Names, in lower case, of columns that are never read from the payload, whatever
            columns the table gets.
        interval_s: Seconds from one commit to the next.
        straggler_timeout_s: Seconds that a task may take after that to close its files.
        max_rate_per_s: Most records that the route reads per second; None sets no limit.
        max_unpublished: Most records that it may have committed and not published.
        dirty: Most dirty rows before it halts.
        dirty_topic: Topic for dirty rows; None without one.
        dirty_table: Table for dirty rows, `database.table` in the table's metastore; None without
            one.
        dirty_keep_ms: How long dirty rows are kept; None for ever.
        evolution: Rule for changes of columns.
        retention: How long partitions are kept; None for ever.
        rolling: How a task cuts rows into files.
        compact_before_ready: Whether a closed partition's files are merged before it is announced.
        memory_bytes: Most memory of a task for rows.
        late: When rows are late, and the rule for them.
        late_table: A table over the late place, as the job file names it; None without one.
        ready: When partitions are complete; None announces nothing.
        unit_announcements: What follows when a unit is computed; None, nothing but its READY.
        figure_limits: How many values labels of its metrics may have.
        lineage: Receiver of lineage events; None without one.
        key: How changes find their rows; None appends all rows.
        rooms: The room of this process; None for a job that has one place only.
        keep_tail: Whether records keep tails in any case.
        share: Which rows of the source are the route's; None for all.
        max_tables: Most tables that values of the source may have; 0 but for the rest.
    """

    job: str
    route: str
    topics: tuple[str, ...]
    pattern: str
    start: StartAt
    source: SourceAccess
    format: FormatChoice
    catalog: CatalogAccess
    table: TableOptions
    columns: Schema | None
    meta: tuple[PlannedMetaColumn, ...]
    event_time: EventTimeRule | None
    partitions: tuple[PartitionRule, ...]
    interval_s: float
    straggler_timeout_s: float
    choices: RowChoices = NO_CHOICES
    sql: SqlRule | None = None
    sql_columns: Schema | None = None
    units: UnitRule | None = None
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
    unit_announcements: AnnounceRule | None = None
    figure_limits: FigureLimits = PLAIN_LIMITS
    lineage: LineageRule | None = None
    key: KeyRule | None = None
    rooms: RoomRule | None = None
    keep_tail: bool = False
    share: RowShare | None = None
    max_tables: int = 0
    awaits_columns: RouteSpec | None = field(default=None, hash=False, repr=False)
    awaits_key: RouteSpec | None = field(default=None, hash=False, repr=False)
    followed: "RouteConfig | None" = field(default=None, hash=False, repr=False)

    def at(self, fold: FoldState) -> "RouteConfig":
        """What is read now: a route that follows a table first does until that is handed over.

        A route that has read topics before goes on with them.
        """
        first = self.followed
        if first is None:
            return self
        known = [state for (topic, _), state in fold.sources.items() if topic in first.topics]
        handed_over = all(state.retired for state in known) and bool(fold.sources)
        return self if handed_over else first

    def rest_of(self, path: str, pattern: str, max_tables: int) -> "RouteConfig":
        """The route that finds the tables of a `route_by`, and has the rows without one.

        Args:
            path: Place of the value, as the job file has it.
            pattern: Name of the tables.
            max_tables: Most tables.
        """
        name = pattern.replace(VALUE_IN_NAME, REST).lower()
        return replace(
            self,
            route=self.route or default_route_name(name),
            table=self.table.named(name),
            share=RowShare(VALUE_COLUMN, path, pattern),
            max_tables=max_tables,
        )

    def of_value(self, named: "ValueTable") -> "RouteConfig":
        """The route that fills a table named by a value. Called for the route of the rest."""
        if self.share is None:
            return self
        places = ((each.topic, each.partition, int(each.offset)) for each in named.starts)
        return replace(
            self,
            route=default_route_name(named.table),
            table=self.table.named(named.table),
            start=StartAt("offsets", offsets=tuple(places)),
            share=replace(self.share, table=named.table),
            max_tables=0,
        )

    @property
    def group(self) -> str:
        """Consumer group under which progress is reported to lag tools."""
        return f"sluiceway-{self.job}-{self.route}"

    @property
    def announcements(self) -> AnnounceRule | None:
        """What follows an announcement; None, nothing but its record."""
        return self.ready or self.unit_announcements

    @property
    def stores(self) -> Stores:
        """How to reach the stores of its tables."""
        return self.table.stores

    @property
    def late_table_name(self) -> str | None:
        """`database.table` over its late place, in the table's metastore; None without one.

        For a template it is known only with the name of the table.
        """
        named = self.late_table
        return None if named is None else late_table_name(named, self.table.table)

    @property
    def keeps_tails(self) -> bool:
        """Whether records keep the last rows before each committed end."""
        mirror = None if self.rooms is None else self.rooms.mirror
        wanted = self.keep_tail or (mirror is not None and mirror.keeps_tails)
        # A table is found by its ledger.
        return wanted and self.source.kind != "table"

    @property
    def subscription(self) -> Subscription:
        """The subscription, as the ledger keeps it."""
        return Subscription(self.topics, self.pattern, str(self.start))


@dataclass(frozen=True, slots=True)
class RefusedTopic:
    """A topic that matches a pattern and gets no table, or none of its own, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Expansion:
    """A template's routes for the present topics.

    Attributes:
        refused: Topics without a table.
        shared: Topics whose table's name differs from another's in case only: one table for Hive.
    """

    routes: tuple[RouteConfig, ...]
    refused: tuple[RefusedTopic, ...]
    shared: tuple[RefusedTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteTemplate:
    """Routes that come with their topics: a pattern, and a table named by its groups.

    Attributes:
        route: Common part of its routes; topics and table are filled in. A name that is not empty
            is that of its only route.
        table: `database.table`, with groups of the pattern, for example `ods.app_{1}`.
    """

    route: RouteConfig
    table: str

    def expand(self, topics: tuple[str, ...]) -> Expansion:
        """Make one route of each table that the topics give.

        Called at start and each time the topics are listed. Others choose the names of topics: a
        name becomes part of a table's name only when the whole is a plain identifier.

        Args:
            topics: All topics of the cluster, without internal ones.

        Returns:
            Routes in the order of their tables, with topics sorted; and the topics without a table.
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
            table = written if self.route.table.keeps_case else written.lower()
            if is_lake_name(table) if self.route.table.keeps_case else is_table_name(table):
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
            table=self.route.table.named(name),
        )


@dataclass(frozen=True, slots=True)
class CompiledJob:
    """A job as its driver runs it.

    Attributes:
        routes: Routes with listed topics.
        templates: Templates of the routes that come with topics.
        discover_interval_s: Seconds between two lists of the topics.
        takeover: Route -> the term that may be replaced without waiting for its lease.
        max_rate_per_s: Most records that all routes together read per second; None sets no limit.
    """

    routes: tuple[RouteConfig, ...]
    templates: tuple[RouteTemplate, ...] = ()
    discover_interval_s: float = 30.0
    takeover: Mapping[str, int] = field(default_factory=dict)
    max_rate_per_s: int | None = None
