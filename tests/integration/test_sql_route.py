"""SQL between topic and table: what is written, filtered, dirty and expanded."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyspark import SparkContext

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows
from sluiceway.cli.app import run_command
from sluiceway.cli.views.dirty_lanes import choose
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.errors import JobFileError, SqlFailedError, UnhealthyEnvironmentError
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import DataRecord, EpochRecord, FenceRecord, RowCounts
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.observe.log import stderr_log
from sluiceway.operate.replay import carry_out
from sluiceway.schedule import sql_tables
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.requests import put_request
from tools.driver_process import DriverProcess, kill_quietly
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.lake_chain import NAME, lake_chain
from tools.landed_epoch import land_epoch
from tools.route_faults import NewRun
from tools.spark_cluster import spark_cluster
from tools.sql_runs import SqlRouteRun, spark_sql, write_sql_job
from tools.topic_writer import TopicWriter

__all__ = ["spark_sql"]
# Spark leaves a socket open for each answer until it is collected as garbage.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
NOON_MS = 1_795_176_000_000
MakeRun = Callable[..., tuple[SqlRouteRun, str]]


@pytest.fixture
def sql_run(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    spark_sql: SparkSql,
) -> MakeRun:
    """Makes a topic and a job with SQL over it."""

    def make(sql: str, partitions: int = 1, **more: str) -> tuple[SqlRouteRun, str]:
        topic = new_topic(partitions)
        job = write_sql_job(
            tmp_path,
            sql,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            **more,
        )
        return SqlRouteRun(job, engine=spark_sql), topic

    return make


def order(number: int, **more: object) -> bytes:
    return json.dumps({"id": number, "ts": NOON_MS, "city": "Berlin", **more}).encode()


def counted(run: SqlRouteRun) -> RowCounts:
    total = RowCounts(*(BigInt(0),) * 7)
    for record in run.records():
        if isinstance(record.body, DataRecord):
            assert record.body.counts.balanced()
            total = total.plus(record.body.counts)
    return total


def test_rows_of_the_sql_are_written_once_with_their_own_times(
    sql_run: MakeRun, writer: TopicWriter
) -> None:
    run, topic = sql_run(
        "SELECT id, upper(city) AS shout, amount * 2 AS twice, ts\nFROM input WHERE id % 10 <> 3",
        partitions=2,
    )
    writer.write(topic, [order(n, amount=f"{n}.25") for n in range(20)], partition=0)
    writer.write(topic, [order(n, city=None) for n in range(20, 24)] + [b"bad"], partition=1)
    run.catch_up()
    rows = run.rows("id, shout, twice, _partition, _offset")
    assert [row[0] for row in rows] == [n for n in range(24) if n % 10 != 3]
    assert [(str(row[1]), str(row[2])) for row in rows[:2]] == [
        ("BERLIN", "0.50"),
        ("BERLIN", "2.50"),
    ]
    assert rows[-1] == (22, None, None, 1, 2)
    assert set(run.partitions()) == {"20261120"}
    assert counted(run) == RowCounts(*map(BigInt, (25, 21, 1, 0, 3, 0, 0)))
    run.assert_verified()


def arrow_bytes() -> int:
    """Memory of all Arrow batches that Spark's JVM holds."""
    jvm = SparkContext.getOrCreate()._jvm
    assert jvm is not None
    return int(jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


def test_a_value_that_fails_makes_one_dirty_row_with_its_place(
    sql_run: MakeRun, writer: TopicWriter
) -> None:
    held = arrow_bytes()
    run, topic = sql_run(
        "SELECT id,\n  10 / (id - 3) AS share, x.sku\n"
        "FROM input\nLATERAL VIEW explode(items) v AS x"
    )
    items = [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]
    writer.write(topic, [order(n, items=items) for n in range(6)], partition=0)
    run.catch_up()
    assert [row[0] for row in run.rows("id, sku")] == [n for n in (0, 1, 2, 4, 5) for _ in "ab"]
    (dirty,) = run.dirty('"offset", stage, reason, message')
    assert dirty[:3] == (3, "transform", "sql_failed")
    line = run.job.path.read_text().splitlines().index("      10 / (id - 3) AS share, x.sku") + 1
    assert f"{run.job.path}:{line}:" in str(dirty[3])
    assert counted(run) == RowCounts(*map(BigInt, (6, 10, 1, 0, 0, 0, 5)))
    assert arrow_bytes() <= held, "each task that fails would take memory for ever"
    run.assert_verified()


@pytest.mark.parametrize(
    ("sql", "rows", "dirty"),
    [
        # Spark computes q after the join: the third record has no part in it.
        (
            "SELECT id, q FROM (SELECT id, CAST(city AS INT) AS q FROM input) i\n"
            "JOIN (VALUES (1), (2)) d(k) ON d.k = i.id",
            [(1, 7)],
            [1],
        ),
        # It filters before it joins.
        (
            "SELECT id, 1 AS q FROM input i\n"
            "LEFT SEMI JOIN (VALUES (1), (2)) d(k) ON d.k = i.id WHERE CAST(city AS INT) > 0",
            [(1, 1)],
            [1, 2],
        ),
        (
            "SELECT id, 1 AS q FROM input i\n"
            "LEFT ANTI JOIN (VALUES (1), (2)) d(k) ON d.k = i.id WHERE CAST(city AS INT) > 0",
            [],
            [1, 2],
        ),
    ],
)
def test_record_that_a_join_drops_is_dirty_only_if_spark_has_computed_it(
    sql_run: MakeRun,
    writer: TopicWriter,
    sql: str,
    rows: list[tuple[int, int]],
    dirty: list[int],
) -> None:
    run, topic = sql_run(sql)
    records = [order(n, city=text) for n, text in ((1, "7"), (2, "x"), (3, "y"))]
    writer.write(topic, records, partition=0)
    run.catch_up()
    assert run.rows("id, q") == rows
    assert [row[0] for row in run.dirty('"offset"')] == dirty
    run.assert_verified()


@pytest.mark.parametrize(
    ("sql", "message", "line", "column"),
    [
        ("SELECT count(*) AS n FROM input", "`Aggregate` does not work row by row", 0, 7),
        (
            "SELECT id,\n  row_number() OVER (ORDER BY id) AS n FROM input",
            "`Window` does not work row by row",
            1,
            2,
        ),
        ("SELECT DISTINCT id\nFROM input", "does not work row by row", 0, 0),
        ("SELECT id FROM input ORDER BY id", "`Sort` does not work row by row", 0, 21),
        ("SELECT 1 AS one", "does not read the table `input`", 0, 0),
        ("SELECT a.id FROM input a JOIN input b ON a.id = b.id", "reads `input` twice", 0, 0),
        ("SELECT id,\n  rand() AS r FROM input", "is not fixed", 1, 2),
        ("SELECT id,\n  current_timestamp() AS t FROM input", "the time when it runs", 1, 2),
        ("SELECT id,\n   current_user() AS u FROM input", "who runs it", 1, 3),
        ("SELECT id,\n  nope FROM input", "Spark refuses the SQL: [UNRESOLVED_COLUMN", 1, 2),
        ("SELECT id,,\n  city FROM input", "Spark refuses the SQL: [PARSE_SYNTAX_ERROR", 0, 10),
        ("SELECT id, city AS ID FROM input", "the SQL returns two columns `ID`", 0, 0),
        ("SELECT id, null AS n FROM input", "which no table has", 0, 0),
        ("SELECT id, upper(city) FROM input", "which no table can have", 0, 0),
    ],
)
def test_sql_that_does_not_work_row_by_row_is_refused_at_its_place(
    sql_run: MakeRun, sql: str, message: str, line: int, column: int
) -> None:
    run, _ = sql_run(sql)
    with pytest.raises(JobFileError) as caught:
        run.catch_up()
    assert message in caught.value.message
    begins = run.job.path.read_text().splitlines().index("  sql: |") + 2
    assert caught.value.where == f"{run.job.path}:{begins + line}:{5 + column}"
    if "row by row" in message:
        assert "mode: recompute" in caught.value.hint


def test_python_functions_run_and_a_row_that_they_refuse_is_dirty(
    sql_run: MakeRun, writer: TopicWriter
) -> None:
    functions = '  functions: {root: {python: "math:isqrt", returns: bigint}}'
    run, topic = sql_run("SELECT id, root(id) AS r FROM input", more=functions)
    writer.write(topic, [order(n) for n in (0, 1, 4, -4, 9)], partition=0)
    run.catch_up()
    assert run.rows("id, r") == [(0, 0), (1, 1), (4, 2), (9, 3)]
    (dirty,) = run.dirty('"offset", stage, message')
    assert dirty[:2] == (3, "transform")
    run.assert_verified()


SERIES = """\
import pandas as pd


def shout(words: pd.Series, times: pd.Series) -> pd.Series:
    if (times == 7).any():
        raise ValueError("seven")
    return words.str.upper() + "!" * len(words) + times.astype(str)
"""


def test_pandas_functions_get_series_and_a_row_that_they_refuse_is_dirty(
    sql_run: MakeRun, writer: TopicWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "of_series.py"
    module.write_text(SERIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    SparkContext.getOrCreate().addPyFile(str(module))
    functions = '  functions: {shout: {pandas: "of_series:shout", returns: string}}'
    held = arrow_bytes()
    run, topic = sql_run("SELECT id, shout(city, id) AS s FROM input", more=functions)
    writer.write(topic, [order(n) for n in (0, 1, 2)], partition=0)
    run.catch_up()
    # All rows of the batch came in one call.
    assert run.rows("id, s") == [(n, f"BERLIN!!!{n}") for n in (0, 1, 2)]
    writer.write(topic, [order(n) for n in (6, 7)], partition=0)
    run.catch_up()
    assert run.rows("id, s")[3:] == [(6, "BERLIN!6")]
    assert arrow_bytes() <= held
    (dirty,) = run.dirty('"offset", stage')
    assert dirty == (4, "transform")
    run.assert_verified()


def test_machine_without_pandas_is_named_where_a_function_needs_it(
    sql_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = sql_run(
        "SELECT f(city) AS s FROM input",
        more='  functions: {f: {pandas: "operator:neg", returns: string}}',
    )
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(JobFileError, match="the function f cannot be called") as caught:
        run.catch_up()
    assert "Pandas >= " in caught.value.message
    assert caught.value.where.endswith("transform.functions.f")
    assert "install pandas" in caught.value.hint


def test_dirty_rows_run_through_the_sql_again_when_they_are_replayed(
    sql_run: MakeRun, writer: TopicWriter
) -> None:
    run, topic = sql_run("SELECT id, CAST(city AS INT) AS n FROM input")
    writer.write(topic, [order(1, city="7"), order(2, city="x")], partition=0)
    run.catch_up()
    assert run.rows("id, n") == [(1, 7)]
    text = run.job.path.read_text()
    run.job.path.write_text(
        text.replace("CAST(city AS INT)", "coalesce(try_cast(city AS INT), -1)")
    )
    rows = DirtyRows.read(run.log())
    request = choose(rows, DirtyFilter()).request(rows, "replay", "me", "")
    put_request(rows.log.storage, rows.log.layout, request)
    run.catch_up()
    assert run.rows("id, n") == [(1, 7), (2, -1)]
    run.assert_verified()


def test_commands_work_without_a_driver_but_for_replays_which_wait_for_its_spark(
    sql_run: MakeRun, writer: TopicWriter
) -> None:
    run, topic = sql_run("SELECT id, CAST(city AS INT) AS n FROM input")
    for number, city in enumerate(("7", "x", "8", "9")):
        writer.write(topic, [order(number, city=city)], partition=0)
        run.catch_up()
    (name,) = run.log().fold().partitions
    assert run_command(["compact", str(run.job.path), name]) == 0
    assert any(isinstance(each.body, ReplaceRecord) for each in run.records())
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace("CAST(city", "try_cast(city"))
    rows = DirtyRows.read(run.log())
    request = choose(rows, DirtyFilter()).request(rows, "replay", "me", "")
    with pytest.raises(UnhealthyEnvironmentError, match="only its job has a Spark"):
        carry_out(run.config(), rows.log, request, lambda *_: None, stderr_log())
    run.catch_up()
    assert sorted(run.rows("id, n")) == [(0, 7), (1, None), (2, 8), (3, 9)]
    run.assert_verified()


def test_small_tables_are_joined_as_their_jobs_have_filled_them(
    sql_run: MakeRun, new_run: NewRun, writer: TopicWriter
) -> None:
    users, source = new_run(1)
    writer.write(source, [event(n, city=f"c{n}") for n in range(3)], partition=0)
    users.catch_up()
    tables = f"  tables: {{users: {{table: {users.job.table}, refresh: 1s}}}}"
    run, topic = sql_run(
        "SELECT i.id, u.city AS named\nFROM input i LEFT JOIN users u ON u.id = i.id", more=tables
    )
    writer.write(topic, [order(n) for n in range(5)], partition=0)
    run.catch_up()
    assert run.rows("id, named") == [(0, "c0"), (1, "c1"), (2, "c2"), (3, None), (4, None)]
    run.assert_verified()


def test_small_table_that_gets_a_column_halts_and_fills_no_other_column(
    spark_sql: SparkSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = Schema((Field("id", IntegerType(64)), Field("city", StringType())))
    users = DimensionRule("users", "dim.users", 0.0)
    text = "SELECT u.*, i.city FROM input i LEFT JOIN users u ON u.id = i.id"
    rule = SqlRule(text, "UTC", (users,), (), of_table=False, places=SqlPlaces())

    def held(pin: str, **more: list[str]) -> JoinedTable:
        rows = pa.table({"id": pa.array([1], pa.int64()), **more})
        return JoinedTable("users", pin, rows)

    columns = spark_sql.columns(rule, decoded, (held("u@1"),))
    made = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in columns))
    epoch = land_epoch(tmp_path, decoded, made, [{"id": 1, "city": "Berlin"}])
    monkeypatch.setattr(sql_tables, "read_table", lambda *_, **__: held("u@2", name=["Ann"]))
    with pytest.raises(JobFileError, match="other columns than at the start of the job: name"):
        epoch.transformed(rule, spark_sql)
    monkeypatch.setattr(sql_tables, "read_table", lambda *_, **__: held("u@3"))
    assert epoch.rows(epoch.transformed(rule, spark_sql)) == [{"id": 1, "city": "Berlin"}]


def test_job_that_does_not_work_row_by_row_writes_nothing(
    spark_sql: SparkSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT /*+ MERGE(u) */ i.id FROM input i JOIN users u ON u.id = i.id"
    decoded = Schema((Field("id", IntegerType(64)),))
    users = DimensionRule("users", "dim.users", 0.0)
    rule = SqlRule(sql, "UTC", (users,), (), of_table=False, places=SqlPlaces())
    held = JoinedTable("users", "u@1", pa.table({"id": pa.array([0, 2], pa.int64())}))
    monkeypatch.setattr(sql_tables, "read_table", lambda *_, **__: held)
    epoch = land_epoch(tmp_path, decoded, decoded, [{"id": n} for n in range(4)])
    for _ in range(2):
        with pytest.raises(JobFileError, match="needs a shuffle"):
            epoch.transformed(rule, spark_sql)


def test_value_of_a_small_table_at_which_the_sql_fails_makes_no_record_dirty(
    spark_sql: SparkSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = Schema((Field("id", IntegerType(64)),))
    users = DimensionRule("users", "dim.users", 0.0)
    text = "SELECT i.id FROM input i JOIN (SELECT 10 / id AS share FROM users) u ON u.share = i.id"
    rule = SqlRule(text, "UTC", (users,), (), of_table=False, places=SqlPlaces())
    held = JoinedTable("users", "u@1", pa.table({"id": pa.array([0, 2], pa.int64())}))
    monkeypatch.setattr(sql_tables, "read_table", lambda *_, **__: held)
    epoch = land_epoch(tmp_path, decoded, decoded, [{"id": n} for n in range(4)])
    with pytest.raises(SqlFailedError, match=r"whatever records it reads.*DIVIDE_BY_ZERO"):
        epoch.transformed(rule, spark_sql)


def test_replay_joins_small_tables_as_they_were_when_its_rows_became_dirty(
    sql_run: MakeRun, new_run: NewRun, writer: TopicWriter
) -> None:
    users, source = new_run(1)
    writer.write(source, [event(0, city="c0")], partition=0)
    users.catch_up()
    tables = f"  tables: {{users: {{table: {users.job.table}, refresh: 1s}}}}"
    run, topic = sql_run(
        "SELECT i.id, u.city AS named, CAST(i.city AS INT) AS n\n"
        "FROM input i LEFT JOIN users u ON u.id = i.id",
        more=tables,
    )
    writer.write(topic, [order(0, city="7"), order(1, city="x")], partition=0)
    run.catch_up()
    writer.write(source, [event(1, city="c1")], partition=0)
    users.catch_up()
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace("CAST(i.city AS INT)", "try_cast(i.city AS INT)"))
    rows = DirtyRows.read(run.log())
    put_request(
        rows.log.storage,
        rows.log.layout,
        choose(rows, DirtyFilter()).request(rows, "replay", "me", ""),
    )
    writer.write(topic, [order(1, city="8")], partition=0)
    run.catch_up()
    assert sorted(run.rows("_offset, id, named, n")) == [
        (0, 0, "c0", 7),
        (1, 1, None, None),
        (2, 1, "c1", 8),
    ]
    (ledger,) = {each.body.ledger for each in users.records() if isinstance(each.body, FenceRecord)}
    first, second = (each.seq for each in users.records() if isinstance(each.body, DataRecord))
    pins = {
        type(each.body).__name__: [(pin.name, pin.state) for pin in each.body.pins]
        for each in run.records()
        if isinstance(each.body, EpochRecord)
    }
    assert pins == {
        "DataRecord": [("users", f"{ledger}@{second}")],
        "LaneDataRecord": [("users", f"{ledger}@{first}")],
    }
    run.assert_verified()


def test_rows_of_an_iceberg_table_are_joined_as_of_the_snapshot_that_the_record_pins(
    sql_run: MakeRun, writer: TopicWriter, tmp_path: Path
) -> None:
    lake = lake_chain(tmp_path)
    lake.append(range(3))
    catalog = f'uri: "{lake.job.uri}", warehouse: "file://{tmp_path}/warehouse"'
    run, topic = sql_run(
        "SELECT i.id, e.City AS town, e.at AS seen, CAST(i.city AS INT) AS n\n"
        "FROM input i LEFT JOIN events e ON e.id = i.id",
        connections=f"  others: {{iceberg: {{sql: {{{catalog}}}}}}}",
        more=f"  tables: {{events: {{table: {NAME}, connection: others, refresh: 1s}}}}",
    )
    writer.write(topic, [order(1, city="7"), order(2, city="x"), order(4, city="8")], partition=0)
    run.catch_up()
    assert run.rows("id, town, n") == [(1, "town1", 7), (4, None, 8)]
    assert str(run.rows("seen")[0][0]) == "2026-11-20 08:01:00"
    first = lake.table().metadata.current_snapshot_id

    lake.table().delete(EqualTo("id", 2))
    lake.append(range(4, 5))
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace("CAST(i.city AS INT)", "try_cast(i.city AS INT)"))
    rows = DirtyRows.read(run.log())
    request = choose(rows, DirtyFilter()).request(rows, "replay", "me", "")
    put_request(rows.log.storage, rows.log.layout, request)
    writer.write(topic, [order(2, city="9"), order(4, city="9")], partition=0)
    run.catch_up()
    # The replayed record still meets the row that was deleted meanwhile.
    assert run.rows("_offset, id, town, n") == [
        (0, 1, "town1", 7),
        (1, 2, "town2", None),
        (2, 4, None, 8),
        (3, 2, None, 9),
        (4, 4, "town4", 9),
    ]
    newest = lake.table().metadata
    pins = [
        [pin.state for pin in each.body.pins]
        for each in run.records()
        if isinstance(each.body, EpochRecord)
    ]
    uuid, head = newest.table_uuid, newest.current_snapshot_id
    assert sorted(pins) == sorted([[f"{uuid}@{first}"], [f"{uuid}@{head}"], [f"{uuid}@{first}"]])
    run.assert_verified()


def run_job_file(job: Path, folder: Path, *point: str) -> int:
    """`sluiceway run` in a process of its own, with Spark; its exit code."""
    environment = {**os.environ}
    if point:
        folder.mkdir()
        spec = FailpointSpec(point[0], Action.KILL, str(folder))
        environment[VARIABLE] = spec.text()
    command = [sys.executable, "-m", "sluiceway", "run", str(job), "--until-caught-up"]
    with (job.parent / "driver.log").open("ab") as log:
        return subprocess.run(
            command, env=environment, stdout=log, stderr=log, check=False
        ).returncode


@pytest.mark.slow
def test_driver_killed_between_landing_and_commit_loses_and_doubles_nothing(
    sql_run: MakeRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = sql_run("SELECT id FROM input")
    for number, point in enumerate(("step.written", "step.prepared")):
        writer.write(topic, [order(n) for n in range(5 * number, 5 * number + 5)], partition=0)
        assert run_job_file(run.job.path, tmp_path / point, point) == -signal.SIGKILL
        assert (tmp_path / point / "hit").exists()
        assert run.rows("id") == []
    assert run_job_file(run.job.path, tmp_path) == 0
    assert run.rows("id, _offset") == [(n, n) for n in range(10)]
    # What the dead drivers had landed is collected; the last epoch's goes after the next one.
    left = {path.parent.name.partition("-")[0] for path in run.root().rglob("stage/*/*.parquet")}
    assert left <= {"3"}
    run.assert_verified()


def has_read(driver: DriverProcess, rows: int) -> bool:
    return sum(int(line["read"]) for line in driver.events("committed")) == rows


@pytest.mark.slow
def test_sql_on_a_standalone_cluster_has_every_row_once_though_an_executor_dies(
    sql_run: MakeRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = sql_run("SELECT id, CAST(city AS INT) AS n FROM input", partitions=2)
    with spark_cluster(tmp_path / "cluster") as cluster:
        run.job.path.write_text(run.job.path.read_text().replace("local[2]", cluster.url))
        at = {"SPARK_LOCAL_IP": "127.0.0.1"}
        with DriverProcess(run.job, tmp_path, environment=at) as driver:
            for begin in (0, 20):
                for part in (0, 1):
                    numbers = range(begin + part, begin + 20, 2)
                    rows = [order(n, city="x" if n % 10 == 3 else str(n)) for n in numbers]
                    writer.write(topic, rows, partition=part)
                driver.wait_until(partial(has_read, driver, begin + 20), "the rows")
                driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
                kill_quietly(cluster.executors()[0].pid)
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0
    assert run.rows("id, n") == [(n, n) for n in range(40) if n % 10 != 3]
    assert [row[0] for row in run.dirty('"offset"')] == [1, 6, 11, 16]
    run.assert_verified()
