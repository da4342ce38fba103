"""Which fields of the payload each column of a table is made of, for events of lineage.

An example: `total` with the expression `price * qty` is made of `price` and `qty`, and `city` with
`path: geo.city` is `geo.city` as it is. What the queue has beside the payload (`_offset`),
constants and clocks are made of no field.
Source: ColumnLineageDatasetFacet 1-2-0 of OpenLineage for the two kinds and their names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluiceway.eventtime.time_kind import TimeKind
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import Column, Node, children
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.contract import TableState
from sluiceway.worker.plan import PROCESSING_TIME, RECORD_TIME, PartitionRule


@dataclass(frozen=True, slots=True)
class Origin:
    """Where values come from.

    Attributes:
        fields: Dotted places in the payload, sorted, each once.
        made_by: What is made of them, in words; empty where they are taken as they are.
    """

    fields: tuple[str, ...]
    made_by: str = ""


NOTHING = Origin(())
"""Of what no field of the payload has a part in."""


@dataclass(frozen=True, slots=True)
class ColumnOrigins:
    """Of a whole table.

    Attributes:
        columns: Column or folder of the table -> what it is made of, in the table's order.
        filtered: What decides whether a row is written; `NOTHING` without `where`.
    """

    columns: Mapping[str, Origin]
    filtered: Origin = NOTHING


NO_ORIGINS = ColumnOrigins({})
"""Of a route of which nothing is known."""


def column_origins(config: RouteConfig, table: TableState) -> ColumnOrigins:
    """What the table's columns are made of, by the job file alone.

    Called once a term, when a route's followers are made.

    Args:
        config: Of the route, with the columns that a registry may have said.
        table: As the catalog has it.
    """
    columns = _columns(config, table)
    chosen = {}
    for name in (*(field.name for field in table.schema.fields), *_folders(table)):
        chosen[name] = columns.get(name, NOTHING)
    where = config.choices.where
    filtered = NOTHING if where is None else _made(parse_expression(where), columns, where)
    return ColumnOrigins(chosen, filtered)


def _columns(config: RouteConfig, table: TableState) -> dict[str, Origin]:
    """Of all columns that rows have, also those that are only there for others to be made from."""
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
        # A plug-in sees the whole row; which fields it asks for is its own affair.
        return Origin((), "partitioner")
    time = config.event_time
    by_clock = time is None or time.path in ((RECORD_TIME,), (PROCESSING_TIME,))
    if time is None or by_clock or rule.pattern is None or rule.kind is not TimeKind.EVENT:
        return NOTHING
    zone = rule.timezone or time.timezone
    return Origin((time.name,), f"event time as {rule.pattern}, {zone}")


def _folders(table: TableState) -> tuple[str, ...]:
    # A lake table's partition fields are made from columns; they are none.
    return () if table.identity.uuid else table.partition_columns


def _made(node: Node, columns: Mapping[str, Origin], text: str) -> Origin:
    """Of an expression over columns.

    A column of plain type is one field; of a struct the field inside is named.
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
