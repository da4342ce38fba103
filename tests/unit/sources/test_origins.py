"""Which rows are copies of another log's, and which of these a reader drops."""

import pytest

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.sources.contract import (
    Headers,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
)
from sluiceway.sources.origins import OriginHeaders, OriginReader
from sluiceway.types.strict_json import BigInt
from tools.origin_rows import OriginBatch, SimpleReader

TIME = 1_795_000_000_000
LOG = OriginLog("sw-origin", "A1/orders/3", "t1", BigInt(10))


def origin(offset: object, log: str = "A1/orders/3", time_ms: int = TIME) -> Headers:
    return (("sw-origin", f"{log}:{offset}@{time_ms}".encode()),)


def batch(first: int, *of_rows: Headers) -> OriginBatch:
    return OriginBatch.of(first, of_rows, TIME)


def split(log: OriginLog | None = LOG) -> Split:
    return Split(SourcePartition("orders", 3), 100, origin=log)


def read(*batches: SourceBatch, log: OriginLog | None = LOG) -> tuple[list[int], SplitEnd]:
    """Offsets that are left, and the end."""
    reader = OriginReader(SimpleReader(batches, 100), [split(log)])
    kept = []
    while not reader.finished():
        kept += [int(offset) for each in reader.read(1.0) for offset in each.offsets]
    (end,) = reader.ends()
    return kept, end


def test_copies_of_rows_in_the_table_are_dropped_and_counted_as_gaps() -> None:
    kept, end = read(batch(100, origin(8), origin(9), origin(10)), batch(103, (), origin(11)))
    assert kept == [102, 103, 104]
    assert (end.rows, end.gaps, end.copies, end.origin_end) == (3, 2, 2, 12)


def test_a_mirror_that_repeats_brings_nothing_twice() -> None:
    again = [origin(number) for number in (10, 12, 15, 10, 12, 15, 17)]
    kept, end = read(batch(100, *again[:4]), batch(104, *again[4:]))
    assert kept == [100, 101, 102, 106]
    assert (end.copies, end.origin_end) == (3, 18)


def test_rows_of_the_room_itself_stay_and_move_no_origin_end() -> None:
    mine = (
        (),
        origin(3, log="B2/orders/3"),
        origin(3, log="A1/orders/4"),
        origin(3, log="A1/other/3"),
        origin(3, time_ms=TIME + 1),
        (("other", b"A1/orders/3:3@1"),),
        (("sw-origin", None),),
    )
    kept, end = read(batch(100, *mine))
    assert kept == list(range(100, 100 + len(mine)))
    assert (end.copies, end.origin_end) == (0, 10)


def test_last_header_of_the_cluster_counts() -> None:
    headers = OriginHeaders(LOG)
    both = (*origin(4), *origin(5), *origin(7, log="B2/orders/3"))
    assert headers.offset(both, TIME) == 5
    # A row that a processor has put into another topic says where it was put last.
    assert headers.offset((*origin(4), *origin(5, log="A1/joined/0")), TIME) is None


@pytest.mark.parametrize("wrong", ["", "x", "-1", "01", "1.5", "9" * 20])
def test_an_origin_that_is_no_number_halts(wrong: str) -> None:
    with pytest.raises(OffsetsLostError, match="sw-origin") as caught:
        read(batch(100, origin(10), origin(wrong)))
    assert caught.value.where == "orders[3] offset 101"
    assert "mirror-jar" in caught.value.hint


def test_a_row_without_a_time_has_none_in_its_header() -> None:
    headers = OriginHeaders(LOG)
    assert headers.offset(origin(4, time_ms=-1), None) == 4
    assert headers.offset(origin(4, time_ms=0), None) is None


def test_a_split_without_a_copied_log_is_left_alone_and_the_reader_is_given_back() -> None:
    whole = batch(100, origin(1), origin(2))
    inner = SimpleReader([whole], 100)
    reader = OriginReader(inner, [split(None)])
    assert reader.read(1.0) == [whole]
    (end,) = reader.ends()
    assert (end.rows, end.copies, end.origin_end) == (2, 0, None)
    reader.close(reusable=True)
    assert inner.closed == [True]


def test_a_batch_that_is_kept_whole_is_handed_on_as_it_is() -> None:
    whole = batch(100, (), origin(10))
    reader = OriginReader(SimpleReader([whole], 100), [split()])
    assert reader.read(1.0) == [whole]
