"""What a manifest says of a data file, from the footer of the file itself.

Ids and types are the file's own: the table may have got other columns since it was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, StringType

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.storage.contract import Storage

_FIELD_ID = b"PARQUET:field_id"
_NOTHING = MetricsMode(MetricModeTypes.NONE)
_COUNTS = MetricsMode(MetricModeTypes.COUNTS)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A data file where the table has it.

    Attributes:
        uri: URI as manifests name it: below the table's location, in the location's own spelling.
        path: Path as the storage names it.
        texts: Values of its partition, as the ledger has them.
        seqs: Slots whose rows are in it.
    """

    uri: str
    path: str
    rows: int
    size_bytes: int
    texts: tuple[str | None, ...]
    seqs: tuple[int, ...]


def read_footer(storage: Storage, path: str) -> Any:
    """Footer of a Parquet file.

    Raises:
        FileLostError: It is no whole Parquet file.
        StorageUnavailableError: It cannot be read.
    """
    try:
        with storage.open_read(path) as handle:
            return pq.ParquetFile(handle).metadata
    except pa.ArrowException as error:
        raise FileLostError(
            f"a committed file has no readable footer: {error}",
            where=path,
            hint="run `sluiceway verify JOB --deep` and restore the file from a backup",
        ) from error
    except OSError as error:
        raise StorageUnavailableError(f"cannot read {path}: {error}") from error


def data_file(
    file: PlacedFile, footer: Any, metadata: TableMetadata, spec: PartitionSpec, partition: Record
) -> DataFile:
    """A file as a manifest entry has it, with counts and bounds of its columns.

    Args:
        file: Placed.
        footer: Its own.
        metadata: Metadata of the table as it was loaded: column modes, types.
        spec: Spec of the file's partition.
        partition: Typed.
    """
    ids = dict(_leaf_ids(footer.schema.to_arrow_schema()))
    plan = _statistics_plan(metadata, ids)
    try:
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=plan, parquet_column_mapping=ids
        )
    except ValueError:
        # A column that was widened since: its narrower statistics are left out.
        counted = {
            key: replace(each, mode=_COUNTS) if each.mode != _NOTHING else each
            for key, each in plan.items()
        }
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=counted, parquet_column_mapping=ids
        )
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=file.size_bytes,
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        **found.to_serialized_dict(),
    )
    made.spec_id = spec.spec_id
    return made


def _statistics_plan(
    metadata: TableMetadata, ids: Mapping[str, int]
) -> dict[int, StatisticsCollector]:
    """Which statistics of which column; none of columns that the table has dropped since."""
    plan: dict[int, StatisticsCollector] = compute_statistics_plan(
        metadata.schema(), metadata.properties
    )
    for path, field_id in ids.items():
        if field_id not in plan:
            plan[field_id] = _unwanted(field_id, path, StringType())
    return plan


def _unwanted(field_id: int, path: str, kind: IcebergType) -> StatisticsCollector:
    return StatisticsCollector(
        field_id=field_id, iceberg_type=kind, mode=_NOTHING, column_name=path
    )


def top_level_ids(footer: Any) -> dict[int, str]:
    """Ids of a file's columns, with the names that they have in it."""
    schema = footer.schema.to_arrow_schema()
    return {_id_of(field): field.name for field in schema}


def _leaf_ids(schema: pa.Schema) -> Iterator[tuple[str, int]]:
    for field in schema:
        yield from _leaves(field.name, field)


def _leaves(path: str, field: pa.Field) -> Iterator[tuple[str, int]]:
    """Columns as Parquet names them, each with its own id."""
    kind = field.type
    if pa.types.is_struct(kind):
        for inner in kind:
            yield from _leaves(f"{path}.{inner.name}", inner)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_field)
        yield from _leaves(f"{path}.key_value.value", kind.item_field)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_field)
    else:
        yield path, _id_of(field)


def _id_of(field: pa.Field) -> int:
    found = (field.metadata or {}).get(_FIELD_ID)
    if found is None:
        raise FileLostError(
            f"its column {field.name} has no field id: it was not written for this table",
            hint="run `sluiceway verify JOB`",
        )
    return int(found)


def missing_files(storage: Storage, files: Sequence[PlacedFile]) -> list[PlacedFile]:
    """Files that are not where they were placed, or have another size."""
    lost = []
    for file in files:
        status = storage.status(file.path)
        if status is None or status.size_bytes != file.size_bytes:
            lost.append(file)
    return lost
