"""A chain on real servers: a topic, its table, a refined one, and hours that are computed."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.partition_records import ReadyCause, ReadyRecord, SwapRecord
from tools.duck_units import DuckUnits
from tools.job_files import JobFile, event
from tools.lab_fixture import TopicFactory
from tools.receiving import hook_server
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.unit_jobs import FIRST_MS, HOUR_MS, SQL, TIMES, computed_hours, fill_hour

pytestmark = pytest.mark.slow

EIGHT, NINE = "dt=20261120/hr=08", "dt=20261120/hr=09"


@pytest.fixture
def chain(
    new_run: NewRun, tmp_path: Path, metastore_uri: str
) -> tuple[RouteRun, RouteRun, RouteRun, str]:
    """The topic's table, the refined one, the computed one, and the topic."""
    raw, topic = new_run(1, ready="{visible: on_commit}", event_time=TIMES)
    path = tmp_path / f"{topic}-refined.yaml"
    path.write_text(f"""\
version: 1
name: refined
connections: {{hms: {{metastore: {{uri: "{metastore_uri}"}}}}}}
source: {{table: {raw.job.table}}}
table:
  hive: {{connection: hms, name: {raw.job.table}_refined}}
  columns:
    - {{name: id, type: bigint}}
    - {{name: ts, type: bigint}}
    - {{name: city, type: string, expression: "upper(place)"}}
    - {{name: place, type: string, path: city, transient: true}}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
event_time: {TIMES}
ready: {{visible: on_commit}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    refined = RouteRun(JobFile(path, f"{raw.job.table}_refined"))
    return raw, refined, computed_hours(refined, tmp_path, metastore_uri), topic


def test_hours_of_a_chain_are_computed_when_the_queue_is_past_them(
    chain: tuple[RouteRun, RouteRun, RouteRun, str],
    writer: TopicWriter,
    tmp_path: Path,
    metastore_uri: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw, refined, hours, topic = chain
    fill_hour(raw, writer, topic, range(10))
    refined.catch_up()
    hours.catch_up()
    job = str(hours.job.path)
    capsys.readouterr()
    assert run_command(["partitions", "why", job, EIGHT]) == 0
    told = capsys.readouterr().out
    assert f"it waits for {refined.job.table}, which has not announced it" in told
    assert f"it waits for {raw.job.table}, which has not announced it: its watermark is" in told
    run_command(["status", job])
    assert "0 units computed, 0 due, 1 not complete yet" in capsys.readouterr().out

    fill_hour(raw, writer, topic, range(10, 20), hour=1)
    assert run_command(["compact", str(raw.job.path), EIGHT]) == 0
    refined.catch_up()
    hours.catch_up()
    assert hours.rows("city, n, newest") == [("BERLIN", 5, 8), ("PARIS", 5, 9)]
    bodies = [each.body for each in hours.records()]
    (swap,) = [each for each in bodies if isinstance(each, SwapRecord)]
    (ready,) = [each for each in bodies if isinstance(each, ReadyRecord)]
    fence = refined.log().fold().first_fence
    assert fence is not None
    assert ready.because == ReadyCause(fence.ledger, EIGHT, 1)
    assert (int(swap.counts.read), int(swap.counts.written)) == (10, 2)

    computed_hours(refined, tmp_path, metastore_uri, SQL.replace("max(id)", "min(id)"))
    assert run_command(["compact", str(refined.job.path), EIGHT]) == 0
    hours.catch_up()
    assert hours.rows("city, n, newest") == [("BERLIN", 5, 0), ("PARIS", 5, 1)]
    for each in (raw, refined, hours):
        each.assert_verified()

    capsys.readouterr()
    run_command(["status", job, "-o", "json"])
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert route["upstream"]["units"] == {"computed": 1, "due": 0, "open": 1}
    for command in (
        ["validate", job],
        ["plan", job],
        ["offsets", "show", job],
        ["at", job],
        ["ledger", "show", job],
        ["partitions", "list", job],
        ["doctor", job],
    ):
        code = run_command(command)
        printed = capsys.readouterr()
        assert (code, "Traceback" in printed.err) == (0, False), (command, printed)


def test_computed_hours_have_a_mark_and_are_sent_to_the_webhook(
    new_run: NewRun,
    writer: TopicWriter,
    tmp_path: Path,
    metastore_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.audit.sql_preview.unit_engine", DuckUnits)
    raw, topic = new_run(1, ready="{visible: on_commit}", event_time=TIMES)
    fill_hour(raw, writer, topic, range(10))
    fill_hour(raw, writer, topic, range(10, 20), hour=1)
    with hook_server() as hook:
        hook.come_up()
        ready = f'{{success_file: true, webhook: {{url: "{hook.url}"}}}}'
        hours = computed_hours(raw, tmp_path, metastore_uri, ready=ready)
        hours.catch_up()
        computed_hours(raw, tmp_path, metastore_uri, SQL.replace("max(id)", "min(id)"), ready)
        hours.catch_up()
        assert run_command(["backfill", str(hours.job.path), EIGHT, "--from", "inputs"]) == 0
        hours.catch_up()
        told = [(body["prefix"], body["version"]) for _, body in hook.told]
    assert told == [(EIGHT, 1), (EIGHT, 2), (EIGHT, 3)]
    (place,) = hours.partitions().values()
    assert "/hr=08" in place
    assert (Path(place) / "_SUCCESS").exists()
    assert hours.rows("city, n, newest") == [("Berlin", 5, 0), ("Paris", 5, 1)]
    hours.assert_verified()


def test_late_row_goes_through_the_chain_of_one_job(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    writer: TopicWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(1)
    name = f"ods.{topic.replace('-', '_')}"
    path = tmp_path / "chain.yaml"
    path.write_text(f"""\
version: 1
name: chain
connections:
  main: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
source: {{connection: main, start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms}}
  columns: [{{name: id, type: bigint}}, {{name: ts, type: bigint}}, {{name: city, type: string}}]
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
event_time: {TIMES.replace("}", ", late: reopen, reopen_every: 1m}")}
ready: {{visible: on_commit}}
run: {{interval: 0.5s, master: "local[2]"}}
routes:
- name: hourly
  source: {{table: {name}_refined, mode: recompute, unit: [dt, hr]}}
  transform: {{sql: "{SQL}"}}
  table: {{hive: {{connection: hms, name: {name}_hourly}}, columns: from_sql}}
- {{name: refined, source: {{table: {name}}}, table: {name}_refined, where: "id > 0"}}
- {{name: raw, topics: [{topic}], table: {name}}}
""")
    job = RouteRun(JobFile(path, name))
    hours = job.of("hourly")
    # An hour with late rows is announced again at once, not after a minute.
    monkeypatch.setattr("sluiceway.route.route_readiness._US_PER_S", 0)
    writer.write(topic, [row(n) for n in range(10)])
    writer.write(topic, [row(10, hour=1)])
    job.catch_up()
    assert hours.rows("city, n, newest") == [("Berlin", 4, 8), ("Paris", 5, 9)]
    writer.write(topic, [row(12)])
    job.catch_up()
    assert hours.rows("city, n, newest") == [("Berlin", 5, 12), ("Paris", 5, 9)]
    bodies = [each.body for each in hours.records()]
    ready = [each for each in bodies if isinstance(each, ReadyRecord)]
    assert [(each.prefix, each.version) for each in ready] == [(EIGHT, 1), (EIGHT, 2)]
    assert [each.because.version for each in ready if each.because is not None] == [1, 2]
    for route in ("raw", "refined", "hourly"):
        job.of(route).assert_verified()


def row(number: int, hour: int = 0) -> bytes:
    """A row of an hour, counted from the first one."""
    return event(number, ts_ms=FIRST_MS + hour * HOUR_MS, city=("Berlin", "Paris")[number % 2])
