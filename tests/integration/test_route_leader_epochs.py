"""A route across leader elections: markers, pieces, and logs that were truncated."""

import json

import pytest

from sluiceway.cli.app import run_command
from sluiceway.errors import OffsetsLostError, ResetRefusedError
from sluiceway.lab.lab import Lab
from sluiceway.ledger.operator_records import ResetRecord
from sluiceway.observe.steps import Step
from sluiceway.schedule import pieces
from sluiceway.sources.kafka.consumer_cache import process_cache
from tools.cut_log import cut_log
from tools.job_files import event
from tools.route_faults import NewRun, Pause, data_records, live, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _elect_anew(lab: Lab) -> None:
    lab.stop_server("kafka")
    lab.start_server("kafka")


def _catch_up(run: RouteRun) -> None:
    """With a consumer of its own, as a driver that starts has."""
    process_cache().close()
    run.catch_up()


def _end_epoch(run: RouteRun) -> int | None:
    (span,) = data_records(run)[-1].ranges
    return span.end_epoch


def test_rows_of_a_transaction_that_ends_under_another_leader_are_followed_by_the_next(
    new_run: NewRun, writer: TopicWriter, lab: Lab
) -> None:
    run, topic = new_run()
    with writer.transaction(topic, _events(range(5))) as producer:
        _elect_anew(lab)
        producer.commit_transaction(_TIMEOUT_S)
    _catch_up(run)
    # Nobody led all the time who could be asked: the leader of the marker vouches for its end.
    assert _end_epoch(run) is not None
    writer.write(topic, _events(range(6, 9)))
    _catch_up(run)
    _elect_anew(lab)
    writer.commit(topic, _events(range(9, 12)))
    _catch_up(run)
    assert run.rows() == [*offsets(0, range(5)), *offsets(0, range(6, 12))]
    run.assert_verified()


def test_pieces_behind_an_election_are_read_in_parallel(
    new_run: NewRun,
    bootstrap_servers: str,
    writer: TopicWriter,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "LEAST_PIECE", 10)
    run, topic = new_run()
    writer.write(topic, _events(range(40)))
    pause = Pause(Step.WRITTEN)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        _elect_anew(lab)
        TopicWriter(bootstrap_servers).write(topic, _events(range(40, 440)))
        pause.goes_on.set()
        running.wait_for(lambda: len(run.rows()) == 440)
        running.stop()
    assert run.rows() == offsets(0, range(440))
    tasks = [{file.staged.split("-")[2] for file in each.files} for each in data_records(run)]
    assert max(map(len, tasks)) > 1
    run.assert_verified()


def test_log_that_was_cut_and_has_grown_again_halts_with_the_way_out(
    new_run: NewRun, writer: TopicWriter, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    for row in _events(range(10)):
        writer.write(topic, [row])
    _catch_up(run)
    lab.kill_server("kafka")
    cut_log(lab, topic, 6)
    lab.start_server("kafka")
    writer.write(topic, _events(range(100, 109)))
    with pytest.raises(OffsetsLostError, match=r"committed end is 10, .* ends at 6") as lost:
        _catch_up(run)
    assert lost.value.evidence["cut_at"] == "6"
    assert f"--partition {topic}:0 --to 6 --accept-doubles" in lost.value.commands[1]
    assert run.rows() == offsets(0, range(10))

    # The same offset under another leader is a move, and the log is read on from there.
    options = ["--partition", f"{topic}:0", "--to", "10", "--reason", "restored", "-o", "json"]
    reset = ["offsets", "reset", str(run.job.path), *options]
    capsys.readouterr()
    assert run_command(reset) == ResetRefusedError.exit_code
    (move,) = json.loads(capsys.readouterr().out)["moves"]
    assert (move["old_end"], move["new_end"], move["accepts"]) == (10, 10, "gap")
    assert run_command([*reset, "--accept-gap", "--execute"]) == 0
    assert isinstance(run.records()[-1].body, ResetRecord)
    _catch_up(run)
    assert run.rows() == offsets(0, range(15))
