"""Can rows of this schema be read, dated and partitioned at all? Asked before any task runs."""

from sluiceway.expressions.tree import ExpressionError
from sluiceway.formats.registry import JSON, FormatChoice, open_decoder
from sluiceway.types.schema import Schema
from sluiceway.worker.plan import EventTimeRule, PartitionRule
from sluiceway.worker.row_choices import RowChooser
from sluiceway.worker.row_rules import NO_CHOICES, RowChoices
from sluiceway.worker.row_times import RowTimesReader, partition_assigner


def row_problem(
    schema: Schema,
    event_time: EventTimeRule | None,
    partitions: tuple[PartitionRule, ...],
    choices: RowChoices = NO_CHOICES,
    payload: FormatChoice = JSON,
) -> str | None:
    """Why no task could fill the table, or None. Called by `validate` and at a route's start.

    Args:
        schema: Columns that come from the payload.
        event_time: Where the event time is.
        partitions: The partition columns.
        choices: What the rows are made of the payload's columns.
        payload: How the payload is read.
    """
    try:
        open_decoder(payload, schema)
        rows = RowChooser(schema, choices).arrow_schema
        RowTimesReader(event_time, partitions, rows)
        partition_assigner(partitions, event_time, rows)
    except (ValueError, ExpressionError) as error:
        return str(error)
    return None
