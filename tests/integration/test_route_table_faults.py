"""A metastore that is away, and tables that are not fit or change in mid-run."""

import json
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pymetastore.hive_metastore import ttypes

from sluiceway.errors import (
    JobFileError,
    LedgerMismatchError,
    MetastoreUnavailableError,
    StateConflictError,
    StorageUnavailableError,
    TableMismatchError,
)
from sluiceway.lab.lab import Lab
from sluiceway.observe.steps import Step
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableState
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.storage.local import LocalStorage
from tools.job_files import COLUMNS as DECLARED
from tools.job_files import event
from tools.raw_metastore import raw_client, storage
from tools.route_faults import NewRun, Pause, live, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 120.0
_DAY_MS = 86_400_000
_TS_MS = 1_795_161_600_000
COLUMNS = [
    *(("id", "bigint"), ("ts", "bigint"), ("city", "string"), ("amount", "decimal(18,2)")),
    *(("_topic", "string"), ("_partition", "int"), ("_offset", "bigint")),
    ("_timestamp", "timestamp"),
]


def _events(span: range, *, day: int = 0) -> list[bytes]:
    return [event(n, ts_ms=_TS_MS + day * _DAY_MS) for n in span]


def _names(run: RouteRun) -> tuple[str, str]:
    database, table = run.job.table.split(".")
    return database, table


