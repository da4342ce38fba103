"""A lake table whose hours are announced, whose dirty rows are replayed, as its user sees it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import COLUMNS, LakeJob, write_lake_job
from tools.lake_orders import START_MS, order
from tools.receiving import hook_server
from tools.running_lake import running, wait_for
from tools.topic_writer import TopicWriter

HOUR_MS = 3_600_000
BY_EVENT_HOUR = '[{name: dt, event_time: "yyyyMMdd"}, {name: hr, event_time: "HH"}]'
TIMES = "{field: ts, out_of_orderness: 0s, idle_after: 30d}"
EIGHT, NINE, TEN = (f"dt=20261120/hr={hour:02d}" for hour in (8, 9, 10))
Ask = Callable[..., Any]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command; what it prints as JSON."""

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert run_command([*arguments, "-o", "json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def ready_tags(job: LakeJob) -> dict[str, int]:
    """Rows that a reader finds behind each tag of an hour."""
    table = job.load()
    return {
        name: table.scan(snapshot_id=ref.snapshot_id).to_arrow().num_rows
        for name, ref in table.metadata.refs.items()
        if name.startswith("ready-")
    }


def test_an_hour_is_announced_once_its_snapshot_is_there_by_property_tag_and_webhook(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path, ask: Ask
) -> None:
    topic = new_topic(2)
    with hook_server() as hook:
        hook.come_up()
        job = write_lake_job(
            tmp_path,
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            partition_by=BY_EVENT_HOUR,
            event_time=TIMES,
            more=f'ready: {{visible: on_commit, tag: 7d, webhook: {{url: "{hook.url}"}}}}',
        )
        path = str(job.path)
        for partition in (0, 1):
            writer.write(topic, [order(n) for n in range(5)], partition=partition)
        with running(job):
            wait_for(lambda: job.ledger_is_there() and job.rows("id"))
            writer.write(topic, [order(5, ts_ms=START_MS + 2 * HOUR_MS)], partition=0)
            wait_for(
                lambda: (
                    [each["partition"] for each in ask("partitions", "why", path, EIGHT)["holders"]]
                    == [1]
                )
            )
            assert ask("partitions", "why", path, EIGHT)["reason"] == "held"
            assert ready_tags(job) == {}
            writer.write(topic, [order(5, ts_ms=START_MS + HOUR_MS)], partition=1)
            wait_for(lambda: len(hook.heard()) == 1)
            # Whoever was told finds the hour whole at that moment.
            properties = job.load().metadata.properties
            route = job.path.stem.replace("_", "-")
            assert properties[f"sluiceway.{route}.ready"] == EIGHT
            assert int(properties[f"sluiceway.{route}.watermark"]) >= (START_MS + HOUR_MS) * 1000
            assert ready_tags(job)[f"ready-{EIGHT}"] >= 10
            why = ask("partitions", "why", path, EIGHT)
            assert (why["reason"], why["rows"], why["version"]) == ("ready", 10, 1)
    (told,) = [body for _, body in hook.told]
    assert (told["prefix"], told["rows"], told["table"]) == (EIGHT, 10, job.table)
    (listed,) = ask("partitions", "list", path)["routes"]
    states = [(each["prefix"], each["state"]) for each in listed["prefixes"]]
    assert states[:3] == [(EIGHT, "ready"), (NINE, "open"), (TEN, "open")]
    # Hours up to the clock are listed too; no row has come for them.
    assert {state for _, state in states[3:]} <= {"open"}
    assert job.verified().problems == []


def test_dirty_rows_are_replayed_into_the_table_once(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path, ask: Ask
) -> None:
    topic = new_topic()
    strict = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")
    assert strict != COLUMNS
    job = write_lake_job(tmp_path, bootstrap_servers=bootstrap_servers, topic=topic, columns=strict)
    rows = [order(n, city=None if n % 4 == 0 else "Rome") for n in range(20)] + [b"{"]
    writer.write(topic, rows)
    job.catch_up()
    assert len(job.rows("id")) == 15
    path = str(job.path)
    job.path.write_text(job.path.read_text().replace(strict, COLUMNS))
    planned = ask("dirty", "replay", path, "--dry-run")
    assert (planned["rows"], planned["outcome"]["written"]) == (6, 5)
    (lane,) = ask("dirty", "replay", path)["lanes"]
    assert (lane["read"], lane["written"], lane["dirty"]) == (6, 5, 1)
    job.catch_up()
    assert job.rows("_offset") == [(n,) for n in range(20)]
    assert job.verified().problems == []
    # Once more: only the broken one is dirty again.
    (lane,) = ask("dirty", "replay", path, code=1)["lanes"]
    assert (lane["read"], lane["written"]) == (1, 0)
    job.catch_up()
    assert job.rows("_offset") == [(n,) for n in range(20)]


def test_late_rows_go_where_the_job_says_and_are_in_the_table_when_redirected(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path, ask: Ask
) -> None:
    topic = new_topic()
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        partition_by=BY_EVENT_HOUR,
        event_time=TIMES.replace("}", ", late: redirect}"),
        more="ready: {visible: on_commit}",
    )
    writer.write(topic, [order(0), order(1, ts_ms=START_MS + 2 * HOUR_MS)])
    job.catch_up()
    assert ask("partitions", "why", str(job.path), EIGHT)["reason"] == "ready"
    writer.write(topic, [order(2)])
    job.catch_up()
    # It is of an hour that is closed: it stands in the first open one, and the hour stays as told.
    assert job.rows("hr", "id") == [("08", 0), ("10", 1), ("10", 2)]
    assert ask("partitions", "why", str(job.path), EIGHT)["rows"] == 1
    assert job.verified().problems == []


def test_files_status_and_plan_tell_what_the_catalog_has(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path, ask: Ask
) -> None:
    topic = new_topic()
    job = write_lake_job(tmp_path, bootstrap_servers=bootstrap_servers, topic=topic)
    path = str(job.path)
    writer.write(topic, [order(n) for n in range(7)])
    (before,) = ask("plan", path)["routes"]
    assert not before["table_exists"]
    created, ledger, _ = before["changes"]
    assert "PARTITIONED BY (hours(`ts`), `city`)" in created["statement"]
    assert f"{tmp_path}/warehouse/ods/_sluiceway/" in ledger["what"]
    assert before["sample"]["counts"]["written"] == 7
    assert ask("preview", path)["counts"]["written"] == 7
    found = ask("doctor", path)["checks"]
    assert {each["health"] for each in found if each["check"] in ("table", "store")} == {"ok"}
    assert list((tmp_path / "warehouse").iterdir()) == []
    job.catch_up()
    named = ask("files", path)
    table = job.load()
    assert {each["path"] for each in named["files"]} == {
        task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()
    }
    assert sum(each["rows"] for each in named["files"]) == 7
    hour = "ts_hour=2026-11-20-08"
    assert {each["partition"] for each in named["files"]} == {f"{hour}/city=Berlin"}
    assert len(ask("files", path, hour)["files"]) == len(named["files"])
    assert ask("files", path, "ts_hour=2026-11-20-09")["files"] == []
    (status,) = ask("status", path)["routes"]
    assert (status["table"], status["rows_written"]) == (job.table, 7)
    (after,) = ask("plan", path)["routes"]
    assert (after["table_exists"], after["changes"]) == (True, [])


@pytest.mark.slow
def test_late_rows_that_lie_aside_are_brought_into_the_table_once(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path, ask: Ask
) -> None:
    topic = new_topic()
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        partition_by=BY_EVENT_HOUR,
        event_time=TIMES.replace("}", ", archive_window: 1h}"),
    )
    path = str(job.path)
    writer.write(topic, [order(n, ts_ms=START_MS + 3 * HOUR_MS) for n in range(3)])
    job.catch_up()
    writer.write(topic, [order(n) for n in range(3, 7)])
    job.catch_up()
    assert len(job.rows("id")) == 3
    assert ask("late", "replay", path, "--dry-run")["partitions"] == {EIGHT: 4}
    (lane,) = ask("late", "replay", path)["lanes"]
    assert (lane["read"], lane["written"]) == (4, 4)
    job.catch_up()
    assert sorted(row["id"] for row in job.load().scan().to_arrow().to_pylist()) == list(range(7))
    assert ask("late", "replay", path)["lanes"] == []
    report = job.verified()
    assert (report.problems, report.rows, report.late_rows) == ([], 7, 0)
