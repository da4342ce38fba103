"""Files are rewritten in a process of its own, whose end in any way is an error like others."""

import errno
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluiceway.errors import FileLostError, SluicewayError, TaskFailedError
from sluiceway.host.machine import PPID, PROC, read_stat
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.upkeep.rewriting import Rewritten, WorkRewriter
from sluiceway.work import process as work_process
from sluiceway.work.process import MOST_AT_ONCE, WorkProcess
from sluiceway.worker.plan import PLAIN_FILES
from tools.small_files import PARQUET, SmallFiles, row

PATIENCE_S = 240.0
LOW_ENDING = b"sluiceway.work.process_main\0--low\0"
"""Processes that wait for requests of lake tables have no such option."""


@pytest.fixture
def table(tmp_path: Path) -> SmallFiles:
    made = SmallFiles(tmp_path, PARQUET)
    for start in range(0, 30, 10):
        made.add([row(number) for number in range(start, start + 10)])
    return made


def rewriter(table: SmallFiles) -> WorkRewriter:
    return WorkRewriter(table.layout, table.choice, PLAIN_FILES)


def rewritten(
    mine: WorkRewriter, table: SmallFiles, until: float | None = None
) -> Rewritten | SluicewayError:
    """What becomes of the table's one partition."""
    (made,) = mine.rewrite([(table.folder(), table.files)], until=until)
    return made


def children() -> list[int]:
    """Rewriting processes of this one."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    found = []
    for number in numbers:
        stat = read_stat(number)
        if stat is not None and stat[1][PPID] == str(os.getpid()) and stat[1][0] != "Z":
            line = (PROC / str(number) / "cmdline").read_bytes()
            found += [number] if line.endswith(LOW_ENDING) else []
    return found


@pytest.fixture
def halting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Rewriting processes stand still at their first file for longer than any test waits."""
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec("rewrite.file", Action.DELAY, str(points), delay_s=10 * PATIENCE_S)
    monkeypatch.setenv(VARIABLE, spec.text())
    yield
    assert (points / "hit").exists()