def _create(uri: str, run: RouteRun, warehouse: Path, **changes: Any) -> None:
    """A table made by another program; `changes` are fields of the table or of its storage."""
    database, name = _names(run)
    described = storage(
        changes.pop("location", f"file:{warehouse}/foreign/{name}"),
        changes.pop("columns", COLUMNS),
        format_name=changes.pop("format_name", "parquet"),
    )
    table = ttypes.Table(
        tableName=name,
        dbName=database,
        owner="someone",
        sd=described,
        partitionKeys=[ttypes.FieldSchema(key, "string", "") for key in ("dt", "hr")],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    for field, value in changes.items():
        setattr(table if hasattr(table, field) else described, field, value)
    with raw_client(uri) as client:
        if database not in client.get_all_databases():
            client.create_database(ttypes.Database(name=database, parameters={}))
        client.create_table(table)


def _drop(uri: str, run: RouteRun) -> None:
    with raw_client(uri) as client:
        client.drop_table(*_names(run), False)  # noqa: FBT003 - thrift has no names


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.parquet") if "/stage/" not in str(path))


# ---- the metastore is away ---------------------------------------------------------------


def test_metastore_that_is_down_delays_partitions_and_never_commits(
    new_run: NewRun, writer: TopicWriter, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.followers.runner.FIRST_PAUSE_S", 0.3)
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    root = run.root()
    log = root / "_sluiceway" / run.job.spec.name / "log"

    def records() -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted(log.rglob("*.json"))]

    def ends() -> list[int]:
        bodies = [r["body"] for r in records() if r["type"] == "DATA"]
        return [int(body["ranges"][-1]["end"]) for body in bodies]

    def published() -> list[tuple[int]]:
        glob = f"{root}/dt=*/*/*.parquet"
        return list(duckdb.execute("SELECT _offset FROM read_parquet(?)", [glob]).fetchall())

    def has(rows: int) -> bool:
        return ends()[-1] == rows == len(published())

    with live(run) as running:
        running.wait_for(lambda: records()[-1]["type"] == "FENCE")
        writer.write(topic, _events(range(5, 10)))
        running.wait_for(lambda: ends()[-1] == 10)
        lab.stop_server("metastore")
        try:
            for day in (1, 2):
                writer.write(topic, _events(range(day * 10, day * 10 + 10), day=day))
                running.wait_for(partial(has, day * 10 + 10))
            waiting = records()[-1]
        finally:
            lab.start_server("metastore")
        running.wait_for(lambda: len(run.partitions()) == 3)
        time.sleep(0.5)
        writer.write(topic, _events(range(30, 31)))
        running.wait_for(lambda: ends()[-1] == 31)
        running.stop()
    (first_new,) = [
        record["seq"]
        for record in records()
        if record["type"] == "DATA" and int(record["body"]["ranges"][-1]["start"]) == 10
    ]
    assert waiting["effects_through"] <= first_new < waiting["seq"]
    assert records()[-1]["effects_through"] > waiting["seq"]
    assert run.rows() == offsets(0, range(31))
    run.assert_verified()


def test_metastore_that_is_down_at_the_start_is_waited_for(
    new_run: NewRun,
    writer: TopicWriter,
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.3)
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    lab.kill_server("metastore")
    fenced = Pause(Step.PUBLISHED)
    fenced.goes_on.set()
    try:
        with live(run, fenced) as running:
            wait = running.first_wait(capsys)
            lab.start_server("metastore")
            assert fenced.reached.wait(_TIMEOUT_S)
            running.stop()
    finally:
        lab.start_server("metastore")
    assert wait["code"] == "SW102"
    assert run.rows() == offsets(0, range(5))
    run.assert_verified()


def test_metastore_that_fails_while_the_table_is_marked_does_not_lock_the_driver_out(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.1)
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    mark = HiveTableSink.mark_ledger
    failures: list[str] = []

    def fails_once(sink: HiveTableSink, state: TableState, ledger: str) -> None:
        if not failures:
            failures.append(ledger)
            raise MetastoreUnavailableError("the metastore is away")
        mark(sink, state, ledger)

    monkeypatch.setattr(HiveTableSink, "mark_ledger", fails_once)
    run.catch_up()
    assert failures
    assert run.rows() == offsets(0, range(5))
    assert not [thread for thread in threading.enumerate() if thread.name == "lease"]
    run.assert_verified()


def test_store_that_fails_while_a_partition_is_added_delays_it_only(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.followers.runner.FIRST_PAUSE_S", 0.1)
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    status = LocalStorage.status
    failures: list[str] = []

    def fails_once(storage: LocalStorage, path: str) -> object:
        if threading.current_thread().name.startswith("follow-") and not failures:
            failures.append(path)
            raise StorageUnavailableError("the store is away", where=path)
        return status(storage, path)

    monkeypatch.setattr(LocalStorage, "status", fails_once)
    run.catch_up()
    assert failures
    assert run.rows() == offsets(0, range(5))
    run.assert_verified()


# ---- the table is not fit, or changes -----------------------------------------------------


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "rcfile": ({"format_name": "rcfile"}, "no format that is written here"),
    "columns missing": ({"columns": COLUMNS[1:]}, "column id bigint is missing"),
    "meta columns missing": ({"columns": COLUMNS[:4]}, "column _offset bigint is missing"),
    "another type": ({"columns": [("id", "int"), *COLUMNS[1:]]}, "column id is int"),
    "view": ({"tableType": "VIRTUAL_VIEW", "viewExpandedText": "SELECT 1"}, "VIRTUAL_VIEW"),
    "bucketed": ({"numBuckets": 4, "bucketCols": ["id"]}, "bucketed into 4"),
    "partition columns": (
        {"partitionKeys": [ttypes.FieldSchema("dt", "string", "")]},
        "partition columns are",
    ),
    "transactional": (
        {
            "parameters": {"transactional": "true"},
            "tableType": "MANAGED_TABLE",
            "format_name": "orc",
            "numBuckets": 2,
            "bucketCols": ["id"],
        },
        "transactional",
    ),
}


@pytest.mark.parametrize("case", list(UNFIT))
def test_table_that_cannot_be_written_faithfully_is_refused_untouched(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str, warehouse: Path, case: str
) -> None:
    changes, message = UNFIT[case]
    run, topic = new_run()
    _create(metastore_uri, run, warehouse, **changes)
    writer.write(topic, _events(range(5)))
    with pytest.raises(TableMismatchError, match=message):
        run.catch_up()
    assert not (warehouse / "foreign" / _names(run)[1] / "_sluiceway").exists()


def test_managed_table_is_filled(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str, warehouse: Path
) -> None:
    run, topic = new_run()
    place = f"file:{warehouse}/managed_{topic}"
    _create(metastore_uri, run, warehouse, tableType="MANAGED_TABLE", parameters={}, location=place)
    writer.write(topic, _events(range(5)))
    run.catch_up()
    assert run.rows() == offsets(0, range(5))
    run.assert_verified()


@pytest.mark.parametrize("by_time", [True, False])
def test_table_dropped_in_mid_run_halts_the_route(
    new_run: NewRun,
    writer: TopicWriter,
    metastore_uri: str,
    *,
    by_time: bool,
) -> None:
    run, topic = new_run() if by_time else new_run(partition_by="[]", event_time="")
    writer.write(topic, _events(range(5)))
    run.catch_up()
    root = run.root()
    reached = Pause(Step.RECOVERED)
    reached.goes_on.set()
    with live(run, reached) as running:
        assert reached.reached.wait(_TIMEOUT_S)
        _drop(metastore_uri, run)
        # Into the partition that was there before: nothing is to be added to the metastore.
        writer.write(topic, _events(range(5, 10)))
        error = running.error()
    assert isinstance(error, TableMismatchError)
    assert "was dropped" in str(error)
    assert len(_files(root)) >= 1


def test_table_dropped_before_the_last_commit_of_a_bounded_run_is_told(
    new_run: NewRun,
    writer: TopicWriter,
    metastore_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    apply = HiveTableSink.apply

    def slowly(
        sink: HiveTableSink, partitions: Sequence[DesiredPartition]
    ) -> tuple[ParkedPartition, ...]:
        time.sleep(1)
        return apply(sink, partitions)

    monkeypatch.setattr(HiveTableSink, "apply", slowly)

    def drop(step: Step) -> None:
        if step is Step.PUBLISHED:
            _drop(metastore_uri, run)

    with pytest.raises(TableMismatchError, match="was dropped"):
        run.catch_up(observe=drop)


def test_managed_table_dropped_with_its_ledger_halts_the_route(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str, warehouse: Path
) -> None:
    run, topic = new_run()
    place = f"file:{warehouse}/managed_{topic}"
    _create(metastore_uri, run, warehouse, tableType="MANAGED_TABLE", parameters={}, location=place)
    writer.write(topic, _events(range(5)))
    reached = Pause(Step.REPORTED)
    reached.goes_on.set()
    with live(run, reached) as running:
        assert reached.reached.wait(_TIMEOUT_S)
        with raw_client(metastore_uri) as client:
            client.drop_table(*_names(run), True)  # noqa: FBT003 - thrift has no names
        writer.write(topic, _events(range(5, 10)))
        error = running.error()
    assert isinstance(error, TableMismatchError | StateConflictError)


def test_table_dropped_and_created_again_is_refused_at_the_start(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    root = run.root()
    before = _files(root)
    _drop(metastore_uri, run)
    with pytest.raises(LedgerMismatchError):
        run.catch_up()
    assert _files(root) == before


def test_table_created_again_in_mid_run_halts_the_route(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str, warehouse: Path
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    location = f"file:{run.root()}"
    reached = Pause(Step.RECOVERED)
    with live(run, reached) as running:
        assert reached.reached.wait(_TIMEOUT_S)
        # The driver stands still, so that it never looks between the two.
        _drop(metastore_uri, run)
        _create(metastore_uri, run, warehouse, location=location)
        writer.write(topic, _events(range(5, 10), day=1))
        reached.goes_on.set()
        error = running.error()
    assert isinstance(error, TableMismatchError)
    assert "created again" in str(error)


@pytest.mark.parametrize(
    ("columns", "event_time", "message"),
    [
        ("    from_table", "{field: city, unit: ms}", "event time city"),
        ("    from_table", "{field: nope, unit: ms}", "event time nope"),
        (DECLARED, "{field: city, unit: ms}", "expected a unit that reads `string`"),
        (DECLARED, "{field: ts, unit: iso8601}", "expected a unit that reads `bigint`"),
    ],
)
def test_fields_that_the_table_does_not_have_are_told_before_anything_is_read(
    new_run: NewRun,
    metastore_uri: str,
    warehouse: Path,
    columns: str,
    event_time: str,
    message: str,
) -> None:
    run, _ = new_run(columns=columns, event_time=event_time)
    _create(metastore_uri, run, warehouse)
    kind = JobFileError if columns == DECLARED else TableMismatchError
    with pytest.raises(kind, match=message):
        run.catch_up()


def test_partition_of_a_column_that_the_table_does_not_have_is_told(
    new_run: NewRun, metastore_uri: str, warehouse: Path
) -> None:
    run, _ = new_run(
        columns="    from_table", partition_by="[{name: x, column: nope}]", event_time=""
    )
    keys = [ttypes.FieldSchema("x", "string", "")]
    _create(metastore_uri, run, warehouse, partitionKeys=keys)
    with pytest.raises(TableMismatchError, match="there is no column nope"):
        run.catch_up()
