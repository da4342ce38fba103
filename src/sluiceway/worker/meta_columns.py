"""Columns of what the queue has in addition to the payload: where a row came from, key, headers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from sluiceway.sources.contract import (
    UNREADABLE_HEADERS,
    Headers,
    Origins,
    SourceBatch,
    SourcePartition,
)
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.worker.plan import PlannedMetaColumn
from sluiceway.worker.row_times import record_times_us


def _headers_type(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([("name", pa.string()), ("value", value)]))


META_TYPES: dict[str, pa.DataType] = {
    "topic": pa.dictionary(pa.int32(), pa.string()),
    "partition": pa.int32(),
    "partition_text": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us"),
    "key": pa.binary(),
    "key_text": pa.string(),
    "headers": _headers_type(pa.binary()),
    "headers_text": _headers_type(pa.string()),
}


def meta_fields(meta: Sequence[PlannedMetaColumn]) -> list[pa.Field]:
    """Arrow fields of the route's meta columns, in order."""
    return [pa.field(column.column, META_TYPES[column.kind]) for column in meta]


@dataclass(frozen=True, slots=True)
class MetaValues:
    """Values of the meta columns for all rows of some batches, one after the other.

    Attributes:
        arrays: One a column; what is no text is null in them.
        dirty: Rows whose key or headers are no text, where a column wants one; `index` counts
            the batches' rows. A row may be in it more than once.
    """

    arrays: list[pa.Array]
    dirty: list[DirtyRow]


def meta_values(
    meta: Sequence[PlannedMetaColumn],
    batches: Sequence[SourceBatch],
    splits: Sequence[SourcePartition],
) -> MetaValues:
    """Values of the meta columns.

    Args:
        meta: Which columns.
        batches: Batches as one read returned them.
        splits: The log of each split, by index.
    """
    makers: dict[str, Callable[[Sequence[SourceBatch], Sequence[SourcePartition]], pa.Array]] = {
        "topic": _topics,
        "partition": _partitions,
        "partition_text": _partition_texts,
        "offset": _offsets,
        "timestamp": _timestamps,
    }
    found = MetaValues([], [])
    for column in meta:
        maker = makers.get(column.kind)
        if maker is not None:
            found.arrays.append(maker(batches, splits))
        elif column.kind.startswith("key"):
            found.arrays.append(_keys(column, batches, found.dirty))
        else:
            found.arrays.append(_headers(column, batches, found.dirty))
    return found


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
    numbers = np.array([splits[batch.split_index].number for batch in batches], dtype=np.int32)
    return pa.array(np.repeat(numbers, _lengths(batches)))


def _partition_texts(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    if (origins := _origins(batches)) is not None:
        return pa.array([str(key) for each in origins for key in each.partitions], pa.string())
    names = pa.array([str(split.partition) for split in splits], pa.string())
    codes = np.array([batch.split_index for batch in batches], dtype=np.int64)
    return names.take(pa.array(np.repeat(codes, _lengths(batches))))


def _offsets(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    del splits
    if (origins := _origins(batches)) is not None:
        return pa.array([offset for each in origins for offset in each.offsets], pa.int64())
    return pa.concat_arrays([pa.array(batch.offsets, pa.int64()) for batch in batches])


def _timestamps(batches: Sequence[SourceBatch], splits: Sequence[SourcePartition]) -> pa.Array:
    del splits
    return record_times_us(batches).view(pa.timestamp("us"))


def _origins(batches: Sequence[SourceBatch]) -> list[Origins] | None:
    """Where the rows first came from; None when their splits say it. One read has one kind."""
    found = [batch.origins() for batch in batches]
    known = [each for each in found if each is not None]
    return known if known and len(known) == len(found) else None


def _lengths(batches: Sequence[SourceBatch]) -> list[int]:
    return [len(batch.values) for batch in batches]


def _keys(
    column: PlannedMetaColumn, batches: Sequence[SourceBatch], dirty: list[DirtyRow]
) -> pa.Array:
    keys = pa.array(list(chain.from_iterable(batch.keys() for batch in batches)), pa.binary())
    if column.kind == "key":
        return keys
    texts = [_text(key) for key in keys.to_pylist()]
    for row, (text, key) in enumerate(zip(texts, keys, strict=True)):
        if text is None and key.is_valid:
            dirty.append(_no_text(row, column.column, "the key"))
    return pa.array(texts, pa.string())


def _headers(
    column: PlannedMetaColumn, batches: Sequence[SourceBatch], dirty: list[DirtyRow]
) -> pa.Array:
    texts = column.kind == "headers_text"
    values: list[list[dict[str, object]] | None] = []
    for row, headers in enumerate(chain.from_iterable(batch.headers() for batch in batches)):
        made = list(_named(headers, texts=texts))
        fits = headers != UNREADABLE_HEADERS and not any(
            "\0" in str(one["name"]) or (one["value"] is None) is not (value is None)
            for one, (_, value) in zip(made, headers, strict=True)
        )
        values.append(made if fits else None)
        if not fits:
            dirty.append(_no_text(row, column.column, "a header"))
    return pa.array(values, META_TYPES[column.kind])


def _named(headers: Headers, *, texts: bool) -> Iterator[dict[str, object]]:
    for name, value in headers:
        yield {"name": name, "value": _text(value) if texts else value}


def _text(value: bytes | None) -> str | None:
    """A value as text; None also for a value that is no text. As everywhere, text has no NUL."""
    try:
        return None if value is None or b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return None


def _no_text(row: int, column: str, what: str) -> DirtyRow:
    message = f"{what} is no text: not UTF-8, or with a NUL character"
    return DirtyRow(row, "convert", DirtyReason.ENCODING, column, message)
