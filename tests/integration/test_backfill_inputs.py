"""Backfills from another table, and from the table that a route reads."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import RecordType
from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.backfill_command import backfill
from tools.job_files import event
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.table_chain import Chain, chain_maker
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

DAY = "dt=20261120"
POINTS = ("backfill.close", "swap.written", "swap.landing", "swap.landed")


@pytest.fixture
def chain(new_run: NewRun, tmp_path: Path, metastore_uri: str) -> Chain:
    return chain_maker(new_run, tmp_path, metastore_uri)


def fill(run: RouteRun, writer: TopicWriter, topic: str, numbers: range, city: str) -> None:
    writer.write(topic, [event(n, city=city) for n in numbers], partition=0)
    run.catch_up()


def swap_of(run: RouteRun) -> SwapRecord:
    (found,) = [each.body for each in run.records() if isinstance(each.body, SwapRecord)]
    return found


def ledger_of(run: RouteRun) -> str:
    fence = run.log().fold().first_fence
    return "" if fence is None else fence.ledger


def refused(run: RouteRun, capsys: pytest.CaptureFixture[str], *read: str) -> str:
    capsys.readouterr()
    assert run_command(["backfill", str(run.job.path), DAY, "--from", *read]) != 0
    assert RecordType.SWAP not in {each.type for each in run.records()}
    return capsys.readouterr().err


def test_rows_of_another_table_take_the_place_of_those_of_a_day(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    (run, topic), (fixed, other) = new_run(), new_run()
    fill(run, writer, topic, range(20), "Berlin")
    fill(fixed, writer, other, range(19), "Paris")
    read = ("table", fixed.job.table)
    assert "it is the table itself" in refused(run, capsys, "table", run.job.table)
    assert "does not exist" in refused(run, capsys, "table", "ods.no_such_table")
    told = refused(run, capsys, *read)
    assert "it has 20 rows, and would have 19" in told
    assert "the route reads no table" in refused(run, capsys, "inputs")
    command = ["backfill", str(run.job.path), DAY, "--from", *read]
    assert run_command([*command, "--dry-run", "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["rows_before"], planned["counts"]["written"]) == (20, 19)
    assert run_command([*command, "--accept-rows", "19"]) == 0
    assert run.rows("id, city") == [(n, "Paris") for n in range(19)]
    (source,) = swap_of(run).inputs
    assert (source.ledger, source.prefix) == (ledger_of(fixed), DAY)
    assert source.slot == fixed.log().fold().next_seq - 1
    fill(run, writer, topic, range(20, 25), "Rome")
    assert run.rows("id")[-1:] == [(24,)]
    run.assert_verified()


def test_rows_are_computed_again_from_the_table_that_is_read_while_epochs_go_on(
    chain: Chain, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined, topic = chain()
    fill(raw, writer, topic, range(20), "Berlin")
    refined.catch_up()
    # What the route has not read yet is not among the rows of its inputs.
    fill(raw, writer, topic, range(20, 30), "Berlin")
    text = refined.job.path.read_text()
    refined.job.path.write_text(text.replace("upper(city)", "lower(city)"))
    command = ["backfill", str(refined.job.path), DAY, "--from", "inputs"]
    capsys.readouterr()
    assert run_command([*command, "--dry-run", "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["rows_before"], planned["counts"]["written"]) == (20, 20)
    with live(refined) as driver:
        driver.wait_for(lambda: len(refined.rows("id")) == 30)
        assert run_command(command) == 0
        fill(raw, writer, topic, range(30, 40), "Berlin")
        driver.wait_for(lambda: len(refined.rows("id")) == 40)
    assert refined.rows("id, shout") == [(n, "berlin") for n in range(40)]
    (source,) = swap_of(refined).inputs
    assert (source.ledger, source.prefix) == (ledger_of(raw), DAY)
    refined.assert_verified()


def test_inputs_are_not_read_while_dirty_rows_are_open(
    chain: Chain, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined, topic = chain()
    text = refined.job.path.read_text()
    fill(raw, writer, topic, range(10), "Berlin")
    refined.job.path.write_text(text.replace('"decimal(18,2)"', '"decimal(2,1)"'))
    refined.catch_up()
    assert refined.log().fold().dirty_rows_open > 0
    assert "dirty rows are open" in refused(refined, capsys, "inputs")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("origin", ["table", "inputs"])
def test_kill_while_rows_of_a_table_are_read_loses_and_doubles_nothing(
    point: str, origin: str, chain: Chain, writer: TopicWriter, tmp_path: Path
) -> None:
    raw, refined, topic = chain()
    fill(raw, writer, topic, range(20), "Berlin")
    refined.catch_up()
    run, read = (refined, ("inputs",)) if origin == "inputs" else other_of(chain, raw, writer)
    rows = run.rows("id")
    points = tmp_path / "points"
    points.mkdir()
    died = backfill(run, FailpointSpec(point, Action.KILL, str(points)), *read)
    assert (points / "hit").exists(), died.stderr
    landed = RecordType.SWAP in {each.type for each in run.records()}
    assert landed is (point == "swap.landed")
    assert run.rows("id") == rows
    again = backfill(run, None, *read)
    assert again.returncode == 0, again.stderr
    assert run.rows("id") == rows
    run.assert_verified()


def other_of(chain: Chain, raw: RouteRun, writer: TopicWriter) -> tuple[RouteRun, tuple[str, str]]:
    """A table with the same ids as `raw`, and that it is read."""
    run, _, topic = chain()
    fill(run, writer, topic, range(20), "Rome")
    return run, ("table", raw.job.table)