def wait_for_child() -> int:
    end = time.monotonic() + PATIENCE_S
    while not (found := children()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found[0]


def test_process_merges_the_files_and_tells_its_cpu(table: SmallFiles) -> None:
    made = rewritten(rewriter(table), table)
    assert isinstance(made, Rewritten)
    (file,) = made.files
    assert pq.read_table(table.staged(file))["id"].to_pylist() == list(range(30))
    assert made.cpu_s > 0
    assert made.wall_s > 0
    assert children() == []


def test_failure_of_the_process_comes_back_as_it_was_raised(table: SmallFiles) -> None:
    table.old()[1].unlink()
    failure = rewritten(rewriter(table), table)
    assert isinstance(failure, FileLostError)
    assert failure.message.startswith("it is gone")
    assert failure.where == str(table.old()[1])


@pytest.mark.usefixtures("halting")
def test_killed_process_is_a_failure_that_says_so(table: SmallFiles, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(rewritten, rewriter(table), table)
        wait_for_child()
        wait_until_hit(tmp_path / "points")
        os.kill(wait_for_child(), signal.SIGKILL)
        failure = work.result(PATIENCE_S)
    assert isinstance(failure, TaskFailedError)
    assert "ended by signal 9" in failure.message
    assert children() == []


@pytest.mark.usefixtures("halting")
def test_work_is_given_up_when_its_time_is_over_or_its_route_is_left(
    table: SmallFiles, tmp_path: Path
) -> None:
    mine = rewriter(table)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(rewritten, mine, table)
        wait_for_child()
        wait_until_hit(tmp_path / "points")
        mine.cancel()
        assert "its route is left" in str(work.result(PATIENCE_S))
    assert "its time is over" in str(rewritten(rewriter(table), table, time.monotonic()))
    assert children() == []


def test_process_that_cannot_begin_fails_each_partition_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [filled(tmp_path / str(number), number) for number in range(3)]
    begin, tries = WorkProcess.__init__, iter([errno.EMFILE, None])

    def begin_late(process: Any, *options: str) -> None:
        if (code := next(tries)) is not None:
            raise OSError(code, os.strerror(code))
        begin(process, *options)

    monkeypatch.setattr(WorkProcess, "__init__", begin_late)
    first, *others = group(tables)
    assert isinstance(first, TaskFailedError)
    assert "cannot begin: [Errno 24]" in first.message
    assert [type(each) for each in others] == [Rewritten, Rewritten]
    assert children() == []


def test_driver_with_more_than_a_thousand_open_files_has_files_rewritten(
    table: SmallFiles,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1_024 + 400
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this machine allows {hard} open files")
    with ExitStack() as open_files:
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            open_files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        last = -1
        while last < 1_024:
            last = os.open(os.devnull, os.O_RDONLY)
            open_files.callback(os.close, last)
        made = rewritten(rewriter(table), table)
    assert isinstance(made, Rewritten)
    assert children() == []


def test_partitions_of_a_group_are_rewritten_by_one_process_and_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [filled(tmp_path / str(number), number) for number in range(4)]
    tables[1].old()[0].unlink()
    begun = note_processes(monkeypatch)
    made = group(tables)
    assert len(begun) == 1
    assert isinstance(made[1], FileLostError)
    for number in (0, 2, 3):
        found = made[number]
        assert isinstance(found, Rewritten)
        (file,) = found.files
        rows = pq.read_table(tables[number].staged(file))["id"].to_pylist()
        assert rows == list(range(100 * number, 100 * number + 20))
        # Each tells its own: the process begins for the first.
        assert found.cpu_s > 0
    first, last = made[0], made[3]
    assert isinstance(first, Rewritten)
    assert isinstance(last, Rewritten)
    assert last.cpu_s < first.cpu_s
    assert children() == []


def test_process_that_dies_costs_the_partition_that_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [filled(tmp_path / str(number), number) for number in range(3)]
    points = tmp_path / "points"
    points.mkdir()
    # Two files a partition: the third one is the first of the second partition.
    spec = FailpointSpec("rewrite.file", Action.DELAY, str(points), hit=3, delay_s=10 * PATIENCE_S)
    monkeypatch.setenv(VARIABLE, spec.text())
    begun = note_processes(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(group, tables)
        wait_for_child()
        wait_until_hit(points)
        os.kill(wait_for_child(), signal.SIGKILL)
        made = work.result(PATIENCE_S)
    assert [isinstance(each, Rewritten) for each in made] == [True, False, True]
    assert "ended by signal 9" in str(made[1])
    assert len(begun) == 2
    assert children() == []


def filled(root: Path, number: int) -> SmallFiles:
    made = SmallFiles(root, PARQUET)
    for start in range(100 * number, 100 * number + 20, 10):
        made.add([row(n) for n in range(start, start + 10)])
    return made


def group(tables: list[SmallFiles]) -> list[Rewritten | SluicewayError]:
    """All of them as partitions of one route."""
    root = tables[0].layout
    files = [
        [
            replace(file, final=os.path.relpath(table.layout.final(file.final), root.final("")))
            for file in table.files
        ]
        for table in tables
    ]
    staged = [(table.folder(), live) for table, live in zip(tables, files, strict=True)]
    return WorkRewriter(root, PARQUET, PLAIN_FILES).rewrite(staged, until=None)


def note_processes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    begun: list[object] = []
    begin = subprocess.Popen

    def note(*words: Any, **named: Any) -> Any:
        begun.append(words)
        return begin(*words, **named)

    monkeypatch.setattr(subprocess, "Popen", note)
    return begun


def test_so_many_are_rewritten_at_once_and_others_wait(
    table: SmallFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_process, "_turns", threading.BoundedSemaphore(MOST_AT_ONCE))
    for _ in range(MOST_AT_ONCE):
        work_process._turns.acquire()
    assert "its time is over" in str(rewritten(rewriter(table), table, time.monotonic() + 0.1))
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(rewritten, rewriter(table), table)
        time.sleep(0.05)
        assert not work.done()
        work_process._turns.release()
        made = work.result(PATIENCE_S)
    assert isinstance(made, Rewritten)
    assert len(made.files) == 1
    # It is given back, however a group has ended.
    assert work_process._turns.acquire(blocking=False)


def wait_until_hit(points: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not (points / "hit").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
