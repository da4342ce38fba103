"""`partitions why` and `wait` beside a route that announces its hours, on real servers."""

import json
import threading
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from tools.job_files import event
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

HOUR_MS = 3_600_000
SEVEN_MS = 1_795_158_000_000
SIX, SEVEN, EIGHT, NINE = (f"dt=20261120/hr={hour:02d}" for hour in range(6, 10))
TIMES = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}"


def write(writer: TopicWriter, topic: str, partition: int, number: int, ts_ms: int) -> None:
    writer.write(topic, [event(number, ts_ms=ts_ms)], partition=partition)


def why(run: RouteRun, asked: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run_command(["partitions", "why", str(run.job.path), asked, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_why_names_the_source_partition_that_lags_and_wait_ends_when_it_comes(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(2, event_time=TIMES, ready="{visible: on_ready}")
    job = str(run.job.path)
    write(writer, topic, 0, 0, SEVEN_MS)
    write(writer, topic, 1, 1, SEVEN_MS)
    run.catch_up()
    with live(run) as running:
        running.wait_for(lambda: why(run, SEVEN, capsys)["watermark_ms"] is not None)
        write(writer, topic, 0, 2, SEVEN_MS + 2 * HOUR_MS)
        running.wait_for(lambda: why(run, SEVEN, capsys)["rows"] == 2)
        running.wait_for(
            lambda: [each["partition"] for each in why(run, SEVEN, capsys)["holders"]] == [1]
        )
        found = why(run, SEVEN, capsys)
        assert (found["reason"], found["holders"][0]["topic"]) == ("held", topic)
        assert why(run, SIX, capsys)["reason"] == "before_first_row"
        wait = ["partitions", "wait", job, run.job.table, SEVEN]
        assert run_command([*wait, "--timeout", "1s"]) == 1
        assert run_command(["partitions", "wait", job, run.job.table, SIX]) == 7
        late = threading.Timer(
            1.0, lambda: write(writer, topic, 1, 3, SEVEN_MS + HOUR_MS + HOUR_MS // 2)
        )
        late.start()
        capsys.readouterr()
        assert run_command([*wait, "--timeout", "10m", "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        late.join()
        assert (answer["announced"]["rows"], answer["announced"]["version"]) == (2, 1)
        assert answer["announced"]["at_ms"] > SEVEN_MS
        running.wait_for(lambda: len(run.rows()) == 2)
        running.stop()
    assert [each["prefix"] for each in listed(run, capsys, "ready")] == [SEVEN]
    # Hours up to the clock come after those with rows.
    assert [each["prefix"] for each in listed(run, capsys, "open")][:2] == [EIGHT, NINE]
    run.assert_verified()


def listed(run: RouteRun, capsys: pytest.CaptureFixture[str], state: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    command = ["partitions", "list", str(run.job.path), "--state", state, "-o", "json"]
    assert run_command(command) == 0
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    found: list[dict[str, Any]] = route["prefixes"]
    return found
