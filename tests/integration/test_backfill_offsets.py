"""`backfill --from offsets`: rows of the queue from before the route began are added once."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.records import RecordType
from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.backfill_command import backfill
from tools.job_files import event
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

DAY = "dt=20261120"
POINTS = ("backfill.close", "swap.written", "swap.landing", "swap.landed")


def begun(new_run: NewRun, writer: TopicWriter) -> tuple[RouteRun, str]:
    """A route that began at row 20, and has ten rows; one of the rows before is dirty."""
    run, topic = new_run(start="latest")
    write(writer, topic, range(19))
    writer.write(topic, [b"no json"], partition=0)
    run.catch_up()
    write(writer, topic, range(20, 30))
    run.catch_up()
    assert ids(run) == list(range(20, 30))
    return run, topic


def write(writer: TopicWriter, topic: str, numbers: range) -> None:
    writer.write(topic, [event(n) for n in numbers], partition=0)


def ids(run: RouteRun) -> list[object]:
    return [row[0] for row in run.rows("id")]


def test_rows_from_before_the_route_began_are_added_once_while_epochs_go_on(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = begun(new_run, writer)
    command = ["backfill", str(run.job.path), DAY, "--from"]
    capsys.readouterr()
    assert run_command([*command, "offsets", "--dry-run", "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert [(each["start"], each["end"]) for each in planned["ranges"]] == [(0, 20)]
    assert (planned["rows_before"], planned["counts"]["written"]) == (10, 29)
    assert run_command([*command, "offsets"]) != 0
    assert "it has 10 rows, and would have 29" in capsys.readouterr().err
    term = run.log().fold().term
    with live(run) as driver:
        driver.wait_for(lambda: run.log().fold().term > term)
        assert run_command([*command, "offsets", "--accept-rows", "29"]) == 0
        write(writer, topic, range(30, 35))
        driver.wait_for(lambda: len(ids(run)) == 34)
    assert ids(run) == [*range(19), *range(20, 35)]
    assert len(run.dirty()) == 1
    assert run_command([*command, "offsets", "--accept-rows", "53"]) != 0
    assert "are in it already, by slot" in capsys.readouterr().err
    assert run_command([*command, "ledger"]) == 0
    assert ids(run) == [*range(19), *range(20, 35)]
    assert run_command([*command, "offsets", "--accept-rows", "53"]) != 0
    assert len(run.dirty()) == 1
    run.assert_verified()


def test_queue_without_such_rows_is_refused(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    write(writer, topic, range(10))
    run.catch_up()
    assert run_command(["backfill", str(run.job.path), DAY, "--from", "offsets"]) != 0
    assert "the queue has nothing from before the offsets" in capsys.readouterr().err


@pytest.mark.parametrize("point", POINTS)
def test_kill_loses_and_doubles_no_row(
    point: str, new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, _ = begun(new_run, writer)
    points = tmp_path / "points"
    points.mkdir()
    read = ("offsets", "--accept-rows", "29")
    died = backfill(run, FailpointSpec(point, Action.KILL, str(points)), *read)
    assert (points / "hit").exists(), died.stderr
    landed = RecordType.SWAP in {each.type for each in run.records()}
    assert landed is (point == "swap.landed")
    again = backfill(run, None, *read)
    assert (again.returncode == 0) is not landed, again.stderr
    assert ("are in it already, by slot" in again.stderr) is landed
    assert ids(run) == [*range(19), *range(20, 30)]
    run.assert_verified()
