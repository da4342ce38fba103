"""A table that one job fills is the source of another: exact after kills and compaction."""

import json
import signal
from pathlib import Path

import pytest

from matrix.drivers import driver_server
from sluiceway.cli.app import run_command
from sluiceway.errors import TableMismatchError, TopicNotFoundError
from sluiceway.jobfile.blocks.routes import default_route_name
from sluiceway.ledger.partition_records import ReadyCause, ReadyRecord, SwapRecord
from sluiceway.ledger.records import DataRecord, RecordType
from sluiceway.observe.failpoints import Action, FailpointSpec
from sluiceway.observe.steps import Step
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_faults import Crash, CrashAt, NewRun, live
from tools.route_runs import RouteRun
from tools.table_chain import Chain, chain_maker
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

FIRST_MS, HOUR_MS = 1_795_161_600_000, 3_600_000


@pytest.fixture
def chain(new_run: NewRun, tmp_path: Path, metastore_uri: str) -> Chain:
    return chain_maker(new_run, tmp_path, metastore_uri)


def _fill(run: RouteRun, writer: TopicWriter, topic: str, numbers: range, hour: int = 0) -> None:
    ts_ms = FIRST_MS + hour * HOUR_MS
    writer.write(topic, [event(n, ts_ms=ts_ms) for n in numbers], partition=0)
    run.catch_up()


def test_every_row_of_the_table_comes_once_whatever_step_the_driver_dies_at(
    chain: Chain, writer: TopicWriter
) -> None:
    raw, refined, topic = chain()
    steps = (Step.FENCED, Step.PLANNED, Step.WRITTEN, Step.COMMITTED, Step.PUBLISHED)
    for number, step in enumerate(steps):
        _fill(raw, writer, topic, range(10 * number, 10 * number + 10))
        with pytest.raises(Crash):
            refined.catch_up(observe=CrashAt(step))
        if number in (1, 3):
            assert run_command(["compact", str(raw.job.path), "dt=20261120"]) == 0
    assert RecordType.REPLACE in {each.type for each in raw.records()}
    refined.catch_up()
    wanted = [(n, n, n, "BERLIN", f"{n}.25") for n in range(50)]
    rows = refined.rows("_offset, raw_place, id, shout, amount")
    assert [(*row[:4], str(row[4])) for row in rows] == wanted
    refined.assert_verified()
    raw.assert_verified()


def test_rows_that_are_corrected_in_the_table_are_corrected_after_it(
    chain: Chain, writer: TopicWriter
) -> None:
    raw, refined, topic = chain()
    _fill(raw, writer, topic, range(10))
    refined.catch_up()
    _fill(raw, writer, topic, range(10, 20))
    text = raw.job.path.read_text()
    raw.job.path.write_text(text.replace("\ntable:", '\nwhere: "id <> 3"\ntable:', 1))
    command = ["backfill", str(raw.job.path), "dt=20261120", "--from", "ledger"]
    assert run_command(command) == 7
    assert run_command([*command, "--accept-rows", "19"]) == 0
    wanted = [n for n in range(20) if n != 3]
    assert [row[0] for row in raw.rows("id")] == wanted
    with live(refined) as driver:
        driver.wait_for(lambda: [row[0] for row in refined.rows("id")] == wanted)
        _fill(raw, writer, topic, range(20, 30))
        driver.wait_for(lambda: len(refined.rows("id")) == len(wanted) + 10)
    (swap,) = [each.body for each in refined.records() if isinstance(each.body, SwapRecord)]
    (source,) = swap.inputs
    (there,) = [each.seq for each in raw.records() if isinstance(each.body, SwapRecord)]
    assert (source.prefix, source.slot >= there) == ("dt=20261120", True)
    spans = [
        span
        for each in refined.records()
        if isinstance(each.body, DataRecord)
        for span in each.body.ranges
    ]
    # Rows that were replaced before they were read are a gap, and the rebuild has brought them.
    assert sum(int(span.gaps) for span in spans) == 10
    refined.assert_verified()
    raw.assert_verified()


