"""A mirror that continues after all: its first missing row ends the epoch."""

import pytest

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.log_tail import tail_of
from sluiceway.sources import registry
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.missing_rows import MissingRowsReader, row_hashes
from sluiceway.sources.registry import SourceAccess, open_reader
from tools.origin_rows import SimpleReader
from tools.small_task import MadeBatch

ONE = SourcePartition("orders", 0)


def batch(*rows: int, first: int = 0) -> MadeBatch:
    offsets = list(range(first, first + len(rows)))
    return MadeBatch(0, [b"row %d" % row for row in rows], offsets, list(rows))


MISSING = tail_of((row, 0) for row in row_hashes(batch(8, 9)))


def test_other_rows_pass_and_a_missing_row_is_named() -> None:
    first, last = batch(1, 2, 3), batch(4, 9, first=3)
    reader = MissingRowsReader(SimpleReader([first, last], 0), [Split(ONE, 0, missing=MISSING)])
    assert reader.read(1.0) == [first]
    with pytest.raises(OffsetsLostError, match="the mirror of the lost room continues") as halted:
        reader.read(1.0)
    assert halted.value.where == "orders[0] offset 4"
    assert "--partition orders:0 --to 5 --accept-gap" in halted.value.hint


def test_a_row_of_another_time_is_another_row() -> None:
    again = MadeBatch(0, [b"row 9"], [0], [10])
    reader = MissingRowsReader(SimpleReader([again], 0), [Split(ONE, 0, missing=MISSING)])
    assert reader.read(1.0) == [again]
    assert reader.finished()
    assert [end.rows for end in reader.ends()] == [1]


@pytest.mark.parametrize("missing", ["", MISSING])
def test_only_splits_with_missing_rows_are_looked_at(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = SimpleReader([batch(9)], 0)
    monkeypatch.setattr(registry, "_source", lambda _: None)
    monkeypatch.setattr(registry, "opened", lambda *_: own)
    access = SourceAccess("kafka", ())
    reader = open_reader(access, [Split(ONE, 0, missing=missing)], owner="t")
    assert isinstance(reader, MissingRowsReader) is bool(missing)
