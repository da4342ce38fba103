"""Dirty rows that are replayed or given up: each row once in the end, whoever does it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.lane_records import LaneRecord
from tools.job_files import COLUMNS, event, write_job
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")


def payloads(count: int, one_in: int) -> list[bytes]:
    """Events, of which one in so many has no city; of those one in three is broken for good."""
    made = []
    for number in range(count):
        body = json.loads(event(number))
        if number % one_in == 0:
            del body["city"]
        made.append(b"{" if number % (3 * one_in) == one_in else json.dumps(body).encode())
    return made


def repair(run: RouteRun, tmp_path: Path, servers: tuple[str, str], topic: str) -> None:
    """The job file as it should have been: a city may be missing."""
    assert (tmp_path / run.job.path.name) == run.job.path
    write_job(tmp_path, bootstrap_servers=servers[0], metastore_uri=servers[1], topic=topic)


def dirty(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run_command(["dirty", *arguments, "-o", "json"]) == code
    out = capsys.readouterr().out
    return json.loads(out) if out else None


def open_rows(listed: Any) -> int:
    (route,) = listed["routes"].values()
    return int(route["open"])


def bodies(run: RouteRun, kind: type) -> list[Any]:
    return [record.body for record in run.records() if isinstance(record.body, kind)]


def test_replay_without_a_driver_writes_each_repaired_row_once(
    new_run: NewRun,
    writer: TopicWriter,
    tmp_path: Path,
    bootstrap_servers: str,
    metastore_uri: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, topic = new_run(columns=STRICT)
    rows = payloads(300, 10)
    writer.write(topic, rows)
    run.catch_up()
    job = str(run.job.path)
    assert len(run.rows()) == 270
    assert open_rows(dirty(capsys, "list", job)) == 30

    repair(run, tmp_path, (bootstrap_servers, metastore_uri), topic)
    plan = dirty(capsys, "replay", job, "--dry-run")
    assert (plan["rows"], plan["reasons"]) == (30, {"missing": 20, "broken": 10})
    assert (plan["outcome"]["written"], plan["still_dirty"]) == (20, {"broken": 10})
    assert bodies(run, LaneRecord) == []

    (lane,) = dirty(capsys, "replay", job)["lanes"]
    assert (lane["read"], lane["written"], lane["dirty"]) == (30, 20, 10)
    clean = [(0, n) for n in range(300) if rows[n] != b"{"]
    assert run.rows() == clean
    assert open_rows(dirty(capsys, "list", job)) == 10
    run.assert_verified()

    # Once more: the broken ones are dirty again, and only they.
    (lane,) = dirty(capsys, "replay", job)["lanes"]
    assert (lane["read"], lane["written"], lane["dirty"]) == (10, 0, 10)
    assert dirty(capsys, "purge", job, "--yes", "--why", "never whole")["lanes"][0]["purged"] == 10
    assert dirty(capsys, "replay", job)["lanes"] == []
    assert run.rows() == clean
    run.catch_up()
    assert run.rows() == clean
    run.assert_verified()
