"""A process that merges files takes one plan after the other, and may be gone at any time."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import FileLostError, TaskFailedError
from sluiceway.sinks.iceberg.compact.merge_files import MergeGroup, MergePlan, MergeSource
from sluiceway.storage.access import NO_STORES
from sluiceway.work.frames import framed, read_frame, until, write_frame
from sluiceway.work.process import _MOST_IDLE, WarmProcesses
from sluiceway.work.request import WorkRequest


@pytest.fixture
def warm() -> Iterator[WarmProcesses]:
    processes = WarmProcesses()
    yield processes
    processes.close()


def plan_of(folder: Path, *, checksum: str | None = None) -> WorkRequest:
    """Two files of two rows that become one."""
    sources = []
    for number in range(2):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"n": [number, number + 10]}), path)
        found = f"{google_crc32c.value(path.read_bytes()):08x}"
        sources.append(MergeSource(str(path), 2, checksum or found))
    group = MergeGroup(f"{folder}/new-{time.monotonic_ns()}.parquet", tuple(sources))
    plan = MergePlan(f"file://{folder}", NO_STORES, "zstd", (group,))
    return WorkRequest("sluiceway.sinks.iceberg.compact.merge_files:merge_in_table", plan)


def waiting_pid(warm: WarmProcesses) -> int:
    (process,) = warm._idle
    pid: int = process._process.pid
    return pid


def test_the_next_plan_goes_to_the_process_that_waits(warm: WarmProcesses, tmp_path: Path) -> None:
    (first,) = warm.ask(plan_of(tmp_path), 30.0)
    pid = waiting_pid(warm)
    (second,) = warm.ask(plan_of(tmp_path), 30.0)
    assert (first.rows, second.rows, first.target == second.target) == (4, 4, False)
    assert waiting_pid(warm) == pid


def test_an_error_is_an_answer_and_the_process_waits_on(
    warm: WarmProcesses, tmp_path: Path
) -> None:
    with pytest.raises(FileLostError):
        warm.ask(plan_of(tmp_path, checksum="00000000"), 30.0)
    pid = waiting_pid(warm)
    assert warm.ask(plan_of(tmp_path), 30.0)[0].rows == 4
    assert waiting_pid(warm) == pid


def test_one_that_was_killed_while_it_waited_fails_and_the_next_plan_has_a_new_one(
    warm: WarmProcesses, tmp_path: Path
) -> None:
    warm.ask(plan_of(tmp_path), 30.0)
    os.kill(waiting_pid(warm), signal.SIGKILL)
    with pytest.raises(TaskFailedError, match="ended with -9"):
        warm.ask(plan_of(tmp_path), 30.0)
    assert warm.ask(plan_of(tmp_path), 30.0)[0].rows == 4


def test_one_that_has_ended_for_want_of_plans_is_not_missed(
    warm: WarmProcesses, tmp_path: Path
) -> None:
    warm.ask(plan_of(tmp_path), 30.0)
    pid = waiting_pid(warm)
    # As its own time-out ends it: no plan was taken, and its code is 0.
    process = warm._idle[0]._process
    process.stdin.close()
    process.stdin = (tmp_path / "unread").open("wb", buffering=0)
    assert process.wait(30.0) == 0
    assert warm.ask(plan_of(tmp_path), 30.0)[0].rows == 4
    assert waiting_pid(warm) != pid


def test_one_that_does_not_answer_is_ended(warm: WarmProcesses, tmp_path: Path) -> None:
    warm.ask(plan_of(tmp_path), 30.0)
    pid = waiting_pid(warm)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(TaskFailedError, match=r"not be merged in 0\.2 s"):
        warm.ask(plan_of(tmp_path), 0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_large_plan_takes_its_memory_along(warm: WarmProcesses, tmp_path: Path) -> None:
    warm.ask(plan_of(tmp_path), 30.0, keep=False)
    assert not warm._idle


def test_few_wait_however_many_are_asked_at_once(warm: WarmProcesses, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(_MOST_IDLE + 1)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(len(folders)) as pool:
        found = list(pool.map(lambda folder: warm.ask(plan_of(folder), 60.0), folders))
    assert [one.rows for (one,) in found] == [4] * len(folders)
    assert 1 <= len(warm._idle) <= _MOST_IDLE


def test_a_frame_comes_whole_or_not_at_all() -> None:
    source, target = os.pipe()
    frame = framed(list(range(1_000)))
    write_frame(target, frame, until(time.monotonic() + 5.0))
    write_frame(target, frame[:-1], until(time.monotonic() + 5.0))
    assert read_frame(source) == list(range(1_000))
    with pytest.raises(TimeoutError):
        read_frame(source, until(time.monotonic() + 0.05))
    os.close(target)
    assert read_frame(source) is None
    os.close(source)


def test_a_frame_that_breaks_off_is_told_and_one_that_nobody_takes_too() -> None:
    source, target = os.pipe()
    write_frame(target, framed("x" * 100)[:-1], until(time.monotonic() + 5.0))
    os.close(target)
    with pytest.raises(EOFError):
        read_frame(source)
    os.close(source)
    source, target = os.pipe()
    with pytest.raises(TimeoutError):
        write_frame(target, b"x" * (1 << 20), until(time.monotonic() + 0.05))
    os.close(source)
    os.close(target)
