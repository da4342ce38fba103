"""`run --takeover`: drivers as processes that are stopped, replaced and woken up."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluiceway.ledger.records import RecordType
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import NewRun, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

Start = Callable[..., DriverProcess]


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts drivers; all are gone after the test."""
    with ExitStack() as drivers:

        def make(run: RouteRun, *options: str) -> DriverProcess:
            driver = DriverProcess(run.job, tmp_path, *options, module="tools.inline_driver")
            return drivers.enter_context(driver)

        yield make


def _fences(run: RouteRun) -> list[int]:
    return [record.term for record in run.records() if record.type is RecordType.FENCE]


def test_stopped_driver_is_replaced_at_once_and_ends_when_it_wakes_up(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    zombie = start(run)
    zombie.wait_for_event("committed")
    zombie.send(signal.SIGSTOP)
    writer.write(topic, _events(range(10, 20)))
    ended = start(run, "--until-caught-up", "--takeover", "1").wait()
    assert ended.exit_code == 0, ended.stderr
    before = run.records()
    assert _fences(run) == [1, 2]
    writer.write(topic, _events(range(20, 25)))
    zombie.send(signal.SIGCONT)
    ended = zombie.wait()
    assert ended.exit_code == 7, ended.stderr
    assert "SW451" in ended.stderr
    assert run.records() == before
    run.catch_up()
    assert run.rows() == offsets(0, range(25))
    run.assert_verified()


def test_driver_of_an_idle_topic_that_was_replaced_ends_without_a_row_to_commit(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    first = start(run)
    first.wait_for_event("committed")
    ended = start(run, "--until-caught-up", "--takeover", "1").wait()
    assert ended.exit_code == 0, ended.stderr
    ended = first.wait()
    assert (ended.exit_code, "SW451" in ended.stderr) == (7, True), ended.stderr
    assert _fences(run) == [1, 2]
    run.assert_verified()


@pytest.mark.slow
def test_living_driver_is_replaced_only_by_its_term(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    first = start(run)
    first.wait_for_event("committed")
    ended = start(run, "--until-caught-up").wait()
    assert (ended.exit_code, "SW452" in ended.stderr) == (7, True)
    ended = start(run, "--until-caught-up", "--takeover", "2").wait()
    assert ended.exit_code == 7
    assert "term 2 was to be replaced, the latest is 1" in ended.stderr
    assert f"pid {first.pid}" in ended.stderr
    assert _fences(run) == [1]
    assert first.lives()
    route = run.job.spec.name
    ended = start(run, "--until-caught-up", "--takeover", f"{route}=1").wait()
    assert ended.exit_code == 0, ended.stderr
    writer.write(topic, _events(range(10, 15)))
    ended = first.wait()
    assert (ended.exit_code, "SW451" in ended.stderr) == (7, True)
    assert _fences(run) == [1, 2]
    run.catch_up()
    assert run.rows() == offsets(0, range(15))
    run.assert_verified()


def test_takeover_of_a_route_that_is_not_there_is_refused(new_run: NewRun, start: Start) -> None:
    run, _ = new_run()
    ended = start(run, "--takeover", "nobody=1").wait()
    assert ended.exit_code == 2
    assert "no route `nobody`" in ended.stderr


def test_standby_waits_takes_over_and_the_zombie_adds_nothing(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    first = start(run)
    first.wait_for_event("committed")
    standby = start(run, "--standby")
    standby.wait_for_event("route_waits")
    first.send(signal.SIGSTOP)
    writer.write(topic, _events(range(10, 20)))
    standby.wait_for_event("committed")
    assert _fences(run) == [1, 2]
    assert len(standby.events("route_waits")) == 1
    first.send(signal.SIGCONT)
    ended = first.wait()
    assert (ended.exit_code, "SW451" in ended.stderr) == (7, True), ended.stderr
    writer.write(topic, _events(range(20, 25)))
    standby.wait_for_event("committed", 2)
    standby.send(signal.SIGTERM)
    assert standby.wait().exit_code == 0
    assert run.rows() == offsets(0, range(25))
    run.assert_verified()


@pytest.mark.slow
def test_standby_that_is_told_to_end_ends_while_it_waits(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    first = start(run)
    first.wait_for_event("committed")
    standby = start(run, "--standby")
    standby.wait_for_event("route_waits")
    standby.send(signal.SIGTERM)
    assert standby.wait().exit_code == 0
    assert (_fences(run), first.lives()) == ([1], True)
