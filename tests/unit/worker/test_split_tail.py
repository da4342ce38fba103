"""A task keeps the last rows of each split, however they were fetched."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.ledger.log_tail import row_hash, tail_of, tail_runs
from sluiceway.sources.contract import RawRecords, SourceBatch
from sluiceway.worker.split_tail import SplitTail, batch_tail
from tools.small_task import made_batch, run_task

Row = tuple[bytes | None, bytes | None, int | None]


@dataclass
class Fetch(SourceBatch):
    """Rows with keys; counts how many of them are asked for."""

    rows: list[Row]
    split_index: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self.values = [value for _, value, _ in self.rows]
        self.offsets = list(range(len(self.rows)))

    def timestamps_ms(self) -> Sequence[int | None]:
        return [time for _, _, time in self.rows]

    def records(self, rows: Sequence[int]) -> RawRecords:
        self.asked += len(rows)
        chosen = [self.rows[row] for row in rows]
        keys, values, times = zip(*chosen, strict=True)
        same = [0] * len(rows)
        return RawRecords(
            ["t"] * len(rows), same, list(rows), times, keys, values, [()] * len(rows)
        )


def different(count: int) -> list[Row]:
    return [(b"%d" % n, b"v", n) for n in range(count)]


def whole(rows: list[Row]) -> str:
    times = [-1 if time is None else time for _, _, time in rows]
    return tail_of((row_hash(r[0], r[1], t), t) for r, t in zip(rows, times, strict=True))


def test_only_the_last_rows_are_asked_for() -> None:
    fetch = Fetch(different(1000))
    assert batch_tail(fetch) == whole(fetch.rows)
    assert fetch.asked == 8


def test_equal_rows_and_missing_keys_times_and_values_count() -> None:
    rows: list[Row] = [*different(20), *[(None, None, None)] * 50, (b"", b"", 3)]
    fetch = Fetch(rows)
    found, wanted = tail_runs(batch_tail(fetch)), tail_runs(whole(rows))
    assert [(run.row, run.rows) for run in found] == [(run.row, run.rows) for run in wanted]
    assert found[-2].rows == 50


def test_fetches_follow_each_other() -> None:
    rows, tail = different(20), SplitTail()
    for cut in (rows[:1], rows[1:1], rows[1:13], rows[13:]):
        tail.add(Fetch(list(cut)))
    assert [run.row for run in tail_runs(tail.text)] == [run.row for run in tail_runs(whole(rows))]


def test_a_task_keeps_them_only_where_the_plan_says_so() -> None:
    reads = [[made_batch(0, [{"id": 1, "ts": 1_795_161_600_000}], [7])]]
    (kept,) = run_task(reads, tails=True).written.totals
    assert [run.least_ms for run in tail_runs(kept.tail.text)] == [7]
    (plain,) = run_task(reads).written.totals
    assert plain.tail.text == ""
