"""Where partitions are rewritten is decided for each group; each has a failure of its own."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.driver.spark.spark_work import dealt, longest_s
from sluiceway.errors import FileLostError, TaskFailedError
from sluiceway.upkeep.rewriting import Rewritten, WorkRewriter
from sluiceway.work.request import WorkAnswer, WorkRequest, carry_out
from sluiceway.worker.plan import PLAIN_FILES
from sluiceway.worker.rewrite import rewrite_request
from tools.small_files import PARQUET, SmallFiles, row


class Cluster:
    """Carries plans out in this process."""

    def __init__(self, executors: int) -> None:
        self.executors = executors
        self.asked: list[int] = []

    def is_usable(self) -> bool:
        return self.executors > 1

    def run(self, requests: Sequence[WorkRequest], check: Callable[[], None]) -> list[WorkAnswer]:
        check()
        self.asked.append(len(requests))
        return [answer for request in requests for answer in carry_out(request, 0.0)]

    def run_now(self, request: WorkRequest, longest_s: float) -> WorkAnswer | None:
        raise AssertionError(request, longest_s)


@pytest.fixture
def table(tmp_path: Path) -> SmallFiles:
    made = SmallFiles(tmp_path, PARQUET)
    for start in range(0, 30, 10):
        made.add([row(number) for number in range(start, start + 10)])
    return made


def rewriter(table: SmallFiles, cluster: Cluster) -> WorkRewriter:
    return WorkRewriter(table.layout, table.choice, PLAIN_FILES, cluster=cluster)


@pytest.mark.parametrize(("executors", "on_cluster"), [(1, []), (2, [1])])
def test_executors_do_it_once_there_are_several(
    table: SmallFiles, executors: int, on_cluster: list[int]
) -> None:
    cluster = Cluster(executors)
    (made,) = rewriter(table, cluster).rewrite([(table.folder(), table.files)], until=None)
    assert isinstance(made, Rewritten)
    (file,) = made.files
    assert pq.read_table(table.staged(file))["id"].to_pylist() == list(range(30))
    assert made.wall_s > 0
    assert cluster.asked == on_cluster


def test_failure_of_one_partition_is_its_own(table: SmallFiles) -> None:
    table.old()[1].unlink()
    (made,) = rewriter(table, Cluster(2)).rewrite([(table.folder(), table.files)], until=None)
    assert isinstance(made, FileLostError)


def test_nothing_is_done_for_a_route_that_is_left_or_when_time_is_over(table: SmallFiles) -> None:
    cluster = Cluster(2)
    mine = rewriter(table, cluster)
    (late,) = mine.rewrite([(table.folder(), table.files)], until=0.0)
    assert isinstance(late, TaskFailedError)
    assert "its time is over" in late.message
    mine.cancel()
    found = mine.rewrite([("a", table.files), ("b", table.files)], until=None)
    assert [str(each) for each in found] == [str(found[0])] * 2
    assert "its route is left" in str(found[0])
    assert cluster.asked == []


def test_further_attempt_writes_beside_what_the_first_has_begun(table: SmallFiles) -> None:
    mine = rewriter(table, Cluster(1))
    request = rewrite_request(mine.plan(table.folder(), table.files))
    (first,), (further,) = carry_out(request, 0.0), carry_out(request, 0.0, "-again7")
    (begun,), (again,) = first.value, further.value
    assert begun.staged != again.staged
    rows = [pq.read_table(table.staged(file))["id"].to_pylist() for file in (begun, again)]
    assert rows == [list(range(30))] * 2


@pytest.mark.parametrize(
    ("sizes", "slots", "expected"),
    [
        ([5, 1, 9, 3], 2, [[2, 1], [0, 3]]),
        ([1, 1], 8, [[0], [1]]),
        ([0, 0, 0], 1, [[0, 1, 2]]),
    ],
)
def test_partitions_are_dealt_by_size(
    sizes: list[int], slots: int, expected: list[list[int]]
) -> None:
    assert dealt(sizes, slots) == expected


def test_time_that_is_given_grows_with_the_bytes(table: SmallFiles) -> None:
    plan = rewrite_request(rewriter(table, Cluster(1)).plan("x", table.files))
    size = sum(int(record.size_bytes) for record in table.files)
    assert longest_s([plan, plan]) == pytest.approx(600 + 2 * size / (1 << 20))
