"""Rows that are replaced in a table: readers leave a gap, and the prefix is read as of a slot."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.chains import reader as reader_module
from sluiceway.chains.client import TableClient
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.reader import PrefixReader, TableReader
from sluiceway.errors import OffsetsLostError, RequestRefusedError, SourceUnavailableError
from sluiceway.sources.contract import Correction, SourcePartition, Split, SplitReader
from tools.ledger_records import LEDGER
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

DAY, SEVEN, EIGHT = "dt=20261120", "dt=20261120/hr=07", "dt=20261120/hr=08"
LOG = SourcePartition("table:ods.orders", 0)


@pytest.fixture
def table(tmp_path: Path) -> RowsOnDisk:
    return rows_on_disk(tmp_path)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader_module, "_LOOK_AGAIN_S", 0.0)
    yield
    reader_module._KEPT.clear()


def options(table: RowsOnDisk, on_correction: str = "follow") -> UpstreamOptions:
    root = str(table.root)
    return UpstreamOptions("ods.orders", "", root=root, on_correction=on_correction)


def rows(reader: SplitReader) -> list[int]:
    found: list[int] = []
    for _ in range(30):
        for batch in reader.read(0.0):
            found += [row["ts"] for row in batch.values.columns.to_pylist()]  # type: ignore[attr-defined]
    return found


def corrections(table: RowsOnDisk, start: int, end: int, how: str = "follow") -> list[Correction]:
    client = TableClient(options(table, how))
    try:
        return list(client.corrections({LOG: start}, {LOG: end}))
    finally:
        client.close()


def test_the_slot_that_was_read_ends_before_the_next_row(table: RowsOnDisk) -> None:
    first = table.add(SEVEN, EIGHT)
    merged, second = table.merge(EIGHT), table.add(EIGHT)
    client = TableClient(options(table))
    try:
        found = [client.slot_read({LOG: end}, EIGHT) for end in (0, 4, 8, 12)]
        assert client.slot_read({}, EIGHT) is None
        for end, prefix in ((3, SEVEN), (5, SEVEN), (5, DAY), (9, EIGHT)):
            with pytest.raises(RequestRefusedError, match="only a part of a slot"):
                client.slot_read({LOG: end}, prefix)
        assert client.slot_read({LOG: 9}, SEVEN) == (LEDGER, merged)
    finally:
        client.close()
    assert found == [(LEDGER, slot) for slot in (first - 1, first - 1, merged, second)]


@pytest.mark.parametrize("how", ["follow", "ignore"])
def test_rows_that_were_replaced_before_they_were_read_are_a_gap(
    table: RowsOnDisk, how: str
) -> None:
    table.add(SEVEN, EIGHT)
    table.add(EIGHT)
    table.swap(EIGHT, [100, 101, 102])
    table.add(EIGHT, SEVEN)
    reader = TableReader([Split(LOG, 0, 20)], options(table, how))
    assert rows(reader) == [0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19]
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.gaps) == (20, 12, 8)
    assert reader.finished()


def test_range_whose_rows_all_were_replaced_is_a_gap_and_ends(table: RowsOnDisk) -> None:
    table.add(EIGHT)
    table.swap(EIGHT, [100])
    reader = TableReader([Split(LOG, 0, 4)], options(table))
    assert rows(reader) == []
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.gaps) == (4, 0, 4)


def test_route_that_halts_at_corrections_says_what_was_replaced(table: RowsOnDisk) -> None:
    table.add(EIGHT)
    at = table.swap(EIGHT, [100])
    with pytest.raises(OffsetsLostError, match=rf"replaced in slot {at}.*on_correction"):
        rows(TableReader([Split(LOG, 0, 4)], options(table, "halt")))


def test_correction_is_told_of_once_all_rows_before_it_are_read(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    at = table.swap(EIGHT, [100])
    assert corrections(table, 0, 7) == []
    (found,) = corrections(table, 0, 8)
    assert (found.ledger, found.prefix, found.slot) == (LEDGER, EIGHT, at)
    assert found.as_of >= at
    assert corrections(table, 0, 8, "ignore") == []
    table.add(SEVEN)
    # As of the rows that are read, whatever has come after them.
    assert corrections(table, 0, 8)[0].as_of == at
    # What was replaced before the first row that is read concerns no reader.
    assert corrections(table, 12, 12) == []


def test_correction_waits_while_a_slot_with_rows_of_it_is_read_in_part(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    at = table.swap(EIGHT, [100])
    table.add(EIGHT, SEVEN)
    # The second slot has rows 8 to 11 of one hour, and then 12 to 15 of the other.
    assert [bool(corrections(table, 0, end)) for end in (8, 9, 12, 15, 16)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    table.swap(SEVEN, [200])
    assert [each.prefix for each in corrections(table, 0, 16)] == [SEVEN, EIGHT]
    table.add(EIGHT, SEVEN)
    # No row of the other hour is read yet.
    (found,) = corrections(table, 0, 17)
    assert (found.prefix, found.as_of > at) == (SEVEN, True)


def as_of(table: RowsOnDisk, slot: int, prefix: str = EIGHT) -> list[int]:
    chosen = replace(options(table), as_of=f"{slot}:{prefix}")
    return rows(PrefixReader([Split(LOG, 0)], chosen))


def test_prefix_is_read_as_of_a_slot_whatever_came_after_it(table: RowsOnDisk) -> None:
    table.add(SEVEN, EIGHT)
    at = table.swap(EIGHT, [100, 101])
    later = table.add(EIGHT)
    assert as_of(table, at) == [100, 101]
    assert as_of(table, later) == [100, 101, 8, 9, 10, 11]
    table.merge(EIGHT)
    assert as_of(table, at) == [100, 101]
    assert as_of(table, at, "dt=20261120") == [0, 1, 2, 3, 100, 101]


def test_prefix_that_was_replaced_again_is_read_as_it_is_then(table: RowsOnDisk) -> None:
    table.add(EIGHT)
    first = table.swap(EIGHT, [100])
    second = table.swap(EIGHT, [200])
    with pytest.raises(SourceUnavailableError, match=f"replaced again, in slot {second}"):
        as_of(table, first)
    assert as_of(table, second) == [200]
