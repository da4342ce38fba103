"""The page's answers on a real job: the documents of the commands, word for word."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.views.page_answers import JobFileAnswers
from sluiceway.console.contract import DirtyChoice
from sluiceway.errors import WrongUsageError
from sluiceway.observe.log import stderr_log
from tools.job_files import event
from tools.route_faults import NewRun
from tools.topic_writer import TopicWriter

NOON_MS = 1_795_176_000_000


def test_answers_are_those_of_the_commands(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(1, event_time="{field: ts, unit: ms, archive_window: 24h}")
    writer.write(topic, [event(n, ts_ms=NOON_MS) for n in range(50)])
    writer.write(topic, [b'{"id":1.5,"ts":1}', b"{"])
    run.catch_up()
    path = run.job.path
    answers = JobFileAnswers(path, stderr_log(level="warning"), values=False)

    def told(*command: str) -> Any:
        capsys.readouterr()
        assert run_command([*command, "-o", "json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return lines[0] if len(lines) == 1 else lines

    assert _timeless(answers.status()) == _timeless(told("status", str(path)))
    assert answers.partitions() == told("partitions", "list", str(path))
    listed = json.loads(json.dumps(answers.dirty()))
    commands = [group.pop("replay") for group in listed["routes"][0]["groups"]]
    assert listed == told("dirty", "list", str(path))
    assert all(command.endswith("--dry-run") for command in commands)
    assert all(str(Path(path).absolute()) in command for command in commands)

    route = listed["routes"][0]["route"]
    rows = answers.dirty_rows(route, DirtyChoice(limit=1))
    assert rows["more"] is True
    assert rows["rows"] == [told("dirty", "show", str(path))[0]]
    assert "value" not in rows["rows"][0]
    ledger = answers.ledger(route, None, 1000)
    stored = told("ledger", "show", str(path))
    assert [json.loads(each["raw"]) for each in ledger["records"]] == stored
    assert ledger["next_seq"] == len(stored)
    assert [each["seq"] for each in answers.ledger(route, 1, 1)["records"]] == [1]
    with pytest.raises(WrongUsageError, match="no route"):
        answers.ledger("other", None, 1)


def test_status_tells_the_last_epochs_of_a_driver(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run(1)
    writer.write(topic, [event(n, ts_ms=NOON_MS) for n in range(30)])
    run.catch_up()
    (raw,) = run.root().glob("_sluiceway/*/status.json")
    (told, *_) = json.loads(raw.read_bytes())["epochs"]
    assert (told["rows_read"], told["rows_written"], told["files"]) == (30, 30, 1)
    assert set(told["phases"]) == {"run", "prepare", "commit", "publish"}


def _timeless(document: Any) -> Any:
    """Without when it was seen."""
    plain = json.loads(json.dumps(document))
    for route in plain["routes"]:
        route.pop("as_of_ms")
    return plain
