"""Files are rewritten in a process of its own, whose end in any way is an error like others."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.errors import FileLostError, TaskFailedError
from sluiceway.host.proc_stat import PPID, PROC, read_stat
from sluiceway.job import rewriting
from sluiceway.job.rewriting import MOST_AT_ONCE, ProcessRewriter
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.worker.plan import PLAIN_FILES
from tools.small_files import PARQUET, SmallFiles, row

PATIENCE_S = 240.0


@pytest.fixture
def table(tmp_path: Path) -> SmallFiles:
    made = SmallFiles(tmp_path, PARQUET)
    for start in range(0, 30, 10):
        made.add([row(number) for number in range(start, start + 10)])
    return made


def rewriter(table: SmallFiles) -> ProcessRewriter:
    return ProcessRewriter(table.layout, table.choice, PLAIN_FILES)


def children() -> list[int]:
    """Rewriting processes of this one."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    found = []
    for number in numbers:
        stat = read_stat(number)
        if stat is not None and stat[1][PPID] == str(os.getpid()) and stat[1][0] != "Z":
            line = (PROC / str(number) / "cmdline").read_bytes()
            found += [number] if b"rewrite_process" in line else []
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
    made = rewriter(table).rewrite(table.folder(), table.files, until=None)
    (file,) = made.files
    assert pq.read_table(table.staged(file))["id"].to_pylist() == list(range(30))
    assert made.cpu_s > 0
    assert children() == []


def test_failure_of_the_process_comes_back_as_it_was_raised(table: SmallFiles) -> None:
    table.old()[1].unlink()
    with pytest.raises(FileLostError, match="it is gone") as raised:
        rewriter(table).rewrite(table.folder(), table.files, until=None)
    assert raised.value.where == str(table.old()[1])


@pytest.mark.usefixtures("halting")
def test_killed_process_is_a_failure_that_says_so(table: SmallFiles) -> None:
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(rewriter(table).rewrite, table.folder(), table.files, until=None)
        wait_for_child()
        wait_until_hit(table)
        os.kill(wait_for_child(), signal.SIGKILL)
        with pytest.raises(TaskFailedError, match="ended by signal 9"):
            work.result(PATIENCE_S)
    assert children() == []


@pytest.mark.usefixtures("halting")
def test_work_is_given_up_when_its_time_is_over_or_its_route_is_left(table: SmallFiles) -> None:
    mine = rewriter(table)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(mine.rewrite, table.folder(), table.files, until=None)
        wait_for_child()
        wait_until_hit(table)
        mine.cancel()
        with pytest.raises(TaskFailedError, match="its route is left"):
            work.result(PATIENCE_S)
    with pytest.raises(TaskFailedError, match="its time is over"):
        rewriter(table).rewrite(table.folder(), table.files, until=time.monotonic())
    assert children() == []


def test_so_many_are_rewritten_at_once_and_others_wait(
    table: SmallFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_turns", threading.BoundedSemaphore(MOST_AT_ONCE))
    for _ in range(MOST_AT_ONCE):
        rewriting._turns.acquire()
    with pytest.raises(TaskFailedError, match="its time is over"):
        rewriter(table).rewrite(table.folder(), table.files, until=time.monotonic() + 0.1)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(rewriter(table).rewrite, table.folder(), table.files, until=None)
        time.sleep(0.05)
        assert not work.done()
        rewriting._turns.release()
        assert len(work.result(PATIENCE_S).files) == 1


def wait_until_hit(table: SmallFiles) -> None:
    end = time.monotonic() + PATIENCE_S
    while not (table.stage.parents[2] / "points/hit").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
