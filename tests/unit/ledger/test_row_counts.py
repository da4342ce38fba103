"""Where rows went: every one is accounted for, those that came several in one record too."""

from sluiceway.ledger.records import RowCounts
from sluiceway.types.strict_json import BigInt


def test_rows_beyond_the_first_of_a_record_count_beside_those_read() -> None:
    counts = RowCounts(*map(BigInt, (5, 7, 1, 0, 0, 1, 4)))
    assert counts.balanced()
    assert not RowCounts(*map(BigInt, (5, 7, 1, 0, 0, 1, 3))).balanced()
    assert counts.plus(counts) == RowCounts(*map(BigInt, (10, 14, 2, 0, 0, 2, 8)))
