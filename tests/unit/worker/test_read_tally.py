import json
from dataclasses import replace
from pathlib import Path

from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.worker import task_memory
from sluiceway.worker.plan import TaskPlan
from sluiceway.worker.task_memory import ReadTally
from tools.small_task import route_plan


def plan(folder: Path, tally: str) -> TaskPlan:
    split = Split(SourcePartition("orders", 0), 0, None)
    return replace(TaskPlan(route_plan(str(folder)), 1, 0, (split,), 600.0), tally=tally)


def test_what_was_read_is_told_now_and_then(tmp_path: Path) -> None:
    path = str(tmp_path / "1-0")
    tally = ReadTally([plan(tmp_path, path)])
    assert task_memory.read_tally(path) == {}
    tally.write({"orders": 5})
    tally.write({"orders": 6})
    assert task_memory.read_tally(path) == {"orders": 5}
    tally._due = 0.0
    tally.write({"orders": 7})
    assert task_memory.read_tally(path) == {"orders": 7}
    assert [each.name for each in tmp_path.iterdir()] == ["1-0"]


def test_nothing_is_written_where_nobody_watches(tmp_path: Path) -> None:
    ReadTally([plan(tmp_path, "")]).write({"orders": 5})
    elsewhere = tmp_path / "other-machine"
    ReadTally([plan(tmp_path, str(elsewhere / "1-0"))]).write({"orders": 5})
    assert list(tmp_path.iterdir()) == []


def test_watcher_that_goes_away_harms_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "told"
    folder.mkdir()
    tally = ReadTally([plan(tmp_path, str(folder / "1-0"))])
    folder.rmdir()
    tally.write({"orders": 5})
    tally._due = 0.0
    tally.write({"orders": 5})
    assert not folder.exists()


def test_what_is_unreadable_tells_nothing(tmp_path: Path) -> None:
    for text in ("", "{", "[1]", json.dumps({"a": "x"})):
        (tmp_path / "1-0").write_text(text)
        assert task_memory.read_tally(str(tmp_path / "1-0")) == {}
