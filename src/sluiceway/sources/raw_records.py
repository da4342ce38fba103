"""Records as the queue has them, by column: what is kept of those that no table can take."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.sources.contract import Headers, SourcePartition

RECORD_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])),
        ),
    ]
)

_HEADERS: pa.DataType = RECORD_SCHEMA.field("headers").type


def raw_records(
    partition: SourcePartition,
    offsets: Sequence[int] | npt.NDArray[np.int64],
    timestamps_ms: Sequence[int | None] | pa.Array,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers],
) -> pa.RecordBatch:
    """Records of one log, as `SourceBatch.records` returns them; equally many of each.

    Called by sources, for rows that turned out dirty.

    Args:
        partition: The log.
        offsets: Of the records.
        timestamps_ms: The queue's record times, since the epoch; None where it has none.
        keys: None is no key.
        values: None is a tombstone.
        headers: Names may repeat.
    """
    count = len(offsets)
    arrays = [
        pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pa.array(timestamps_ms, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        _header_lists(headers),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _header_lists(headers: Sequence[Headers]) -> pa.Array:
    if any(headers):
        named = [[{"name": name, "value": value} for name, value in each] for each in headers]
        return pa.array(named, _HEADERS)
    # Most records have none, and empty lists of Python's cost as much as the rest of a record.
    starts = pa.array(np.zeros(len(headers) + 1, np.int32))
    return pa.ListArray.from_arrays(starts, pa.array([], _HEADERS.value_type), type=_HEADERS)
