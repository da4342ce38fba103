"""Rows that `preview` shows of a table with a key."""

import pyarrow as pa

from sluiceway.audit.row_preview import _rows
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind


def batch(kinds: list[int] | None) -> pa.RecordBatch:
    count = 1 if kinds is None else len(kinds)
    columns: dict[str, list[object]] = {
        "id": list(range(count)),
        "_sluiceway_topic": ["orders"] * count,
        "_sluiceway_partition": [0] * count,
        "_sluiceway_offset": list(range(count)),
    }
    if kinds is not None:
        columns[KIND_COLUMN] = list(kinds)
    return pa.RecordBatch.from_pydict(columns)


def test_change_of_each_row_is_a_word_and_no_column() -> None:
    found = list(_rows([((), batch([RowKind.IMAGE, RowKind.DELETE, RowKind.TRUNCATE]))], ()))
    assert [each.change for each in found] == ["row", "delete", "truncate"]
    assert [dict(each.values) for each in found] == [{"id": 0}, {"id": 1}, {"id": 2}]
    # Each kind has its word.
    assert all(each.change for each in _rows([((), batch(list(RowKind)))], ()))


def test_row_of_a_table_without_a_key_is_no_change() -> None:
    (found,) = _rows([((), batch(None))], ())
    assert found.change is None
