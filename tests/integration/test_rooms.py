"""Two rooms on real servers: drivers as processes that are switched, killed and stopped."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sluiceway.ledger.records import FenceRecord
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import NewRun, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

Start = Callable[..., DriverProcess]

ROOMS = """\
rooms:
  home: a
  switch: {switch}
  after: 3s
  a: {{connections: {{}}}}
  b: {{connections: {{}}}}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a room's driver; all are gone after the test."""
    with ExitStack() as drivers:

        def make(run: RouteRun, room: str, *options: str) -> DriverProcess:
            driver = DriverProcess(
                run.job, tmp_path, "--room", room, *options, module="tools.inline_driver"
            )
            return drivers.enter_context(driver)

        yield make


def _in_rooms(run: RouteRun, switch: str = "ask") -> RouteRun:
    path = run.job.path
    path.write_text(path.read_text() + ROOMS.format(switch=switch))
    return run


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _sites(run: RouteRun) -> list[str]:
    return [each.body.site for each in run.records() if isinstance(each.body, FenceRecord)]


def _sluiceway(*args: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sluiceway", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _answer(*args: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_sluiceway(*args, "-o", "json").stdout)
    return answer


@pytest.mark.slow
def test_a_drill_moves_a_running_job_to_the_other_room_and_back(
    new_run: NewRun, writer: TopicWriter, start: Start
) -> None:
    run, topic = new_run()
    job = str(_in_rooms(run).job.path)
    writer.write(topic, _events(range(10)))
    home, standby = start(run, "a"), start(run, "b")
    home.wait_for_event("committed")
    standby.wait_for_event("room_ready")
    planned = _answer("switch", job, "--to", "b", "--room", "b")
    (route,) = planned["routes"]
    assert (route["holder"], route["holder_answers"], route["standby_ready"]) == ("a", True, True)
    assert [each["position"] for each in route["positions"]] == [10]
    assert _sites(run) == ["a"]
    done = _sluiceway("drill", job, "--to", "b", "--back", "--room", "a", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    (answer,) = json.loads(done.stdout)["routes"]
    assert [(each["came_from"], each["to"], each["ok"]) for each in answer["drills"]] == [
        ("a", "b", True),
        ("b", "a", True),
    ]
    assert _sites(run) == ["a", "b", "a"]
    writer.write(topic, _events(range(10, 20)))
    home.wait_for_event("committed", 2)
    for driver in (home, standby):
        driver.send(signal.SIGTERM)
        assert driver.wait().exit_code == 0
    assert run.rows() == offsets(0, range(20))
    run.assert_verified()