def test_hours_of_the_table_are_complete_when_those_that_it_reads_are(
    chain: Chain, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined, topic = chain(ready="{}")
    _fill(raw, writer, topic, range(10))
    refined.catch_up()
    assert _announced(refined) == []
    _fill(raw, writer, topic, range(10, 20), hour=1)
    refined.catch_up()
    assert _announced(raw) == ["dt=20261120/hr=08"]
    (ready,) = [each.body for each in refined.records() if isinstance(each.body, ReadyRecord)]
    fence = raw.log().fold().first_fence
    ledger = "" if fence is None else fence.ledger
    assert (ready.prefix, ready.because) == (
        "dt=20261120/hr=08",
        ReadyCause(ledger, "dt=20261120/hr=08", 1),
    )
    marks = [each.body.watermark for each in refined.records() if isinstance(each.body, DataRecord)]
    raw_us = raw.log().fold().watermark.us
    assert max(int(mark.us) for mark in marks if mark is not None and mark.us) == raw_us
    refined.assert_verified()


def _announced(run: RouteRun) -> list[str]:
    return [each.body.prefix for each in run.records() if isinstance(each.body, ReadyRecord)]


def test_commands_say_what_the_route_reads_and_what_its_hours_wait_for(
    chain: Chain, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined, topic = chain(ready="{}")
    _fill(raw, writer, topic, range(10))
    refined.catch_up()
    job = str(refined.job.path)
    capsys.readouterr()
    assert run_command(["partitions", "why", job, "dt=20261120/hr=08"]) == 0
    told = capsys.readouterr().out
    assert f"it waits for {raw.job.table}, which has not announced it: its watermark is" in told
    run_command(["status", job, "-o", "json"])
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert route["upstream"]["table"] == raw.job.table
    assert 0 <= route["upstream"]["read_slot"] <= route["upstream"]["published_slot"]
    for command in (
        ["validate", job],
        ["plan", job],
        ["doctor", job],
        ["preview", job],
        ["offsets", "show", job],
    ):
        code = run_command(command)
        printed = capsys.readouterr()
        assert (code, "Traceback" in printed.err) == (0, False), (command, printed)


def test_one_job_with_both_routes_ends_when_both_tables_have_every_row(
    new_topic: TopicFactory,
    writer: TopicWriter,
    tmp_path: Path,
    bootstrap_servers: str,
    metastore_uri: str,
) -> None:
    topic = new_topic(2)
    for part in (0, 1):
        writer.write(topic, [event(n) for n in range(part, 400, 2)], partition=part)
    routes = f"""\
  - {{source: {{table: ods.{topic}}}, table: ods.{topic}_refined}}
  - {{topics: [{topic}], table: ods.{topic}}}
"""
    where = {"bootstrap_servers": bootstrap_servers, "metastore_uri": metastore_uri}
    run = RouteRun(write_routes(tmp_path, routes, **where))
    # The route that reads comes first: it is planned before there is a row.
    run.catch_up()
    for name in (topic, f"{topic}_refined"):
        of = run.of(default_route_name(f"ods.{name}"))
        assert of.rows("id") == [(n,) for n in range(400)]
        of.assert_verified()


def test_driver_of_a_route_that_reads_a_table_is_killed(
    chain: Chain, writer: TopicWriter, tmp_path: Path
) -> None:
    raw, refined, topic = chain()
    points = (
        "step.pinned",
        "step.planned",
        "task.close",
        "step.prepared",
        "storage.put.link.reply",
    )
    with driver_server() as drivers:
        for number, point in enumerate(points):
            _fill(raw, writer, topic, range(10 * number, 10 * number + 10))
            if number == 2:
                assert run_command(["compact", str(raw.job.path), "dt=20261120"]) == 0
            marks = tmp_path / point
            marks.mkdir()
            kill = FailpointSpec(point, Action.KILL, str(marks)).text()
            job, log = refined.job.path, tmp_path / "driver.log"
            driver = drivers.start(job, tmp_path, log, {"SLUICEWAY_FAILPOINTS": kill})
            try:
                assert driver.wait(120.0) in (-signal.SIGKILL, 0), driver.words()
            finally:
                driver.end()
            assert (marks / "hit").exists() or point == "step.pinned", point
    refined.catch_up()
    assert refined.rows("id") == [(n,) for n in range(10 * len(points))]
    refined.assert_verified()


def test_table_that_was_dropped_stops_the_route_also_after_a_restart(
    chain: Chain, writer: TopicWriter, metastore_uri: str
) -> None:
    raw, refined, topic = chain()
    _fill(raw, writer, topic, range(3))
    refined.catch_up()
    database, _, name = raw.job.table.partition(".")
    with raw_client(metastore_uri) as client:
        client.drop_table(database, name, False)  # noqa: FBT003 - thrift has no names
    with pytest.raises(TopicNotFoundError, match="the table that this route reads was dropped"):
        refined.catch_up()
    assert refined.rows("id") == [(n,) for n in range(3)]


def test_column_that_the_table_does_not_have_is_named(chain: Chain, writer: TopicWriter) -> None:
    raw, refined, topic = chain(
        columns="    - {name: ts, type: bigint}\n    - {name: citty, type: string}"
    )
    _fill(raw, writer, topic, range(3))
    with pytest.raises(TableMismatchError, match="no column citty") as told:
        refined.catch_up()
    assert "city" in told.value.hint
