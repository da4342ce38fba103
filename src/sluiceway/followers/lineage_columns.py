"""The payload fields that each column of a table is made of, for lineage events.

An example: `total` with the expression `price * qty` is made of `price` and `qty`, and `city` with
`path: geo.city` is `geo.city` unchanged. The queue's own fields (`_offset`), constants and clocks
are made of no field.
Source: ColumnLineageDatasetFacet 1-2-0 of OpenLineage for the two kinds and their names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import Column, Node, children
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.contract import TableState
from sluiceway.worker.plan import PROCESSING_TIME, RECORD_TIME, PartitionRule


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a column's values.

    Attributes:
        fields: Paths in the payload, sorted, each once.
        made_by: The transformation in words; empty where values are unchanged.
    """

    fields: tuple[str, ...]
    made_by: str = ""


NOTHING = Origin(())
"""The origin of values that no field of the payload affects."""


@dataclass(frozen=True, slots=True)
class ColumnOrigins:
    """The origins of a whole table.

    Attributes:
        columns: Column or folder of the table -> its origin, in the table's order.
        filtered: Fields that decide whether a row is written; `NOTHING` without `where`.
    """

    columns: Mapping[str, Origin]
    filtered: Origin = NOTHING


NO_ORIGINS = ColumnOrigins({})
"""The origins of a route of which nothing is known."""


def column_origins(config: RouteConfig, table: TableState) -> ColumnOrigins:
    """The origins of the table's columns, by the job file alone.

    Called once a term, when a route's followers are made.

    Args:
        config: Config of the route, with columns from its registry, if any.
        table: The table as the catalog has it.
    """
    # Only Spark knows of what columns the SQL makes its own.
    columns = {} if config.sql is not None else _columns(config, table)
    chosen = {}
    for name in (*(field.name for field in table.schema.fields), *_folders(table)):
        chosen[name] = columns.get(name, NOTHING)
    where = None if config.sql is not None else config.choices.where
    filtered = NOTHING if where is None else _made(parse_expression(where), columns, where)
    return ColumnOrigins(chosen, filtered)


def _columns(config: RouteConfig, table: TableState) -> dict[str, Origin]:
    """Origins of all columns of the rows, even if only other columns use them."""
    declared = table.schema if config.columns is None else config.columns
    beside = {meta.column for meta in config.meta}
    payload = {
        field.name: Origin((".".join(field.path or (field.name,)),))
        for field in declared.fields
        if field.name not in beside and field.name.lower() not in config.left_out
    }
    found = dict(payload)
    for column in config.choices.columns:
        name, expression = column.field.name, column.expression
        if column.constant is not None:
            found[name] = NOTHING
        elif expression is not None:
            found[name] = _made(parse_expression(expression), payload, expression)
    for rule in config.partitions:
        # A lake table's field may have the name of the column that it is made of.
        if rule.name not in found:
            found[rule.name] = _partition(rule, config, found)
    return found


def _partition(rule: PartitionRule, config: RouteConfig, columns: Mapping[str, Origin]) -> Origin:
    if rule.column is not None:
        origin = columns.get(rule.column, NOTHING)
        if rule.transform is None or not origin.fields:
            return origin
        return Origin(origin.fields, f"{rule.transform} of {rule.column}")
    if rule.partitioner is not None:
        # A plug-in sees the whole row; its fields are not known here.
        return Origin((), "partitioner")
    time = config.event_time
    by_clock = time is None or time.path in ((RECORD_TIME,), (PROCESSING_TIME,))
    if time is None or by_clock or rule.pattern is None or rule.kind is not TimeKind.EVENT:
        return NOTHING
    zone = rule.timezone or time.timezone
    return Origin((time.name,), f"event time as {rule.pattern}, {zone}")


def _folders(table: TableState) -> tuple[str, ...]:
    # A lake table's partition fields are made from columns; they are none themselves.
    return () if table.identity.uuid else table.partition_columns


def _made(node: Node, columns: Mapping[str, Origin], text: str) -> Origin:
    """The origin of an expression over columns.

    A plain column is one field; of a struct only the used field counts.
    """
    fields: set[str] = set()
    for each in _named(node):
        inside = each.path[1:]
        for field in columns.get(each.path[0], NOTHING).fields:
            fields.add(".".join((field, *inside)))
    return Origin(tuple(sorted(fields)), text)


def _named(node: Node) -> Iterator[Column]:
    if isinstance(node, Column):
        yield node
    for child in children(node):
        yield from _named(child)
