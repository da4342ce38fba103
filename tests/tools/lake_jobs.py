"""Jobs that fill lake tables, and what readers find in them."""

from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.verify import VerifyReport
from sluiceway.driver.run import Observers, run_routes
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import load_job
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
from sluiceway.sinks.iceberg.catalog.hive_catalog import HiveLakeCatalog
from tools.inline_runner import InlineRunner

COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: ts, type: timestamp, required: true, unit: ms}
    - {name: city, type: string}
    - {name: amount, type: "decimal(18,2)"}
    - {name: tags, type: "array<string>"}
    - {name: geo, type: "struct<lat:double,small:smallint>"}"""
BY_HOUR = "[{column: ts, transform: hour}, {column: city}]"
BY_DAY = '[{name: dt, event_time: "yyyyMMdd"}]'


@dataclass(frozen=True, slots=True)
class LakeJob:
    """A job file whose one table is in a catalog of SQLite, in a folder of its own."""

    path: Path
    folder: Path
    table: str
    metastore: str = ""
    rest: str = ""

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.folder}/catalog.db"

    def catalog(self) -> Catalog:
        """Another client of the same catalog."""
        if self.rest:
            return load_catalog("lake", type="rest", uri=self.rest)
        return SqlCatalog("lake", uri=self.uri, warehouse=f"file://{self.folder}/warehouse")

    def load(self) -> Table:
        """The table, as that client sees it."""
        database, _, name = self.table.partition(".")
        if self.metastore:
            catalog = HiveLakeCatalog({"uri": self.metastore}, 30.0)
            found = catalog.load((database, name))
            catalog.close()
            assert found is not None
            return found
        return self.catalog().load_table(self.table)

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        """All rows, in order of their values."""
        found = self.load().scan(selected_fields=columns or ("*",)).to_arrow()
        names = columns or tuple(found.column_names)
        return sorted(zip(*(found[name].to_pylist() for name in names), strict=True))

    def verified(self) -> VerifyReport:
        """What `sluiceway verify --deep` says."""
        (route,) = compile_routes(load_job(self.path).spec).routes
        return verify_route(route, deep=True)

    def ledger(self) -> Path:
        """Folder of the ledger."""
        (found,) = (self.folder / "warehouse").glob("*/_sluiceway/*")
        return found

    def ledger_is_there(self) -> bool:
        """Whether a driver has begun with the table."""
        return any((self.folder / "warehouse").glob("*/_sluiceway/*"))

    def catch_up(self, *, observe: Observer = ignore_step) -> None:
        """Run the job to the log ends read at its start, in this process."""
        self.run(StopSignal(), bounded=True, observe=observe)

    def run(self, stop: StopSignal, *, bounded: bool, observe: Observer = ignore_step) -> None:
        """Run the job until it is stopped, or has read all."""
        runner = InlineRunner()
        try:
            run_routes(
                compile_routes(load_job(self.path).spec),
                runner,
                stop,
                Observers(stderr_log(level="info"), Progress()),
                bounded=bounded,
                observe=observe,
            )
        finally:
            runner.close()


def write_lake_job(  # noqa: PLR0913 - a test names what it changes
    folder: Path,
    *,
    topic: str,
    bootstrap_servers: str = "",
    main: str = "",
    partition_by: str = BY_HOUR,
    event_time: str = "",
    columns: str = COLUMNS,
    iceberg: str = "",
    metastore: str = "",
    rest: str = "",
    meta: str = "[partition, offset]",
    more: str = "",
    interval: str = "0.5s",
    payload: str = "json: {tombstones: skip}",
    key: str = "",
    connections: str = "",
    location: str = "",
) -> LakeJob:
    """A job of one topic and one table.

    Args:
        main: The source's connection, where it is no Kafka.
    """
    (folder / "warehouse").mkdir(exist_ok=True)
    main = main or f'kafka: {{bootstrap_servers: "{bootstrap_servers}"}}'
    sql = f'sql: {{uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}'
    connection = sql
    if metastore:
        connection = f'hive: {{uri: "{metastore}"}}'
        iceberg += f', location: "{location or f"file://{folder}/warehouse/{topic}"}"'
    if rest:
        connection = f'rest: {{uri: "{rest}"}}'
    table = f"ods.{topic.replace('-', '_')}"
    text = f"""\
version: 1
name: {topic.replace("_", "-")}
connections:
  main: {{{main}}}
  lake: {{iceberg: {{{connection}}}}}
{connections}
source: {{connection: main, topics: [{topic}], start: earliest}}
format: {{{payload}}}
table:
  iceberg: {{connection: lake, name: {table}, publish_interval: 1s{iceberg}}}
  columns:
{columns}
  partition_by: {partition_by}
  meta: {meta}
  {key}
{f"event_time: {event_time}" if event_time else ""}
{more}
run: {{interval: {interval}, master: "local[2]"}}
"""
    path = folder / f"{topic}.yaml"
    path.write_text(text)
    return LakeJob(path, folder, table, metastore, rest)
