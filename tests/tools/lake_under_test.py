"""A lake table, its ledger and its publishers on disk, without a broker: slots are put by hand.

The catalog may lose answers, hold requests and let them land later, or twice.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from sluiceway.errors import SluicewayError, StorageUnavailableError
from sluiceway.followers.files import Publisher
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.placing import placed
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import Log, stderr_log
from sluiceway.sinks.contract import FollowedRoute, TableState
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog, LibraryCatalog
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction, Rewriting
from sluiceway.sinks.iceberg.compact.expiring import LakeExpiry
from sluiceway.sinks.iceberg.compact.orphans import LakeOrphans
from sluiceway.sinks.iceberg.compact.replace_request import replace_request
from sluiceway.sinks.iceberg.compact.rewrite_live import LakeRewritePlan, rewrite_live
from sluiceway.sinks.iceberg.data_files import PlacedFile, data_file, read_footer
from sluiceway.sinks.iceberg.keyed.keyed_files import FilePlace
from sluiceway.sinks.iceberg.keyed.table_head import HeadReader
from sluiceway.sinks.iceberg.keyed.upsert_request import TableChange
from sluiceway.sinks.iceberg.publish.lake_table import LakeTable, hashes_of
from sluiceway.sinks.iceberg.publish.publisher import LakePlace, LakePublisher
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from sluiceway.sinks.lake_options import LakeField, LakeOptions
from sluiceway.sinks.table_options import TableOptions
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.types.strict_json import BigInt
from sluiceway.work.process import Answers
from tools.ledger_records import LEDGER, data, fence, sources, span

NAME: Identifier = ("ods", "t")
COLUMNS = Schema((Field("n", IntegerType(64)), Field("app", StringType())))
BY_APP = LakeOptions(fields=(LakeField("app", "app"),), publish_interval_s=0.0)


class RewrittenHere:
    """Files are rewritten in this process: another one costs a second."""

    def __init__(self, plan: LakeRewritePlan) -> None:
        self._answers = list(rewrite_live(plan, LocalStorage()))

    def is_over(self) -> bool:
        return True

    def answers(self, parts: int, timeout_s: float) -> Answers:
        del parts, timeout_s
        return list(self._answers), None

    def end(self) -> None:
        """Nothing is under way."""


class FaultyCatalog(LibraryCatalog):
    """A catalog between which and the publisher requests go astray.

    Attributes:
        faults: What becomes of the next requests: `pass`, `late` (kept, answered by an error),
            `lost`, `answer_lost`, `twice`, `down`.
        kept: Requests that may still land.
    """

    def __init__(self, catalog: SqlCatalog) -> None:
        super().__init__(catalog, "sqlite")
        self.faults: list[str] = []
        self.kept: list[tuple[Table, CommitRequest]] = []
        self.said: list[str] = []
        self.down = False

    def load(self, name: Identifier) -> Table | None:
        if self.down:
            raise StorageUnavailableError("the catalog is down")
        return super().load(name)

    def send(self, table: Table, request: CommitRequest) -> str:
        fault = self.faults.pop(0) if self.faults else "pass"
        if fault in ("late", "lost"):
            if fault == "late":
                self.kept.append((table, request))
            return "timed out"
        said = super().send(table, request)
        if fault == "twice":
            self.said.append(super().send(table, request))
        return "connection reset" if fault == "answer_lost" else said

    def land(self) -> str:
        """Let the oldest kept request reach the catalog; what it says."""
        return super().send(*self.kept.pop(0))


class LakeUnderTest:
    """One table and its ledger. Publishers are created again as drivers come and go."""

    columns = COLUMNS

    def __init__(self, folder: Path, options: LakeOptions = BY_APP) -> None:
        self.folder = folder
        self.options = options
        (folder / "wh").mkdir(exist_ok=True)
        self.client = SqlCatalog(
            "lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh"
        )
        self.table_options = TableOptions(
            "", *NAME, schema=self.columns, partition_columns=(), lake=options
        )
        self.connection = {
            "kind": "sql",
            "uri": f"sqlite:///{folder}/c.db",
            "warehouse": f"file://{folder}/wh",
        }
        self.sink = IcebergTableSink(self.table_options, options, self.connection)
        self.state: TableState = self.sink.open()
        home = self.state.identity.home.removeprefix("file://")
        layout = LedgerLayout(home, "orders")
        self.log = LedgerLog(LocalStorage(), layout)
        for each in (layout.log, layout.stage):
            self.log.storage.make_folders(each)
        self.writer = LedgerWriter(self.log, self.log.fold(), self._no_wait)
        self.writer.fence(fence(), lambda: None)
        self.sink.mark_ledger(self.state, f"{LEDGER}@{self.state.identity.location}")
        self.writer.commit(sources(0))
        self.committed: list[int] = []

    @staticmethod
    def _no_wait(attempts: int, error: SluicewayError) -> None:
        raise AssertionError((attempts, error))

    def commit(self, *rows: int, app: str = "a", topic: str = "orders", partition: int = 0) -> int:
        """Commit rows as the next epoch, and give their file its name; the slot."""
        start = self.writer.fold.sources[topic, partition].end
        read = replace(span(partition, start, start + len(rows)), topic=topic)
        body = data(self.writer.term, self.writer.fold.last_epoch + 1, read)
        if rows:
            (file,) = body.files
            body = replace(body, files=(self.staged(file, self.batch(rows, app, start), app),))
        seq = self.writer.commit(partial(placed, body)).seq
        self.committed.extend(rows)
        return seq

    def staged(self, file: FileRecord, batch: pa.RecordBatch, app: str) -> FileRecord:
        """Write what a file of an epoch holds, as a task does; the file as the record names it."""
        storage = self.log.storage
        storage.make_folders(self.log.layout.attempt(file.staged.partition("/")[0]))
        staged = open_format(batch.schema, self.state.files).new_file(
            storage.create_staged(self.log.layout.attempt(file.staged))
        )
        staged.write(batch)
        seal = staged.close().seal
        return replace(
            file,
            final=f"app={app}/{file.final.rpartition('/')[2]}",
            values=(app,) if self.options.fields else (),
            size_bytes=BigInt(seal.size_bytes),
            crc32c=seal.crc32c,
        )

    def batch(self, rows: Sequence[int], app: str, offset: int) -> pa.RecordBatch:
        """What the file of an epoch holds whose first row has this offset."""
        del offset
        schema = pa.schema([("n", pa.int64()), ("app", pa.string())])
        columns = [pa.array(rows, pa.int64()), pa.array([app] * len(rows))]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def publisher(self, catalog: LakeCatalog | None = None) -> "PublisherUnderTest":
        """As a new driver makes it."""
        route = FollowedRoute(
            name="orders",
            ledger=LEDGER,
            log=self.log,
            state=self.state,
            events=stderr_log(level="error"),
            published_through=0,
            effects_through=self.writer.fold.effects_through,
            note_effects=self.writer.set_effects,
        )
        sink = IcebergTableSink(self.table_options, self.options, self.connection)
        sink.open()
        if catalog is not None:
            sink._new_catalog = lambda: catalog  # type: ignore[method-assign]
        (table,) = sink.followers(route)
        assert isinstance(table, LakePublisher)
        return PublisherUnderTest(self, table)

    def compaction(
        self,
        begin: Callable[[LakeRewritePlan], Rewriting] = RewrittenHere,
        catalog: LakeCatalog | None = None,
        *,
        events: Log | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> LakeCompaction:
        """As a driver or the command makes it, but for the process that writes files."""
        return LakeCompaction(
            self._followed(catalog),
            self._place(),
            LEDGER,
            hashes_of(self.log),
            target_bytes=self.options.target_bytes,
            log=events or stderr_log(level="error"),
            begin=begin,
            clock=clock,
        )

    def expiry(self, catalog: LakeCatalog | None = None, least: int = 1) -> LakeExpiry:
        """As a driver or the command makes it, but for how many snapshots always stay."""
        table, events = self._followed(catalog), stderr_log(level="error")
        slowest = partial(slot_of_slowest, self.log.storage, self.log.layout)
        place, hashes = self._place(), hashes_of(self.log)
        return LakeExpiry(table, place, hashes, events, least=least, slowest=slowest)

    def orphans(self, catalog: LakeCatalog | None = None) -> LakeOrphans:
        """As the command makes it."""
        events = stderr_log(level="error")
        return LakeOrphans(self._followed(catalog), self._place(), self.log, events)

    def in_table(self) -> set[str]:
        """All files in the table's folders, by their names below its location."""
        root = self.folder / "wh" / NAME[0] / NAME[1]
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    def days_pass(self, days: float = 4.0) -> None:
        """All files in the table's folders get older."""
        root = self.folder / "wh" / NAME[0] / NAME[1]
        for path in root.rglob("*"):
            if path.is_file():
                then_s = path.stat().st_mtime - days * 86_400
                os.utime(path, (then_s, then_s))

    def _followed(self, catalog: LakeCatalog | None) -> LakeTable:
        return LakeTable(
            catalog or LibraryCatalog(self.client, "sqlite"),
            NAME,
            self.state.identity.uuid,
            ledger=LEDGER,
            ledger_property=f"{LEDGER}@{self.state.identity.location}",
        )

    def _place(self) -> LakePlace:
        location = self.state.identity.location
        return LakePlace(self.log.storage, location.removeprefix("file://"), location)

    def delete_foreign(self, row: int) -> bool:
        """Another writer deletes a row by its place; whether it was there and still is not."""
        table = self.table()
        place = FilePlace(
            self.log.storage, table.location().removeprefix("file://"), table.location(), "zstd"
        )
        heads = HeadReader(place.read_deletes)
        head = heads.read(table)
        for path, entry in head.data.items():
            found = place.read_rows(path, np.empty(0, np.int64))["n"].to_numpy()
            dead = np.setdiff1d(np.flatnonzero(found == row), heads.dead(path))
            if len(dead):
                change = TableChange((), (place.place_deletes({path: dead}, entry),))
                request = replace_request(table, change, head.entries, "another")
                return not LibraryCatalog(self.client, "sqlite").send(table, request)
        return False

    def spell_otherwise(self, begin: str) -> None:
        """Another writer names the same data files by a URI that begins so."""
        table = self.table()
        place, metadata = self._place(), table.metadata
        head = HeadReader(lambda _: pa.table({})).read(table)
        added = []
        for path, entry in head.data.items():
            local, of = path.removeprefix("file://"), entry.data_file
            placed = PlacedFile(f"{begin}{local}", local, 0, int(of.file_size_in_bytes), (), ())
            footer, spec = read_footer(place.storage, local), metadata.specs()[of.spec_id]
            added.append(data_file(placed, footer, metadata, spec, of.partition))
        change = TableChange(added, removed=frozenset(head.data))
        request = replace_request(table, change, head.entries, "another")
        assert not LibraryCatalog(self.client, "sqlite").send(table, request)

    def faulty(self) -> FaultyCatalog:
        """A client of the catalog whose requests go astray."""
        return FaultyCatalog(
            SqlCatalog("lake", uri=self.connection["uri"], warehouse=self.connection["warehouse"])
        )

    def table(self) -> Table:
        return self.client.load_table(NAME)

    def rows(self) -> list[int]:
        """What a reader finds, in order."""
        found: list[int] = self.table().scan().to_arrow()["n"].to_pylist()
        return sorted(found)

    def assert_exact(self) -> None:
        """Every committed row once."""
        assert self.rows() == sorted(self.committed)

    def append_foreign(self, rows: Sequence[int]) -> None:
        """Another writer appends."""
        table = self.table()
        table.append(
            pa.table({"n": pa.array(rows, pa.int64()), "app": pa.array(["x"] * len(rows))})
        )

    def put_back(self, metadata_location: str) -> None:
        """Have older metadata hold, as a writer without compare-and-swap does."""
        with self.client.engine.begin() as connection:
            sql = "UPDATE iceberg_tables SET metadata_location = ?"
            connection.exec_driver_sql(sql, (metadata_location,))

    def view(self, *, hasty: bool = False) -> LogView:
        return LogView(self.log, self.writer.fold.next_seq, hasty=hasty)

    def unique(self) -> str:
        return uuid4().hex


def compact(
    compaction: LakeCompaction, meanwhile: Callable[[], object] = lambda: None
) -> list[str]:
    """Why partitions were left, by one round; empty texts for those that were not."""
    groups, left = compaction.plan(all_of_them=True)
    if left:
        return [left]
    compaction.begin(groups)
    meanwhile()
    return [each.left for each in compaction.finish()]


class PublisherUnderTest:
    """A driver's followers, driven by hand."""

    def __init__(self, lake: LakeUnderTest, table: LakePublisher) -> None:
        self._lake = lake
        self.table = table

    def publish(self) -> int:
        """One piece of each; the table's place."""
        self.name_files()
        return self.table.follow(self._lake.view(hasty=True))

    def name_files(self) -> None:
        """Give all committed files their names next to the ledger, as the driver does."""
        lake = self._lake
        publisher = Publisher(lake.log.storage, lake.log.layout, stderr_log(level="error"))
        for record in lake.writer.fold.unpublished.values():
            publisher.publish(record)
        lake.writer.set_published()
