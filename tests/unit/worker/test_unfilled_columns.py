"""Which columns no row of a task fills."""

from collections.abc import Sequence

import pyarrow as pa

from sluiceway.worker.task_figures import MOST_COLUMNS, TaskUnfilledColumns
from tools.small_task import NOW_US, made_batch, run_task


def batch(**columns: Sequence[int | None]) -> pa.RecordBatch:
    types = {name: pa.int64() for name in columns}
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema(list(types.items())))


def test_task_without_rows_says_nothing() -> None:
    seen = TaskUnfilledColumns()
    assert seen.names() is None
    seen.check(batch(a=[], b=[]))
    assert seen.names() is None


def test_column_is_filled_by_one_value_of_any_batch() -> None:
    seen = TaskUnfilledColumns()
    seen.check(batch(a=[None, None], b=[None, None], c=[1, None]))
    assert seen.names() == ("a", "b")
    seen.check(batch(a=[None, 7], b=[None, None], c=[None, None]))
    assert seen.names() == ("b",)
    seen.check(batch(a=[1], b=[1], c=[1]))
    assert seen.names() == ()


def test_names_are_bounded() -> None:
    seen = TaskUnfilledColumns()
    seen.check(batch(**{f"c{number}": [None] for number in range(MOST_COLUMNS + 5)}))
    names = seen.names()
    assert names is not None
    assert len(names) == MOST_COLUMNS


def test_task_answers_which_columns_no_row_filled_where_it_samples() -> None:
    rows = [
        made_batch(0, [{"id": 1, "ts": NOW_US, "ap": "a"}, {"id": 2, "ts": NOW_US, "ap": None}])
    ]
    sampled, plain = run_task([rows], samples="few").written, run_task([rows]).written
    assert sampled.unfilled == ("app",)
    assert plain.unfilled is None


def test_column_whose_key_is_there_as_null_has_the_right_name() -> None:
    rows = [made_batch(0, [{"id": 1, "ts": NOW_US, "app": None, "extra": 7}])]
    assert run_task([rows], samples="few").written.unfilled == ()


def test_task_answers_which_fields_no_column_reads_where_it_samples() -> None:
    rows = [made_batch(0, [{"id": 1, "ts": NOW_US, "app": "a", "extra": 7}])]
    (found,) = run_task([rows], samples="few").written.unknown_fields
    assert (found.path, found.type, found.rows) == (("extra",), "bigint", 1)
    assert run_task([rows]).written.unknown_fields == ()
