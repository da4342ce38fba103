"""A table that another client appends to, and the job that reads it into a table of ours."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from tools.lake_jobs import LakeJob

FIRST = datetime(2026, 11, 20, 8, tzinfo=UTC)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "City", StringType()),
    NestedField(3, "at", TimestamptzType()),
)
COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: city, type: string}
    - {name: at, type: timestamp}
    - {name: shout, type: string, expression: "upper(city)"}"""
NAME = "others.events"
ROWS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("City", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def rows(numbers: range) -> pa.Table:
    """Rows of the table, an hour each hundred."""
    return pa.table(
        {
            "id": list(numbers),
            "City": [None if n % 7 == 0 else f"town{n}" for n in numbers],
            "at": [FIRST + timedelta(minutes=n) for n in numbers],
        },
        ROWS,
    )


class _ReplaceFiles(_OverwriteFiles):  # type: ignore[misc]
    """An overwrite that says of itself what a compaction does."""

    def _summary(self, *given: Any, **named: Any) -> Summary:
        summary = super()._summary(*given, **named)
        return Summary(Operation.REPLACE, **summary.additional_properties)


def merge_files(table: Table) -> None:
    """Put one file in the place of all, with the same rows in another order."""
    merge_files_of(table, lambda rows: rows.sort_by([("id", "descending")]).cast(ROWS))


def merge_files_of(
    table: Table, ordered: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> None:
    """Put other files in the place of all, with the rows as `ordered` returns them."""
    old = [task.file for task in table.scan().plan_files()]
    if not old:
        return
    merged = ordered(table.scan().to_arrow())
    with table.transaction() as change:
        files = _ReplaceFiles(Operation.OVERWRITE, change, table.io)
        for file in old:
            files.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, merged, table.io):
            files.append_data_file(file)
        files.commit()


def expire_all_but_newest(table: Table) -> None:
    """Let all snapshots go but the newest."""
    head = table.metadata.current_snapshot_id
    for each in table.metadata.snapshots:
        if each.snapshot_id != head:
            table.maintenance.expire_snapshots().by_id(each.snapshot_id).commit()


def roll_back(table: Table, snapshot_id: int) -> None:
    """Make an older snapshot the newest."""
    with table.manage_snapshots() as changes:
        changes.rollback_to_snapshot(snapshot_id)


@dataclass(frozen=True, slots=True)
class LakeChain:
    """Both tables are in one catalog."""

    job: LakeJob

    @property
    def catalog(self) -> Catalog:
        return self.job.catalog()

    def table(self) -> Table:
        """The table that is read, as it is now."""
        return self.catalog.load_table(NAME)

    def append(self, *batches: range) -> None:
        """A snapshot for each."""
        for numbers in batches:
            self.table().append(rows(numbers))

    def read(self) -> list[tuple[object, ...]]:
        """Offsets and ids of the rows that were read."""
        return self.job.rows("_offset", "id")


def lake_chain(
    folder: Path, *, columns: str = COLUMNS, source: str = "", more: str = ""
) -> LakeChain:
    """A table of others without a row, and the job that is to read it.

    Args:
        source: Further keys of the block `source`.
        more: Further blocks.
    """
    (folder / "warehouse").mkdir(exist_ok=True)
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    path = folder / "events.yaml"
    path.write_text(f"""\
version: 1
name: events
connections:
  lake: {{iceberg: {{sql: {{uri: "{uri}", warehouse: "{warehouse}"}}}}}}
source: {{table: {NAME}{source}}}
table:
  iceberg: {{connection: lake, name: ods.events, publish_interval: 1s}}
  columns:
{columns}
  partition_by: []
  meta: [offset]
{more}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    chain = LakeChain(LakeJob(path, folder, "ods.events"))
    chain.catalog.create_namespace_if_not_exists("others")
    chain.catalog.create_table(NAME, SCHEMA)
    return chain
