import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.worker import task_figures, task_memory
from sluiceway.worker.plan import TaskPlan
from sluiceway.worker.task_figures import FigureTally, TimeSteps, seconds_before
from sluiceway.worker.task_memory import ReadTally
from tools.small_task import BY_TS, MadeBatch, made_batch, route_plan, run_task

NOW_MS = 1_795_176_000_000


def batch(values: list[bytes | None], times_ms: Sequence[int | None], split: int = 0) -> MadeBatch:
    return MadeBatch(split, values, list(range(len(values))), list(times_ms))


def rows_of(steps: tuple[int, ...]) -> int:
    return sum(steps[1::2])


def test_bytes_are_those_of_the_payloads_by_topic() -> None:
    tally = FigureTally([SourcePartition("a", 0), SourcePartition("b", 0), SourcePartition("a", 1)])
    tally.count([batch([b"12", None, b""], [None] * 3), batch([b"1"], [None], 1)])
    tally.count([batch([b"123"], [None], 2), batch([], [], 1)])
    found = tally.finished(open_files=3)
    assert found.bytes_read == {"a": 5, "b": 1}
    assert (found.open_files, found.appended) == (3, ())
    assert found.memory_bytes > 1 << 20


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 1000, 10_000])
def test_every_row_counts_though_few_are_looked_at(rows: int) -> None:
    tally = FigureTally([SourcePartition("a", 0)])
    tally.count([batch([b"x"] * rows, [NOW_MS + n for n in range(rows)])])
    tally.happened(pa.array([(NOW_MS + n) * 1000 for n in range(rows)], pa.int64()))
    found = tally.finished(0)
    assert rows_of(found.appended) == rows_of(found.happened) == rows


def test_rows_without_a_time_are_left_out() -> None:
    tally = FigureTally([SourcePartition("a", 0)])
    tally.count([batch([b"x"] * 4, [NOW_MS, None, None, NOW_MS])])
    assert rows_of(tally.finished(0).appended) == 2


def test_times_are_known_to_a_few_per_cent_of_their_age() -> None:
    chosen = random.Random(7)  # noqa: S311 - the same each time
    for age_ms in (100, 5_000, 30_000, 300_000, 2_000_000, 40_000_000, 1_000_000_000):
        steps, real = TimeSteps(), []
        for _ in range(50):
            time = NOW_MS - chosen.randrange(age_ms // 2, age_ms)
            real.append(time)
            steps.count(np.array([time, NOW_MS]), np.array([1, 1]))
        seconds, rows = seconds_before(steps.counts(), NOW_MS)
        told = float(seconds @ rows) / 50
        wanted = sum(NOW_MS - time for time in real) / 1000 / 50
        assert told == pytest.approx(wanted, rel=0.15, abs=0.03)


def test_number_of_steps_is_bounded_and_no_row_is_lost() -> None:
    steps = TimeSteps()
    spread = np.arange(0, 10**13, 10**9, dtype=np.int64)
    steps.count(spread, np.ones(len(spread), dtype=np.int64))
    counts = steps.counts()
    assert len(counts) <= 2 * task_figures._MOST_STEPS
    assert rows_of(counts) == len(spread)
    assert list(counts[::2]) == sorted(set(counts[::2]))


def test_times_ahead_of_the_commit_are_no_negative_delay() -> None:
    seconds, rows = seconds_before((NOW_MS + 5000, 2, NOW_MS - 1000, 1), NOW_MS)
    assert (seconds.tolist(), rows.tolist()) == ([0.0, 1.0], [2, 1])


def test_task_tells_figures_of_what_it_wrote() -> None:
    rows: list[dict[str, object]] = [{"id": n, "ts": NOW_MS * 1000, "app": "x"} for n in range(5)]
    made = made_batch(0, [*rows, {"id": "no", "ts": 1, "app": "x"}], [NOW_MS] * 6)
    outcome = run_task([[made]], event_time=BY_TS)
    found = outcome.written.figures
    assert rows_of(found.appended) == 6
    assert rows_of(found.happened) == 5
    assert sum(found.bytes_read.values()) == sum(len(value or b"") for value in made.values)
    assert found.open_files == 1


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
