"""`init` on records of which a few are broken, and on those that say no time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.formats.recognise import TopicContents

AT_MS = 1_795_161_600_000
Look = Callable[..., None]


@pytest.fixture
def topic_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Look:
    """Lets `init` find these objects in the topic."""
    monkeypatch.chdir(tmp_path)

    def of(*rows: Any) -> None:
        def look(brokers: str, topic: str, records: int) -> TopicContents:
            contents = TopicContents()
            for row in rows:
                contents.add(json.dumps(row).encode())
            return contents

        monkeypatch.setattr("sluiceway.cli.commands.init.read_topic", look)

    return of


def init(*options: str) -> int:
    lake = ["--iceberg", "sqlite:////srv/c.db", "--warehouse", "file:///srv"]
    return run_command(["init", "shop", "--bootstrap-servers", "h:1", *lake, "--yes", *options])


def events(good: int, bad: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"ts": AT_MS + n, "user.id": n} for n in range(good)]
    return rows + [{"ts": "yesterday", "user.id": 1}] * bad


@pytest.mark.parametrize("options", [[], ["--event-time", "ts"]])
def test_a_few_broken_records_do_not_take_the_time_away(
    options: list[str], topic_of: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_of(*events(993, 4))
    assert init(*options) == 0
    text = Path("shop.yaml").read_text()
    assert (
        "  - {name: ts, type: timestamp, unit: ms, required: true} # When a row happened." in text
    )
    assert "DOUBT: 4 of 997 values are dirty: 4 string" in text
    assert """  - {name: user_id, type: bigint, path: "['user.id']"}""" in text
    assert "{column: ts, transform: hour}" in text
    assert "record_time" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "row", [{"at": {"ms": AT_MS}}, {"ts": AT_MS}], ids=["inside of a struct", "of most records"]
)
def test_time_of_the_queue_is_not_chosen_beside_numbers_that_look_like_times(
    row: dict[str, Any], topic_of: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_of(*[row] * 16, {"ts": 5}, {"ts": 6}, {"ts": 7})
    assert init() == 2
    told = capsys.readouterr().err
    (name,) = row
    field = "at.ms" if name == "at" else "ts"
    assert f"{field} may be times" in told
    assert f"--event-time {field}, or --event-time '$record_time'" in told
    assert not Path("shop.yaml").exists()
    assert init("--event-time", field) == 0
    Path("shop.yaml").unlink()
    assert init("--event-time", "$record_time") == 0


def test_time_of_the_queue_is_said_on_the_terminal(
    topic_of: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_of({"id": 1})
    assert init() == 0
    assert "hours are by the queue's own time of a record ($record_time)" in capsys.readouterr().out


def test_wall_times_say_their_zone(topic_of: Look) -> None:
    topic_of({"at": "2026-11-20T08:00:00"})
    assert init() == 0
    assert (
        "{name: at, type: timestamp, timezone: UTC, required: true}"
        in Path("shop.yaml").read_text()
    )
