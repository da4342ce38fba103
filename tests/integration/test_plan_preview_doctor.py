"""`plan`, `preview` and `doctor` of one small job on real servers, before its runs and after."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from sluiceway.catalog.hive_table import MetastoreTable
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.cli.app import run_command
from sluiceway.lab.lab import LabEndpoints
from tools.job_files import event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

Ask = Callable[..., tuple[int, Any]]
HOUR = "dt=20261120/hr=08"


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command with `-o json`; its exit code and answer."""

    def run(*args: object) -> tuple[int, Any]:
        capsys.readouterr()
        code = run_command([*map(str, args), "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def files_of(run: RouteRun, warehouse: Path) -> set[Path]:
    """Those of the run's table; other tests write into the same warehouse meanwhile."""
    database, _, table = run.job.table.partition(".")
    places = set(warehouse.glob(f"{database}.db/{table}*"))
    return places | {path for place in places for path in place.rglob("*")}


def table_of(endpoints: LabEndpoints, table: str) -> MetastoreTable | None:
    client = MetastoreClient(endpoints.metastore_uri)
    try:
        return client.get_table(*table.split("."))
    finally:
        client.close()


def test_preview_shows_what_a_run_then_writes_and_writes_nothing_itself(
    new_run: NewRun, writer: TopicWriter, ask: Ask, lab_endpoints: LabEndpoints
) -> None:
    run, topic = new_run(2)
    good = [event(n) for n in range(4)]
    writer.write(topic, good[:3], partition=0)
    writer.write(topic, [b'{"id": 7.5, "ts": 1795161600000}', good[3], b"{broken"], partition=1)
    before = files_of(run, lab_endpoints.warehouse)
    code, shown = ask("preview", run.job.path, "-n", 100)
    assert code == 0
    assert not shown["table_exists"]
    assert files_of(run, lab_endpoints.warehouse) == before
    assert table_of(lab_endpoints, run.job.table) is None
    run.catch_up()
    columns = 'id, ts, city, amount, _topic, _partition, "_offset"'
    written = sorted((*map(str, row),) for row in run.rows(columns))
    foretold = [
        tuple(str(row["values"][name.strip(' "')]) for name in columns.split(","))
        for row in shown["rows"]
    ]
    assert sorted(foretold) == written
    assert len(written) == 4
    assert {row["folder"] for row in shown["rows"]} == {HOUR}
    assert shown["partitions"] == {HOUR: 4}
    assert [(row["topic"], row["partition"], row["offset"]) for row in shown["rows"]] == [
        *((topic, 0, offset) for offset in range(3)),
        (topic, 1, 1),
    ]
    told = [(row["partition"], row["offset"], row["reason"]) for row in shown["dirty"]]
    assert told == run.dirty() == [(1, 0, "not_integral"), (1, 2, "broken")]
    assert shown["counts"]["read"] == 6


def test_preview_takes_the_records_that_are_asked_for(
    new_run: NewRun, writer: TopicWriter, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(2)
    path = run.job.path
    assert run_command(["preview", str(path)]) == 0
    assert "there is no record to look at: it is empty" in capsys.readouterr().out
    writer.write(topic, [event(n) for n in range(30)], partition=0)
    writer.write(topic, [event(100)], partition=1)

    def offsets(*args: object) -> list[tuple[int, int]]:
        rows = ask("preview", path, *args)[1]["rows"]
        return [(row["partition"], row["offset"]) for row in rows]

    # One log has too few; the other gives what is left.
    assert offsets("-n", 5) == [(0, 26), (0, 27), (0, 28), (0, 29), (1, 0)]
    assert offsets("-n", 4, "--from", "oldest") == [(0, 0), (0, 1), (0, 2), (1, 0)]
    run.catch_up()
    writer.write(topic, [event(n) for n in range(30, 33)], partition=0)
    assert offsets("-n", 2, "--from", "next") == [(0, 30), (0, 31)]


def test_plan_tells_changes_before_the_first_run_and_none_after_it(
    new_run: NewRun, writer: TopicWriter, ask: Ask, lab_endpoints: LabEndpoints
) -> None:
    run, topic = new_run(2)
    writer.write(topic, [event(n) for n in range(5)], partition=0)
    before = files_of(run, lab_endpoints.warehouse)
    detailed = ("plan", run.job.path, "--detailed-exitcode")
    code, shown = ask(*detailed)
    assert code == 4
    assert ask("plan", run.job.path)[0] == 0
    (route,) = shown["routes"]
    assert files_of(run, lab_endpoints.warehouse) == before
    create, ledger, read = route["changes"]
    assert create["what"] == f"create the table {run.job.table}"
    assert create["statement"].startswith("CREATE EXTERNAL TABLE `ods`.")
    assert "  `amount` decimal(18,2)" in create["statement"]
    assert ledger["what"].startswith("begin a ledger in /")
    assert read["what"] == f"read for the first time: {topic}[0], {topic}[1]"
    starts = [(each["partition"], each["offset"], each["how"]) for each in route["starts"]]
    assert starts == [(0, 0, "earliest"), (1, 0, "earliest")]
    assert [each["waiting"] for each in route["starts"]] == [5, 0]
    assert route["sample"]["partitions"] == {HOUR: 5}
    run.catch_up()
    # What the statement said is what the metastore has.
    made = table_of(lab_endpoints, run.job.table)
    assert made is not None
    assert all(
        f"`{column.name}` {column.type}" in create["statement"] for column in made.layout.columns
    )
    assert f"LOCATION '{made.layout.location}'" in create["statement"]
    code, shown = ask(*detailed)
    assert (code, shown["changes"]) == (0, 0)
    (route,) = shown["routes"]
    assert [(each["offset"], each["why"]) for each in route["starts"]] == [
        (5, "its committed end"),
        (0, "its committed end"),
    ]


def test_plan_names_risks_the_worst_first(new_run: NewRun, writer: TopicWriter, ask: Ask) -> None:
    run, topic = new_run(1, start="latest", dirty="{max_rate: {ratio: 0.1}}")
    writer.write(topic, [event(1), b"{broken"])
    _, shown = ask("plan", run.job.path)
    risks = shown["routes"][0]["risks"]
    assert [each["weight"] for each in risks] == ["stops", "loses", "hides"]
    assert "1 of 2 records are dirty (broken 1), above dirty.max_rate 0.1" in risks[0]["risk"]
    assert "2 records before it are never read" in risks[1]["risk"]
    earliest, later = risks[1]["todo"].split("; ")
    assert earliest == "write source.start: earliest to have them"
    assert "`sluiceway backfill JOB PREFIX --from offsets`" in later
    assert "before they are complete" in risks[2]["risk"]


def test_plan_of_a_table_that_differs_says_how_and_fails(
    new_run: NewRun, ask: Ask, admin: AdminClient
) -> None:
    run, topic = new_run(1)
    run.catch_up()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace("name: city, type: string", "name: city, type: bigint"))
    code, shown = ask("plan", run.job.path)
    error = shown["routes"][0]["error"]
    assert (code, error["code"]) == (1, "SW404")
    assert error["message"] == "column city is string, expected bigint"


def health(shown: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in shown["checks"]:
        found.setdefault(each["check"], each["health"])
    return found


def test_doctor_of_a_good_job_finds_all_well_and_leaves_nothing(
    new_run: NewRun, writer: TopicWriter, ask: Ask, lab_endpoints: LabEndpoints
) -> None:
    run, topic = new_run(2)
    writer.write(topic, [event(1, ts_ms=1)])
    before = files_of(run, lab_endpoints.warehouse)
    code, shown = ask("doctor", run.job.path)
    assert (code, shown["ok"]) == (0, True)
    found = health(shown)
    assert {name: found[name] for name in ("java", "broker", "metastore", "table", "store")} == (
        dict.fromkeys(("java", "broker", "metastore", "table", "store"), "ok")
    )
    assert {"spark", "memory", "disk", "ulimit", "topic", "clock", "native"} < set(found)
    assert files_of(run, lab_endpoints.warehouse) == before


def test_doctor_names_each_thing_that_is_wrong_and_its_fix(
    new_run: NewRun, ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(1)
    text = run.job.path.read_text()
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace(f"topics: [{topic}]", "topics: [not_there]"))
    code, shown = ask("doctor", broken)
    (bad,) = [each for each in shown["checks"] if each["health"] == "bad"]
    assert (code, bad["check"]) == (5, "topic")
    assert "[SW405]" in bad["found"]
    assert bad["fix"] == "topics are not created; check the name"
    metastore = next(line for line in text.splitlines() if "thrift://" in line)
    broken.write_text(text.replace(metastore, '  hms: {metastore: {uri: "thrift://127.0.0.1:9"}}'))
    code, shown = ask("doctor", broken)
    found = health(shown)
    assert (code, found["metastore"], found["table"], found["store"]) == (
        5,
        "bad",
        "bad",
        "skipped",
    )
    assert run_command(["doctor", str(broken)]) == 5
    told = capsys.readouterr().out
    assert "bad      metastore  thrift://127.0.0.1:9: [SW102]" in told
    assert "fix: start it, or correct the `uri` of its connection" in told
