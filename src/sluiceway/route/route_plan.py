"""What all tasks of a route share while its driver lives."""

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

from sluiceway.errors import JobFileError, TableMismatchError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.contract import TableState
from sluiceway.sources.registry import has_text_keys
from sluiceway.types.evolution import Evolution
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.plan import RoutePlan
from sluiceway.worker.row_check import row_problem
from sluiceway.worker.row_rules import NO_CHOICES, RowChoices, RowColumn


def route_plan(config: RouteConfig, owned: OwnedLedger, state: TableState) -> RoutePlan:
    """The plan that the tasks of this term share. Called after fencing, and when columns change.

    Args:
        config: The route.
        owned: Its ledger.
        state: The table as it is now.

    Raises:
        TableMismatchError: The table's columns cannot be filled as the job file says.
        JobFileError: The declared columns cannot.
    """
    term = LedgerTerm(owned.owner.ledger, owned.writer.term, owned.layout)
    return table_plan(config, state, term)


@dataclass(frozen=True, slots=True)
class LedgerTerm:
    """Whose plan it is: a ledger, where it lies, and the term of its driver."""

    ledger: str
    term: int
    layout: LedgerLayout


def table_plan(config: RouteConfig, state: TableState, term: LedgerTerm) -> RoutePlan:
    """As `route_plan`, also for commands that only foresee what would become of rows.

    Raises:
        TableMismatchError: The table's columns cannot be filled as the job file says.
        JobFileError: The declared columns cannot.
    """
    config = with_further_columns(config, state)
    schema = payload_schema(config, state.schema)
    _check_table_columns(config, state.schema, str(state.identity))
    problem = _problem(config, schema)
    if problem is not None:
        kind = TableMismatchError if config.columns is None else JobFileError
        raise kind(
            f"rows cannot be made for it: {problem}",
            where=str(state.identity),
            hint="correct columns, format, event_time or partition_by in the job file",
        )
    return RoutePlan(
        ledger=term.ledger,
        term=term.term,
        layout=term.layout,
        source=config.source,
        format=config.format,
        schema=schema,
        schema_version=schema_fingerprint(schema, config.choices, config.sql),
        meta=config.meta,
        event_time=config.event_time,
        partitions=config.partitions,
        files=state.files,
        choices=config.choices,
        samples=_samples(config),
        rolling=config.rolling,
        memory_bytes=config.memory_bytes,
        late=config.late,
        stores=config.stores,
        text_keys=has_text_keys(config.source),
        key=config.key,
        sql=config.sql_columns,
        tails=config.keeps_tails,
        share=config.share,
    )


def _problem(config: RouteConfig, schema: Schema) -> str | None:
    """Why rows cannot be made; with SQL it fills the partition columns of columns."""
    partitions, returned = config.partitions, config.sql_columns
    if returned is not None:
        problem = row_problem(returned, None, partitions)
        if problem is not None:
            return problem
        partitions = tuple(each for each in partitions if each.pattern is not None)
    return row_problem(schema, config.event_time, partitions, config.choices, config.format)


def _samples(config: RouteConfig) -> Literal["none", "dirty", "few"]:
    format_name, options = config.format.name, dict(config.format.options)
    if config.evolution is Evolution.ADD_COLUMNS and options.get("unknown_fields") == "evolve":
        return "dirty"
    # In JSON they may be kept; in delimited text they are named or follow the fields with a column.
    ignores = options.get("unknown_fields") == "ignore"
    named = format_name == "csv" and bool(options.get("fields"))
    few = (
        format_name in ("avro", "protobuf") or named or (format_name in ("json", "csv") and ignores)
    )
    return "few" if few else "none"


def decoded_columns(config: RouteConfig) -> Schema:
    """Columns of the rows that the SQL reads as `input`."""
    if config.choices.columns:
        return Schema(tuple(each.field for each in config.choices.columns))
    return config.columns or Schema(())


def with_further_columns(config: RouteConfig, state: TableState) -> RouteConfig:
    """The route with what the table has and its job file does not declare, if it follows the table.

    Structs of declared columns get the table's further fields; columns that nothing fills are read
    from the payload by their names.
    """
    if config.columns is None or not config.evolution.follows:
        return config
    held = {field.name.lower(): field.type for field in state.schema.fields}
    choices = config.choices.columns
    known = {field.name.lower() for field in config.columns.fields}
    known |= {column.field.name.lower() for column in choices}
    known |= {column.column.lower() for column in config.meta} | config.left_out
    further = tuple(field for field in state.further if field.name.lower() not in known)

    def longer(field: Field) -> Field:
        return replace(field, type=held.get(field.name.lower(), field.type))

    # Transient columns, and columns that only folders hold, are not in the table and stay as is.
    columns = Schema((*map(longer, config.columns.fields), *further))
    if choices:
        extended = (replace(column, field=longer(column.field)) for column in choices)
        choices = (*extended, *(RowColumn(field) for field in further))
    return replace(config, columns=columns, choices=replace(config.choices, columns=choices))


def payload_schema(config: RouteConfig, table: Schema) -> Schema:
    """Columns that come from the payload: the declared ones, or the table's without meta columns.

    Raises:
        TableMismatchError: A column of the job file is not in the table.
    """
    if config.columns is not None:
        return config.columns
    meta = {column.column.lower() for column in config.meta}
    fields = tuple(field for field in table.fields if field.name.lower() not in meta)
    if not fields:
        raise TableMismatchError(
            "the table has no columns to fill",
            where=f"{config.table.database}.{config.table.table}",
        )
    return Schema(fields)


def schema_fingerprint(schema: Schema, choices: RowChoices, sql: SqlRule | None = None) -> str:
    """Short name of a schema and what is made of it, the same for equal columns and choices."""
    text = ";".join(
        f"{'.'.join(field.path) or field.name}>{field.name}:{format_hive_type(field.type)}"
        f":{field.required}:{field.time_unit}"
        + "".join(f":{key}={value}" for key, value in field.policy.settings())
        for field in schema.fields
    )
    if choices != NO_CHOICES:
        text += f"|{choices!r}"
    if sql is not None:
        text += f"|{sql.sql}|{sql.timezone}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _types(schema: Schema, left_out: set[str]) -> dict[str, str]:
    types = {each.name.lower(): format_hive_type(each.type) for each in schema.fields}
    return {name: kind for name, kind in types.items() if name not in left_out}


def _check_table_columns(config: RouteConfig, table: Schema, where: str) -> None:
    """Require that a table that says its columns has those of the SQL.

    Raises:
        JobFileError: It has others; says which.
    """
    if config.sql is None or config.sql_columns is None or not config.sql.of_table:
        return
    folders = {each.name.lower() for each in config.partitions if not each.in_files}
    meta = {each.column.lower() for each in config.meta}
    returned, held = _types(config.sql_columns, folders), _types(table, meta)
    for name in sorted({*returned, *held}):
        if returned.get(name) != held.get(name):
            raise JobFileError(
                f"the column {name} is {held.get(name, 'missing')} in the table {where} and "
                f"{returned.get(name, 'missing')} in the SQL",
                where=config.sql.places.place(None),
                hint="return the table's columns: CAST(... AS TYPE) AS name",
            )
