"""The SQL of a route, as its driver gets it."""

from dataclasses import dataclass

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.units import UNITS, UnitRule, UnitWhen, fingerprint_of
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.transform import SqlFunction, SqlPlaces, SqlTable
from sluiceway.jobfile.compile.lake_choices import catalog_settings
from sluiceway.jobfile.compile.stores import route_stores, with_login
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.sources.registry import SourceAccess

DEFAULT_SETTLE_MS = 600_000


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A Python function that the SQL calls.

    Attributes:
        name: Its name in the SQL.
        place: `module:function`.
        returns: Hive type of what it returns.
        vectorised: Whether it gets a pandas series for each argument, not one row's values.
    """

    name: str
    place: str
    returns: str
    vectorised: bool


@dataclass(frozen=True, slots=True)
class DimensionRule:
    """A small table that the SQL joins.

    Attributes:
        name: Its name in the SQL.
        table: `database.table` in its catalog.
        refresh_s: How old its rows may be, in seconds.
        access: How it is reached; None where its kind is not read.
    """

    name: str
    table: str
    refresh_s: float
    access: SourceAccess | None = None

    @property
    def topic(self) -> str:
        """What stands for a topic."""
        return f"{TABLE_TOPIC}{self.table.lower()}"


@dataclass(frozen=True, slots=True)
class SqlRule:
    """What a route does with decoded rows before they are written.

    Attributes:
        sql: The query.
        timezone: Time zone of the SQL.
        of_table: Whether the table says its columns; else it has those of the SQL.
        places: Where the SQL is written.
    """

    sql: str
    timezone: str
    tables: tuple[DimensionRule, ...]
    functions: tuple[FunctionRule, ...]
    of_table: bool
    places: SqlPlaces


def sql_rule(spec: RouteSpec) -> SqlRule | None:
    """The SQL of a route; None without one."""
    found = spec.transform
    if found is None:
        return None
    return SqlRule(
        sql=found.sql,
        timezone=found.timezone,
        tables=tuple(
            DimensionRule(name, each.table, each.refresh_ms / 1000, _access(spec, each))
            for name, each in found.tables.items()
        ),
        functions=tuple(_function(name, each) for name, each in found.functions.items()),
        of_table=not spec.table.columns_of_sql,
        places=spec.sql_places,
    )


def _access(spec: RouteSpec, joined: SqlTable) -> SourceAccess | None:
    connection = spec.table_connection
    if joined.connection is not None:
        connection = spec.connections[joined.connection]
    if connection.iceberg is not None:
        lake = LakeUpstream(joined.table, catalog_settings(spec, connection.iceberg))
        return SourceAccess(LAKE_SOURCE, lake.texts())
    if not connection.catalog:
        return None
    options = UpstreamOptions(
        name=joined.table.lower(),
        metastore=connection.catalog,
        metastore_options=with_login(spec, connection.catalog_options),
        stores=route_stores(spec),
    )
    return SourceAccess("table", options.texts())


def unit_rule(spec: RouteSpec) -> UnitRule | None:
    """The units that a route computes; None for a route that appends rows."""
    source, sql = spec.source, sql_rule(spec)
    if source.mode != "recompute" or sql is None or spec.transform is None:
        return None
    columns = tuple(name.lower() for name in source.unit)
    tables = spec.transform.tables.items()
    joined = [(name, *filter(None, (each.table, each.connection))) for name, each in tables]
    parts = (sql.sql.strip(), sql.timezone, sql.functions, columns, *([joined] if joined else []))
    return UnitRule(
        columns=columns,
        when=UnitWhen(source.when or UnitWhen.READY),
        settle_ms=DEFAULT_SETTLE_MS if source.settle_ms is None else source.settle_ms,
        fingerprint=fingerprint_of(*parts),
    )


def unit_texts(spec: RouteSpec) -> tuple[tuple[str, str], ...]:
    """Options of a source whose units a route computes; none for a route that appends rows."""
    rule = unit_rule(spec)
    return () if rule is None else ((UNITS, rule.text()),)


def _function(name: str, found: SqlFunction) -> FunctionRule:
    vectorised = found.pandas is not None
    place = found.pandas or found.python or ""
    return FunctionRule(name, place, found.returns, vectorised=vectorised)
