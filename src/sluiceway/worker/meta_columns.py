"""Columns that say where a row came from: topic, partition, offset, timestamp."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sluiceway.sources.contract import Origins, SourceBatch, SourcePartition
from sluiceway.worker.plan import MetaColumn

META_TYPES: dict[str, pa.DataType] = {
    "topic": pa.dictionary(pa.int32(), pa.string()),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us"),
}


def meta_fields(meta: Sequence[MetaColumn]) -> list[pa.Field]:
    """Arrow fields of the route's meta columns, in order."""
    return [pa.field(column.column, META_TYPES[column.kind]) for column in meta]


def meta_arrays(
    meta: Sequence[MetaColumn],
    batches: Sequence[SourceBatch],
    splits: Sequence[SourcePartition],
) -> list[pa.Array]:
    """Values of the meta columns for all rows of the batches, one after the other.

    Args:
        meta: Which columns.
        batches: As one read returned them.
        splits: The log of each split, by index.
    """
    makers: dict[str, Callable[[Sequence[SourceBatch], Sequence[SourcePartition]], pa.Array]] = {
        "topic": _topics,
        "partition": _partitions,
        "offset": _offsets,
        "timestamp": _timestamps,
    }
    return [makers[column.kind](batches, splits) for column in meta]


def _topics(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    if (origins := _origins(batches)) is not None:
        topics = [topic for each in origins for topic in each.topics]
        return pa.array(topics, pa.string()).dictionary_encode()
    names = sorted({split.topic for split in splits})
    codes = [names.index(splits[batch.split_index].topic) for batch in batches]
    return pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.array(codes, dtype=np.int32), _lengths(batches))),
        pa.array(names, pa.string()),
    )


def _partitions(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    if (origins := _origins(batches)) is not None:
        return pa.array([number for each in origins for number in each.partitions], pa.int32())
    numbers = np.array([splits[batch.split_index].partition for batch in batches], dtype=np.int32)
    return pa.array(np.repeat(numbers, _lengths(batches)))


def _offsets(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    del splits
    if (origins := _origins(batches)) is not None:
        return pa.array([offset for each in origins for offset in each.offsets], pa.int64())
    return pa.concat_arrays([pa.array(batch.offsets, pa.int64()) for batch in batches])


def _timestamps(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    del splits
    millis = [pa.array(batch.timestamps_ms(), pa.int64()) for batch in batches]
    return pa.concat_arrays(millis).cast(pa.timestamp("ms")).cast(pa.timestamp("us"))


def _origins(batches: Sequence[SourceBatch]) -> list[Origins] | None:
    """Where the rows first came from; None when their splits say it. One read has one kind."""
    found = [batch.origins() for batch in batches]
    known = [each for each in found if each is not None]
    return known if known and len(known) == len(found) else None


def _lengths(batches: Sequence[SourceBatch]) -> list[int]:
    return [len(batch.values) for batch in batches]
