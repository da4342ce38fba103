"""A table whose ledger lies on this disk, with a job file that says where: no server needed."""

from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import RowCounts
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
        self,
        *partitions: str,
        closed: tuple[str, ...] = (),
        rows: int = 10,
        source: int = 0,
        newest_us: int | None = None,
        mark: WatermarkRecord | None = None,
    ) -> tuple[FileRecord, ...]:
        """Commit an epoch with a file of so many rows in each of these partitions.

        Args:
            partitions: By folder; an empty text is the table without partition columns.
            closed: When it was planned, and not before.
            rows: In each file.
            source: Number of the source partition.
            newest_us: Greatest event time of the rows.
            mark: What the record says of the watermark.
        """
        fold = self.writer.fold
        start = fold.sources["orders", source].end
        number, zero = BigInt(rows * len(partitions)), BigInt(0)
        newest = None if newest_us is None else BigInt(newest_us)
        read = replace(span(source, start, start + number), max_event_time_us=newest)
        base = data(fold.term, fold.last_epoch + 1, read)
        body = replace(
            base,
            files=tuple(self._file(fold.last_epoch + 1, each, rows) for each in partitions),
            counts=RowCounts(number, number, zero, zero, zero, zero),
            closed=(*fold.closed, *closed),
            ranges=base.ranges if partitions else (),
            watermark=mark,
        )
        self.writer.commit(lambda now: placed(body, now))
        self.writer.set_published()
        return body.files

    def _file(self, epoch: int, partition: str, rows: int) -> FileRecord:
        term = self.writer.fold.term
        name = f"{ROUTE}-{term}-{epoch}-0-{uuid4().hex}.parquet"
        values = tuple(part.partition("=")[2] for part in partition.split("/") if part)
        return FileRecord(
            f"{term}-{epoch}-{uuid4().hex}/{name}",
            f"{partition}/{name}".removeprefix("/"),
            values,
            BigInt(rows),
            BigInt(rows * 100),
            "00000000",
            {},
        )


def table_on_disk(
    folder: Path,
    *,
    partitions: int = 1,
    more: str = "",
    partition_by: str = PARTITION_BY,
    event_time: str = "event_time: {field: ts, unit: ms}",
) -> TableOnDisk:
    """An empty ledger behind its first fence, with source partitions.

    Args:
        folder: Where job file and table lie.
        partitions: Number of source partitions.
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
format: {{json: {{unknown_fields: ignore}}}}
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
    table.writer.commit(sources(*range(partitions)))
    return table


def _no_wait(attempts: int, error: Exception) -> None:
    raise AssertionError((attempts, error))
