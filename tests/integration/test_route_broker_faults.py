"""A broker that is away at the start or in mid-run: a clear line, a wait, nothing lost."""

import time

import pytest

from sluiceway.lab.lab import Lab
from sluiceway.observe.steps import Step
from tools.job_files import event
from tools.route_faults import NewRun, Pause, live, offsets
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def test_broker_that_is_down_at_the_start_is_waited_for(
    new_run: NewRun,
    bootstrap_servers: str,
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.3)
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 2.0)
    run, topic = new_run()
    TopicWriter(bootstrap_servers).write(topic, _events(range(5)))
    published = Pause(Step.PUBLISHED)
    published.goes_on.set()
    lab.stop_server("kafka")
    try:
        with live(run, published) as running:
            wait = running.first_wait(capsys)
            lab.start_server("kafka")
            assert published.reached.wait(_TIMEOUT_S)
            running.stop()
    finally:
        lab.start_server("kafka")
    assert wait["code"] == "SW101"
    assert "onnect" in str(wait["error"])
    assert run.rows() == offsets(0, range(5))
    run.assert_verified()


@pytest.mark.parametrize("killed", [True, False])
def test_broker_that_goes_away_in_mid_run_and_comes_back_loses_nothing(
    new_run: NewRun,
    bootstrap_servers: str,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    *,
    killed: bool,
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.3)
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 2.0)
    run, topic = new_run(2)
    writer = TopicWriter(bootstrap_servers)
    writer.write(topic, _events(range(5)), partition=0)
    run.catch_up()
    writer.write(topic, _events(range(300)), partition=1)
    # The rows are read, and nobody can say whether the topic is still the same one.
    pause = Pause(Step.WRITTEN)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        (lab.kill_server if killed else lab.stop_server)("kafka")
        try:
            pause.goes_on.set()
            time.sleep(3)
            assert not running.ended()
            assert run.rows() == offsets(0, range(5))
        finally:
            lab.start_server("kafka")
        TopicWriter(bootstrap_servers).write(topic, _events(range(5, 9)), partition=0)
        running.wait_for(lambda: len(run.rows()) == 309)
        running.stop()
    assert run.rows() == [*offsets(0, range(9)), *offsets(1, range(300))]
    run.assert_verified()


def test_stop_is_heard_while_the_broker_is_down(
    new_run: NewRun, bootstrap_servers: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 2.0)
    run, topic = new_run()
    TopicWriter(bootstrap_servers).write(topic, _events(range(5)))
    lab.stop_server("kafka")
    try:
        with live(run) as running:
            time.sleep(1)
            running.stop()
    finally:
        lab.start_server("kafka")
    run.catch_up()
    assert run.rows() == offsets(0, range(5))
    run.assert_verified()
