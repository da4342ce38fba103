"""A table whose ledger lies on this disk, with a job file that says where: no server needed."""

from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from sluiceway.job.ownership import Owner
from sluiceway.job.prepare import placed
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import RangeRecord, RowCounts
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import LEDGER, data, fence, sources, span

ROUTE = "orders"
NO_SERVER = "127.0.0.1:9"
PARTITION_BY = '[{name: dt, event_time: "yyyyMMdd"}, {name: hr, event_time: "HH"}]'


@dataclass(frozen=True, slots=True)
class TableOnDisk:
    """A job `orders` with its one table, filled record by record."""

    job: Path
    writer: LedgerWriter

    @property
    def log(self) -> LedgerLog:
        return self.writer.log

    def rows(
        self, *partitions: str, closed: tuple[str, ...] = (), rows: int = 10
    ) -> tuple[FileRecord, ...]:
        """Commit an epoch with a file of so many rows in each of these partitions."""
        fold = self.writer.fold
        start = fold.sources[("orders", 0)].end
        base = data(
            fold.term, fold.last_epoch + 1, self.span(start, start + rows * len(partitions))
        )
        number = BigInt(rows * len(partitions))
        zero = BigInt(0)
        body = replace(
            base,
            files=tuple(self._file(fold.last_epoch + 1, each, rows) for each in partitions),
            counts=RowCounts(number, number, zero, zero, zero, zero),
            closed=(*fold.closed, *closed),
        )
        self.writer.commit(lambda now: placed(body, now))
        self.writer.note_published()
        return body.files

    def span(self, start: int, end: int) -> RangeRecord:
        return span(0, start, end)

    def _file(self, epoch: int, partition: str, rows: int) -> FileRecord:
        term = self.writer.fold.term
        name = f"{ROUTE}-{term}-{epoch}-0-{uuid4().hex}.parquet"
        values = tuple(part.partition("=")[2] for part in partition.split("/"))
        return FileRecord(
            f"{term}-{epoch}-{uuid4().hex}/{name}",
            f"{partition}/{name}",
            values,
            BigInt(rows),
            BigInt(rows * 100),
            "00000000",
            {},
        )


def table_on_disk(
    folder: Path,
    *,
    more: str = "",
    partition_by: str = PARTITION_BY,
    event_time: str = "event_time: {field: ts, unit: ms}",
) -> TableOnDisk:
    """An empty ledger behind its first fence, with one source partition.

    Args:
        folder: Where job file and table lie.
        more: Blocks of the job file.
        partition_by: Of the table.
        event_time: That block.
    """
    root = folder / "t"
    job = folder / "orders.yaml"
    job.write_text(f"""\
version: 1
name: orders
connections:
  main: {{kafka: {{bootstrap_servers: "{NO_SERVER}"}}}}
  hms: {{metastore: {{uri: "thrift://{NO_SERVER}"}}}}
source: {{connection: main, topics: [orders], start: earliest}}
format: {{json: {{extra: ignore}}}}
table:
  hive: {{connection: hms, name: ods.orders, location: "file://{root}"}}
  columns: [{{name: ts, type: bigint}}, {{name: app, type: string}}]
  partition_by: {partition_by}
{event_time}
{more}
""")
    log = LedgerLog(LocalStorage(), LedgerLayout(str(root), ROUTE))
    for place in (log.layout.log, log.layout.stage):
        log.storage.make_folders(place)
    owner = Owner(LEDGER, "orders", ROUTE, str(root))
    log.storage.put_if_absent(log.layout.owner, encode(owner), tmp_folder=log.layout.stage)
    table = TableOnDisk(job, LedgerWriter(log, log.fold(), _no_wait))
    table.writer.fence(fence(), lambda: None)
    table.writer.commit(sources(0))
    return table


def _no_wait(attempts: int, error: Exception) -> None:
    raise AssertionError((attempts, error))
