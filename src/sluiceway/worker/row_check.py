"""Can rows of this schema be read, dated and partitioned at all? Asked before any task runs."""

from sluiceway.eventtime.event_time import EventTimeReader
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.schema import Schema
from sluiceway.worker.pipeline import partition_assigner
from sluiceway.worker.plan import EventTimeRule, PartitionRule


def row_problem(
    schema: Schema, event_time: EventTimeRule | None, partitions: tuple[PartitionRule, ...]
) -> str | None:
    """Why no task could fill the table, or None. Called by `validate` and at a route's start.

    Args:
        schema: Columns that come from the payload.
        event_time: Where the event time is.
        partitions: The partition columns.
    """
    try:
        decoder = JsonDecoder(schema)
        if event_time is not None:
            EventTimeReader(event_time.path, event_time.unit, decoder.arrow_schema)
        partition_assigner(partitions, event_time, decoder.arrow_schema)
    except ValueError as error:
        return str(error)
    return None
