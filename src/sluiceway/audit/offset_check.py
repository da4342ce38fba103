"""Do the files of an epoch hold exactly the offsets that its record says were read?

Possible when the table keeps topic, partition and offset of each row. The epoch must have no rows
that are in no file by rule (tombstones, filtered rows).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.ledger.offset_sum import ZERO, add_sums, offset_sum
from sluiceway.ledger.records import DataRecord
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.sinks.files.reading import read_columns
from sluiceway.storage.contract import Storage
from sluiceway.types.log_key import LogKey, SourceKey, read_log_key

DIRTY_COLUMNS = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class OriginColumns:
    """Names of the table's columns that say where a row came from."""

    topic: str
    partition: str
    offset: str


def origin_columns(meta: Mapping[str, str]) -> OriginColumns | None:
    """The columns of a route, or None when it does not keep all three.

    Args:
        meta: Part of the record -> column name, as far as kept: topic, partition, offset.
    """
    names = [meta[name] for name in DIRTY_COLUMNS if name in meta]
    return OriginColumns(*names) if len(names) == len(DIRTY_COLUMNS) else None


def offset_problems(
    storage: Storage,
    record: DataRecord,
    columns: OriginColumns,
    paths: Mapping[str, str],
    choice: FileChoice = PARQUET_FILES,
) -> list[str]:
    """Source partitions whose rows in the files differ from the offsets that were read.

    Called by `verify --deep`, once for each record.

    Args:
        storage: The store of the table.
        record: The record of the epoch.
        columns: Where a row's origin is kept.
        paths: Final name of a file (as in the record) -> where it is now.
        choice: The format of the table's files.

    Returns:
        One message a source partition; empty when all is right.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found: dict[SourceKey, str] = {}
    wanted = [columns.topic, columns.partition, columns.offset]
    problems = []
    columns_of = [(file, wanted) for file in (*record.files, *record.late_files)]
    columns_of += [(file, list(DIRTY_COLUMNS)) for file in record.dirty_files]
    for file, names in columns_of:
        try:
            add_origins(found, file_origins(storage, paths[file.final], names, choice))
        except (pa.ArrowException, ValueError, KeyError) as error:
            problems.append(f"{file.final}: {', '.join(names)} cannot be read: {error}")
    for span in record.ranges:
        read = found.pop((span.topic, span.partition), ZERO)
        if read != span.offset_sum:
            problems.append(
                f"{span.topic}[{span.partition}] [{span.start}, {span.end}): "
                f"the files do not hold the {span.rows} rows that were read"
            )
    problems += [f"{topic}[{number}]: rows of a log that was not read" for topic, number in found]
    return problems


def file_origins(
    storage: Storage, path: str, names: list[str], choice: FileChoice = PARQUET_FILES
) -> Iterable[tuple[str, LogKey, NDArray[np.int64]]]:
    """(topic, partition, offsets) of a file's rows."""
    with storage.open_read(path) as stream:
        table = read_columns(path, stream, names, choice)
    return table_origins(table, names)


def table_origins(
    table: pa.Table, names: list[str]
) -> Iterable[tuple[str, LogKey, NDArray[np.int64]]]:
    """(topic, partition, offsets) of rows.

    Raises:
        ValueError: There are nulls, or keys that no source gives.
        ArrowException: They are of other types.
    """
    table = table.select(names)
    if any(column.null_count for column in table.columns):
        raise ValueError("there are nulls")
    kinds = (pa.string(), pa.string(), pa.int64())
    table = table.cast(pa.schema(list(zip(names, kinds, strict=True))))
    topics = table.column(0).combine_chunks().dictionary_encode()
    if isinstance(topics, pa.ChunkedArray):
        topics = topics.unify_dictionaries().combine_chunks()
    for code, topic in enumerate(topics.dictionary.to_pylist()):
        of_topic = table.filter(pc.equal(topics.indices, code))
        keys = of_topic.column(1)
        offsets = of_topic.column(2).to_numpy()
        for key in pc.unique(keys):
            yield topic, _log_key(key.as_py()), offsets[pc.equal(keys, key).to_numpy()]


def _log_key(text: str) -> LogKey:
    """A key as the ledger has it: text formats keep numbers as text, too."""
    key = read_log_key(text)
    if key is None:
        raise ValueError(f"{text!r} is no source partition")
    return key


def add_origins(
    found: dict[SourceKey, str], origins: Iterable[tuple[str, LogKey, NDArray[np.int64]]]
) -> None:
    """Add rows to the sums of their source partitions."""
    for topic, number, offsets in origins:
        key = (topic, number)
        found[key] = add_sums(found.get(key, ZERO), offset_sum(number, offsets))
