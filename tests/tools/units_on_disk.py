"""A table of hours on this disk, and the job that computes them: no server, no JVM."""

import time
from dataclasses import dataclass
from pathlib import Path

from sluiceway.audit.open_table import find_ledger, read_ledger
from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable
from sluiceway.errors import TableNotFoundError
from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from sluiceway.ledger.records import Body
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.sinks.hive.table_format import layout_to_create
from sluiceway.sinks.table_options import TableOptions
from sluiceway.storage.access import NO_STORES
from tools.job_files import JobFile
from tools.route_runs import RouteRun
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

SQL = "SELECT app, count(*) AS n, sum(ts)::BIGINT AS total FROM input GROUP BY app"
UPSTREAM = "ods.orders"


@dataclass(frozen=True, slots=True)
class UnitsOnDisk:
    """Both tables.

    Attributes:
        above: The table that is read, filled record by record.
        run: The job that computes its hours.
    """

    above: RowsOnDisk
    run: RouteRun

    def fill(self, *partitions: str, rows: int = 4) -> None:
        """Commit rows of hours, and announce these."""
        self.above.add(*partitions, rows=rows)
        self.announce(*partitions)

    def announce(self, *prefixes: str) -> None:
        """Close and announce hours."""
        self.above.table.rows(closed=prefixes)
        for each in prefixes:
            self.above.announce(each)

    def swaps(self) -> list[SwapRecord]:
        """The SWAPs of the computed table."""
        return [each for each in self._bodies() if isinstance(each, SwapRecord)]

    def ready(self) -> list[ReadyRecord]:
        """Its announcements."""
        return [each for each in self._bodies() if isinstance(each, ReadyRecord)]

    def _bodies(self) -> list[Body]:
        try:
            log = read_ledger(find_ledger(self.run.config())).log
        except TableNotFoundError:  # Its driver has not created it yet.
            return []
        return [record.body for record, _ in log.records()]

    def rows(self) -> list[tuple[object, ...]]:
        """What readers of it find: hour, number of rows, and the sum of their numbers."""
        found = self.run.rows("app, n, total")
        return [(str(app)[-2:], n, total) for app, n, total in found]


def units_on_disk(folder: Path, sql: str = SQL, source: str = "when: ready") -> UnitsOnDisk:
    """An empty table of hours in a catalog in a folder, and the job that computes them."""
    above = rows_on_disk(folder)
    add_table(folder, above.root, UPSTREAM)
    return UnitsOnDisk(above, unit_job(folder, sql, source))


def add_table(folder: Path, root: Path, name: str, **more: str) -> None:
    """Write a table of `ts` and `app` by hour into the catalog.

    Args:
        folder: Of the catalog.
        root: Where the table lies.
        name: `database.table`.
        more: Further columns, with their types.
    """
    database, _, table = name.partition(".")
    options = TableOptions("", database, table, None, (), file_format=FileFormat.PARQUET)
    columns = (
        HiveColumn("ts", "bigint"),
        HiveColumn("app", "string"),
        *(HiveColumn(column, kind) for column, kind in more.items()),
    )
    layout, _ = layout_to_create(options, HiveLayout(str(root), "", "", "", columns))
    parts = (HiveColumn("dt", "string"), HiveColumn("hr", "string"))
    made = MetastoreTable(
        database, table, "EXTERNAL_TABLE", layout, parts, {}, created_at_s=int(time.time())
    )
    FolderCatalog(str(folder), NO_STORES).create_table(made)


def unit_job(
    folder: Path, sql: str = SQL, source: str = "when: ready", *, lake: bool = False
) -> RouteRun:
    """The job file; written again with another query.

    Args:
        folder: Of both tables.
        sql: The query.
        source: Further keys of the source.
        lake: Into an Iceberg table.
    """
    path = folder / "hourly.yaml"
    store = f'{{uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}'
    table = "hive: {connection: disk, name: dm.hourly}"
    if lake:
        (folder / "warehouse").mkdir(exist_ok=True)
        table = "iceberg: {connection: lake, name: dm.hourly}"
    path.write_text(f"""\
version: 1
name: hourly
connections: {{disk: {{folder: {{path: {folder}}}}}, lake: {{iceberg: {{sql: {store}}}}}}}
source: {{connection: disk, table: {UPSTREAM}, mode: recompute, unit: [dt, hr], {source}}}
transform:
  sql: {sql}
table: {{{table}}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    return RouteRun(JobFile(path, "dm.hourly"))
