"""`backfill` on real servers: an hour is read again, and its rows are replaced at once."""

import json
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sluiceway.cli.app import run_command
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import RecordType
from tools.job_files import event
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


def backfill(
    run: RouteRun, capsys: pytest.CaptureFixture[str], prefix: str, *options: str, code: int = 0
) -> dict[str, Any]:
    """What the command answers."""
    capsys.readouterr()
    command = ["backfill", str(run.job.path), prefix, "--from", "ledger", *options, "-o", "json"]
    assert run_command(command) == code
    out = capsys.readouterr().out
    found: dict[str, Any] = json.loads(out) if out.strip() else {}
    return found


def hour(run: RouteRun) -> str:
    (value,) = run.partitions()
    return f"dt={value.replace('/', '/hr=')}"


def fill(run: RouteRun, writer: TopicWriter, topic: str, epochs: int) -> None:
    for start in range(0, 10 * epochs, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()


COLUMNS = "_partition, _offset, id, ts, city, amount"


def test_hour_is_read_again_without_a_driver_and_has_the_same_rows(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 3)
    before, places, name = run.rows(COLUMNS), run.partitions(), hour(run)
    planned = backfill(run, capsys, name, "--dry-run")
    assert (planned["rows_before"], planned["counts"]["written"]) == (30, 30)
    assert [(each["start"], each["end"]) for each in planned["ranges"]] == [(0, 30)]
    done = backfill(run, capsys, name, "--why", "a test")
    assert (done["rows_before"], done["rows_after"]) == (30, 30)
    assert run.rows(COLUMNS) == before
    assert run.partitions() != places
    (body,) = [each.body for each in run.records() if isinstance(each.body, SwapRecord)]
    assert (body.reason, body.counts.read, body.counts.outside) == ("a test", 30, 0)
    run.assert_verified()
    # The stream goes on behind it.
    writer.write(topic, [event(n) for n in range(30, 40)], partition=0)
    run.catch_up()
    assert run.rows() == [(0, n) for n in range(40)]
    run.assert_verified()


def test_running_driver_backfills_while_it_commits(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 2)
    with live(run) as driver:
        writer.write(topic, [event(n) for n in range(20, 30)], partition=0)
        driver.wait_for(lambda: len(run.rows()) == 30)
        done = backfill(run, capsys, "dt=20261120")
        assert int(done["rows_after"]) >= 30
        writer.write(topic, [event(n) for n in range(30, 40)], partition=0)
        driver.wait_for(lambda: len(run.rows()) == 40)
    assert run.rows() == [(0, n) for n in range(40)]
    kinds = [record.type for record in run.records()]
    assert kinds.count(RecordType.SWAP) == 1
    run.assert_verified()


def test_another_number_of_rows_is_shown_and_taken_only_when_it_is_accepted(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 2)
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace("table:", 'where: "id <> 3"\ntable:', 1))
    name = hour(run)
    command = ["backfill", str(run.job.path), name, "--from", "ledger"]
    capsys.readouterr()
    assert run_command(command) == 7
    told = capsys.readouterr().err
    assert "SW471" in told
    assert "it has 20 rows, and would have 19" in told
    assert "--accept-rows 19" in told
    assert len(run.rows()) == 20
    assert run_command([*command, "--accept-rows", "18"]) == 7
    done = backfill(run, capsys, name, "--accept-rows", "19")
    assert (done["rows_after"], done["counts"]["filtered"]) == (19, 1)
    assert run.rows() == [(0, n) for n in range(20) if n != 3]
    run.assert_verified()


def test_rows_that_were_dirty_then_are_not_read_again(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    rows = [event(n) for n in range(10)]
    writer.write(topic, [*rows[:5], b"{broken", *rows[5:]], partition=0)
    run.catch_up()
    done = backfill(run, capsys, hour(run))
    assert (done["rows_after"], done["counts"]["read"]) == (10, 10)
    run.assert_verified()


def test_what_the_broker_has_lost_is_listed_and_nothing_is_done(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 2)
    gone = TopicPartition(topic, 0, 7)
    for future in admin.delete_records([gone]).values():
        future.result()
    planned = backfill(run, capsys, hour(run), "--dry-run")
    (lost,) = planned["lost"]
    assert (lost["start"], lost["end"], lost["why"]) == (0, 7, "the log begins at 7")
    command = ["backfill", str(run.job.path), hour(run), "--from", "ledger"]
    assert run_command(command) == 7
    told = capsys.readouterr().err
    assert f"{topic}[0] [0, 7): the log begins at 7" in told
    assert RecordType.INTENT not in {record.type for record in run.records()}
    assert len(run.rows()) == 20
