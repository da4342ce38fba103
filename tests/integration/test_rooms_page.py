"""The drill of two rooms as docs/guides/operations.md has it: its block and commands, in order."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluiceway.ledger.records import FenceRecord
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import NewRun, offsets
from tools.topic_writer import TopicWriter

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"


def section() -> str:
    """The page on two rooms of one cluster."""
    text = PAGE.read_text("utf-8")
    return text.split("\n## Two rooms\n")[1].split("\n### ")[0]


def commands() -> list[str]:
    """What the page runs, without its options of their own."""
    return re.findall(r"`(sluiceway [^`]+)`", section())


def command_with(*parts: str) -> str:
    """The one command of the page that has all of these."""
    (found,) = [each for each in commands() if all(part in each for part in parts)]
    return found


def block(bootstrap_servers: str) -> str:
    """The page's `rooms`, with this broker's address."""
    text = section().split("```yaml\n")[1].split("```")[0]
    assert text.startswith("rooms:\n")
    text = text.replace("after: 10s", "after: 3s")
    return re.sub(r'"k[ab]:9092"', f'"{bootstrap_servers}"', text)


class Operator:
    """Runs commands of the page for a job, in a room."""

    def __init__(self, job: str) -> None:
        self._job = job

    def run(self, command: str, room: str, code: int = 0) -> str:
        words = shlex.split(command.replace("JOB", self._job))[1:]
        done = subprocess.run(
            [sys.executable, "-m", "sluiceway", *words],
            env={**os.environ, "SLUICEWAY_ROOM": room},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def drivers() -> Iterator[ExitStack]:
    """Ends them after the test."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.slow
def test_the_drill_of_the_page_goes_as_written(
    new_run: NewRun,
    writer: TopicWriter,
    drivers: ExitStack,
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    run, topic = new_run()
    path = run.job.path
    path.write_text(path.read_text() + block(bootstrap_servers))
    operator = Operator(str(path))

    def start(room: str) -> DriverProcess:
        driver = DriverProcess(run.job, tmp_path, "--room", room, module="tools.inline_driver")
        return drivers.enter_context(driver)

    def holders() -> list[str]:
        return [each.body.site for each in run.records() if isinstance(each.body, FenceRecord)]

    operator.run(command_with("validate", "--room all"), "b")
    writer.write(topic, [event(n) for n in range(10)])
    a, b = start("a"), start("b")
    a.wait_for_event("committed")
    b.wait_for_event("room_ready")
    drill = command_with("drill", "--to b", "--back")
    assert "the switch could be made" in operator.run(f"{drill} --dry-run", "b")
    assert holders() == ["a"]
    assert operator.run(drill, "b").count("switched in") == 2
    assert holders() == ["a", "b", "a"]

    switch = command_with("switch JOB --to b")
    assert "nothing was changed" in operator.run(switch, "b")
    operator.run(f"{switch} --execute", "b")
    assert holders()[-1] == "b"
    operator.run(f"{switch.replace('--to b', '--to a')} --execute", "a")
    assert holders()[-1] == "a"

    writer.write(topic, [event(n) for n in range(10, 20)])
    a.kill_group()
    b.wait_for_event("route_waits")
    lost = command_with("switch JOB --room b", "--now")
    latest = run.log().fold().term
    refused = operator.run(lost.replace("--term 7", f"--term {latest - 1}"), "b", code=7)
    assert f"the latest is {latest}" in refused
    operator.run(lost.replace("--term 7", f"--term {latest}"), "b")
    assert holders()[-1] == "b"
    b.wait_for_event("committed")
    operator.run(command_with("status JOB"), "b")
    b.send(signal.SIGTERM)
    assert b.wait().exit_code == 0
    assert run.rows() == offsets(0, range(20))
    run.assert_verified()
