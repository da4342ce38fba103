"""All rows of one snapshot of an Iceberg table: a small table that SQL joins."""

from collections.abc import Generator

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import UUIDType

from sluiceway.chains.lake_client import LakeClient
from sluiceway.chains.lake_reader import client_errors
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.chains.whole_table import WholeTable
from sluiceway.errors import NotInThisVersionError


def whole_lake_table(options: LakeUpstream, pin: str, timeout_s: float) -> WholeTable | None:
    """The newest snapshot of a table, or the pinned one if the table still has it.

    Args:
        options: How the table is reached.
        pin: See `WholeTable.pin`; empty for the newest one.
        timeout_s: Longest wait for an answer of the catalog.

    Returns:
        Its rows, read batch by batch; None for a table without a snapshot.

    Raises:
        SourceUnavailableError: Catalog or store does not answer, or there is no such table yet.
        NotInThisVersionError: The snapshot has deletes by value (equality deletes), or the table
            has a type that Spark does not read from Arrow.
    """
    client = LakeClient(options, timeout_s)
    try:
        table = client.table()
        wanted = _pinned(pin, table.metadata)
        if wanted is None:
            return None
        with client_errors(options.topic):
            scan = table.scan(snapshot_id=wanted)
            schema = _joinable(scan.projection(), options.topic)
            files = _files(scan, options.topic)
    finally:
        client.close()
    arrow = schema_to_pyarrow(schema, include_field_ids=False)

    def rows() -> Generator[pa.Table]:
        scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
        for file in files:
            with client_errors(options.topic):
                deletes = _read_all_delete_files(table.io, [file])
                # The public call holds all rows of a file in memory.
                for batch in scan._record_batches_from_scan_tasks_and_deletes([file], deletes):  # noqa: SLF001
                    yield pa.Table.from_batches([batch]).cast(arrow)

    return WholeTable(f"{table.metadata.table_uuid}@{wanted}", rows())


def _pinned(pin: str, metadata: TableMetadata) -> int | None:
    of, _, number = pin.partition("@")
    if of == str(metadata.table_uuid) and metadata.snapshot_by_id(int(number)) is not None:
        return int(number)
    newest: int | None = metadata.current_snapshot_id
    return newest


def _joinable(schema: Schema, topic: str) -> Schema:
    for name in schema.column_names:
        if isinstance(schema.find_type(name), UUIDType):
            raise NotInThisVersionError(
                f"the table cannot be joined: Spark does not read the type of {name}, uuid",
                where=topic,
                hint="join a table that has it as a string",
            )
    return schema


def _files(scan: DataScan, topic: str) -> list[FileScanTask]:
    try:
        return list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        raise NotInThisVersionError(
            f"the table cannot be joined: {error}",
            where=topic,
            hint="rewrite its data files, for example by Spark's rewrite_data_files",
        ) from error
