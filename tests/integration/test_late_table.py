"""A table over late rows on a real metastore: each late row seen once, whatever dies."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pymetastore.hive_metastore import ttypes

from sluiceway.audit.run_verify import verify_route
from sluiceway.catalog.hive_table import HiveColumn, NewPartition
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.cli.app import run_command
from sluiceway.errors import LedgerMismatchError, TableMismatchError
from sluiceway.followers import late_follow
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.sinks.hive.table import LEDGER_PROPERTY
from tools.driver_process import DriverProcess
from tools.job_files import event, write_job
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client, storage
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.shown_partitions import shown_partitions
from tools.topic_writer import TopicWriter

HOUR_MS = 3_600_000
NOON_MS = 1_795_176_000_000
"""2026-11-20T12:00:00Z."""

STEPS = {
    "table-made": ("metastore.create_table.reply", "*_late"),
    "partition-not-shown": ("metastore.add_partitions.request", "*_late"),
    "partition-shown": ("metastore.add_partitions.reply", "*_late"),
    "place-not-kept": ("storage.overwrite.rename.request", "*/late-table.json"),
}
"""Of showing late files, in an order in which each is met."""


@dataclass(frozen=True, slots=True)
class LateRun:
    """A route with a table over its late rows, and what readers see in that."""

    run: RouteRun
    topic: str
    table: str

    def client(self) -> MetastoreClient:
        return MetastoreClient(self.run.config().table.metastore)

    def folders(self) -> dict[str, str]:
        """Partitions that readers see, and where they lie."""
        shown = shown_partitions(self.run.config().table.metastore, self.table)
        return {"/".join(values): urlsplit(at).path for values, at in shown.items()}

    def seen(self) -> list[int]:
        """Offsets of the rows that readers see, by way of the metastore."""
        globs = [f"{folder}/*.parquet" for folder in self.folders().values()]
        if not globs:
            return []
        query = "SELECT _offset FROM read_parquet(?, hive_partitioning=false) ORDER BY ALL"
        return [offset for (offset,) in duckdb.execute(query, [globs]).fetchall()]

    def late(self) -> list[int]:
        """Offsets of the rows in the late place, published or not yet shown."""
        place = self.run.root() / "_sluiceway" / self.run.config().route / "late"
        files = [str(file) for file in place.glob("**/*.parquet")]
        if not files:
            return []
        query = "SELECT _offset FROM read_parquet(?, hive_partitioning=false) ORDER BY ALL"
        return [offset for (offset,) in duckdb.execute(query, [files]).fetchall()]


NewLate = Callable[..., LateRun]


@pytest.fixture
def new_late(new_run: NewRun, new_topic: TopicFactory) -> NewLate:
    def make(*, topic: str = "", late_table: str = "", evolution: str = "fail") -> LateRun:
        topic = topic or new_topic(1)
        table = late_table or f"ods.{topic.replace('-', '_')}_late"
        time = f"{{field: ts, unit: ms, archive_window: 24h, late_table: {table}}}"
        run, _ = new_run(topic=topic, event_time=time, evolution=evolution)
        return LateRun(run, topic, table)

    return make


def rows(first: int, *hours: float) -> list[bytes]:
    """Rows so many hours from noon, numbered on."""
    return [
        event(first + number, ts_ms=NOON_MS + int(hour * HOUR_MS) - (first + number) * 1000)
        for number, hour in enumerate(hours)
    ]


def begin(late: LateRun, writer: TopicWriter) -> None:
    """A row at noon is committed: from now on one of 30 hours before is late."""
    writer.write(late.topic, rows(0, 0))
    late.run.catch_up()


def without_late_table(new_run: NewRun, topic: str) -> RouteRun:
    """The same route before its job file names a table."""
    run, _ = new_run(topic=topic, event_time="{field: ts, unit: ms, archive_window: 24h}")
    return run


def test_each_late_row_is_seen_once_whoever_is_killed_at_whichever_step(
    new_run: NewRun, new_late: NewLate, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path
) -> None:
    topic = new_topic(1)
    writer.write(topic, rows(0, 0))
    without_late_table(new_run, topic).catch_up()
    late = new_late(topic=topic)
    at = 1
    for name, (point, place) in STEPS.items():
        writer.write(topic, rows(at, -30 - at, -31 - at, 0))
        at += 3
        points = tmp_path / name
        points.mkdir()
        spec = FailpointSpec(point, Action.KILL, str(points), place=place)
        with DriverProcess(
            late.run.job,
            tmp_path,
            module="tools.inline_driver",
            environment={VARIABLE: spec.text()},
        ) as driver:
            assert driver.wait().exit_code == -9, name
        assert (points / "hit").exists(), name
        seen = late.seen()
        assert len(seen) == len(set(seen)), name
        assert set(seen) <= set(late.late()), name
    late.run.catch_up()
    assert len(late.late()) == 2 * len(STEPS)
    assert late.seen() == late.late()
    report = late.run.verified()
    assert [each for each in report.unchecked if late.table in each] == []


def test_late_table_is_external_ours_and_read_with_its_partitions_by_pyarrow(
    new_late: NewLate, writer: TopicWriter
) -> None:
    late = new_late()
    begin(late, writer)
    writer.write(late.topic, rows(1, -30, -30, -50, 0))
    late.run.catch_up()
    database, name = late.table.split(".")
    hive, client = late.run.config().table, late.client()
    table, main = client.get_table(database, name), client.get_table(hive.database, hive.table)
    client.close()
    assert table is not None
    assert main is not None
    assert (table.kind, table.partition_columns) == ("EXTERNAL_TABLE", main.partition_columns)
    assert table.layout.columns == main.layout.columns
    assert table.parameters[LEDGER_PROPERTY] == main.parameters[LEDGER_PROPERTY]
    place = urlsplit(table.layout.location).path
    assert place == f"{late.run.root()}/_sluiceway/{late.run.config().route}/late"
    assert late.folders() == {
        "20261119/06": f"{place}/dt=20261119/hr=06",
        "20261118/10": f"{place}/dt=20261118/hr=10",
    }
    names = pa.schema([(column.name, pa.string()) for column in table.partition_columns])
    scanned = ds.dataset(place, partitioning=ds.partitioning(names, flavor="hive")).to_table(
        columns=["_offset", "dt", "hr"]
    )
    found = sorted(zip(*(column.to_pylist() for column in scanned.columns), strict=True))
    assert found == [(1, "20261119", "06"), (2, "20261119", "06"), (3, "20261118", "10")]
    assert late.seen() == [1, 2, 3]
    assert late.run.rows() == [(0, 0), (0, 4)]
    late.run.assert_verified()


def test_verify_tells_of_partitions_that_are_not_seen_or_not_ours(
    new_late: NewLate, writer: TopicWriter
) -> None:
    late = new_late()
    begin(late, writer)
    writer.write(late.topic, rows(1, -30, -50))
    late.run.catch_up()
    database, name = late.table.split(".")
    client = late.client()
    client.drop_partition(database, name, ("20261119", "06"))
    report = late.run.verified()
    assert any("not seen there: 1 partition of late rows" in each for each in report.unchecked)
    # Its own table's hour, too: those rows are not late.
    shown = NewPartition(("20261120", "12"), f"file:{late.run.root()}/dt=20261120/hr=12")
    client.add_partitions(database, name, [shown])
    client.close()
    assert report.late_table is None
    (problem,) = verify_route(late.run.config(), deep=False).problems
    assert (problem.kind, "20261120/12" in problem.where) == ("late table", True)
    # What was dropped stays so; a lost place brings it back.
    late.run.catch_up()
    assert "20261119/06" not in late.folders()
    (late.run.root() / "_sluiceway" / late.run.config().route / "late-table.json").unlink()
    late.run.catch_up()
    assert "20261119/06" in late.folders()


def test_rows_that_came_late_before_there_was_a_table_are_seen_in_it(
    new_run: NewRun, new_late: NewLate, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic = new_topic(1)
    before = without_late_table(new_run, topic)
    writer.write(topic, rows(0, 0))
    before.catch_up()
    writer.write(topic, rows(1, -30, -40))
    before.catch_up()
    late = new_late(topic=topic)
    report = verify_route(late.run.config(), deep=True)
    assert any("not there yet" in each for each in report.unchecked)
    late.run.catch_up()
    assert late.seen() == late.late() == [1, 2]


def test_column_that_the_table_gets_is_in_the_late_table_and_its_old_partitions(
    new_late: NewLate, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_COMPARE_EVERY_S", 0.05)
    late = new_late(evolution="follow_table")
    begin(late, writer)
    writer.write(late.topic, rows(1, -30))
    late.run.catch_up()
    hive, client = late.run.config().table, late.client()
    database, name = late.table.split(".")
    assert list(late.folders()) == ["20261119/06"]

    def columns() -> tuple[list[str], list[str]]:
        table = client.get_table(database, name)
        held = client.get_partitions(database, name, ["dt=20261119/hr=06"])
        assert table is not None
        (partition,) = held.values()
        return (
            [column.name for column in table.layout.columns],
            [column.name for column in partition.layout.columns],
        )

    main = client.get_table(hive.database, hive.table)
    assert main is not None
    wider = (*main.layout.columns, HiveColumn("more", "string"))
    with live(late.run) as running:
        client.alter_columns(hive.database, hive.table, wider, put={})
        names = [column.name for column in wider]
        running.wait_for(lambda: columns() == (names, names))
        running.stop()
    writer.write(late.topic, rows(2, -30))
    late.run.catch_up()
    assert late.seen() == [1, 2]
    client.close()
    late.run.assert_verified()


def test_table_that_is_none_of_ours_is_refused_and_stops_no_commit(
    new_late: NewLate,
    writer: TopicWriter,
    metastore_uri: str,
    warehouse: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    foreign = new_late()
    database, name = foreign.table.split(".")
    begin(new_late(), writer)
    with raw_client(metastore_uri) as raw:
        raw.create_table(
            ttypes.Table(
                tableName=name,
                dbName=database,
                owner="someone",
                sd=storage(f"file:{warehouse}/{name}", [("id", "bigint")]),
                partitionKeys=[ttypes.FieldSchema("dt", "string", "")],
                parameters={"EXTERNAL": "TRUE"},
                tableType="EXTERNAL_TABLE",
            )
        )
    begin(foreign, writer)
    writer.write(foreign.topic, rows(1, -30, 0))
    foreign.run.catch_up()
    assert (foreign.late(), foreign.folders()) == ([1], {})
    assert foreign.run.rows() == [(0, 0), (0, 2)]
    shown = capsys.readouterr().err
    assert "follower_blocked" in shown
    assert LedgerMismatchError.code in shown
    report = verify_route(foreign.run.config(), deep=True)
    assert report.problems == []
    assert any(LEDGER_PROPERTY in each for each in report.unchecked)


def test_late_table_is_neither_another_routes_nor_filled_itself(
    new_late: NewLate,
    writer: TopicWriter,
    new_topic: TopicFactory,
    bootstrap_servers: str,
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    late = new_late()
    begin(late, writer)
    writer.write(late.topic, rows(1, -30))
    late.run.catch_up()
    before = late.folders()
    sharing = new_late(late_table=late.table)
    begin(sharing, writer)
    writer.write(sharing.topic, rows(1, -50))
    sharing.run.catch_up()
    assert sharing.late() == [1]
    assert late.folders() == before
    topic = new_topic(1)
    filled = write_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        table=late.table,
    )
    writer.write(topic, rows(0, 0))
    with pytest.raises(TableMismatchError, match="a ledger keeps its own"):
        RouteRun(filled).catch_up()
    late.run.assert_verified()


def test_partition_that_its_owner_lets_go_keeps_its_late_rows(
    new_late: NewLate, writer: TopicWriter
) -> None:
    late = new_late()
    begin(late, writer)
    writer.write(late.topic, rows(1, -30))
    late.run.catch_up()
    arguments = ["dt=20261120/hr=12", "--reason", "too old", "--drop", "--yes"]
    assert run_command(["partitions", "forget", str(late.run.job.path), *arguments]) == 0
    assert late.run.rows() == []
    assert late.seen() == late.late() == [1]
    assert run_command(["gc", str(late.run.job.path)]) == 0
    assert late.seen() == [1]
    late.run.assert_verified()
