"""The fold keeps the last rows before each committed end, and a snapshot has them."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log_tail import joined_tails, tail_of
from sluiceway.ledger.operator_records import (
    ChangedSource,
    ResetPartition,
    ResetRecord,
    SourceChangeRecord,
)
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    FORMAT,
    Body,
    DataRecord,
    RangeRecord,
    decode_record,
    encode_record,
)
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span

NEWER = replace(fence(), format=2, min_reader=2)
ONE, TWO = tail_of([(1, 5), (2, 6)]), tail_of([(3, 9)])


def read(start: int, end: int, tail: str, gaps: int = 0) -> RangeRecord:
    return replace(span(0, start, end, gaps=gaps), tail=tail)


def put(fold: Fold, body: Body) -> None:
    made = record(fold, body)
    raw = encode_record(made)
    fold.apply(decode_record(raw, "here"), raw)


def test_ranges_join_and_rows_without_a_tail_leave_none() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, read(0, 2, ONE)), data(1, 1, read(2, 3, TWO)))
    known = fold.sources["orders", 0]
    assert known.tail == joined_tails(ONE, TWO)
    put(fold, data(1, 2, read(3, 5, "", gaps=2)))
    assert known.tail == joined_tails(ONE, TWO)
    put(fold, data(1, 3, read(5, 6, "")))
    assert known.tail == ""


def test_an_operators_move_has_the_tail_of_its_new_end() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, read(0, 2, ONE)), NEWER)
    move = ResetPartition("orders", 0, BigInt(2), BigInt(9), 1, "gap", None)
    put(fold, ResetRecord("me", "gap", (replace(move, tail=TWO),)))
    assert fold.sources["orders", 0].tail == TWO
    changed = ChangedSource(
        "orders", 0, "c1", "t1", "c2", "t2", BigInt(9), BigInt(4), 2, {"tail": ONE}
    )
    put(fold, NEWER)
    put(fold, SourceChangeRecord("me", "room", (changed,)))
    assert fold.sources["orders", 0].tail == ONE
    put(fold, NEWER)
    put(fold, ResetRecord("me", "gap", (replace(move, old_end=BigInt(4), generation=3),)))
    assert fold.sources["orders", 0].tail == ""


@pytest.mark.parametrize("tail", ["nonsense", "AAAAAAAAAAA*2", ONE])
def test_a_tail_that_is_none_is_refused(tail: str) -> None:
    fold = fold_of(fence(), sources(0))
    bad: DataRecord = data(1, 0, read(0, 2, tail, gaps=2 if tail == ONE else 0))
    with pytest.raises(InvariantError):
        put(fold, bad)


def test_a_pin_may_have_one_and_all_of_them_need_the_newer_format() -> None:
    pinned = sources(0, start=7, how="latest")
    with_tail = replace(pinned, partitions=(replace(pinned.partitions[0], tail=ONE),))
    fold = fold_of(fence(), with_tail)
    assert (fold.sources["orders", 0].tail, fold.format) == (ONE, 2)
    move = ResetPartition("orders", 0, BigInt(7), BigInt(9), 1, "gap", None)
    change = ChangedSource("orders", 0, "a", "t", "b", "t", BigInt(9), BigInt(4), 1, {})
    for plain, newer in (
        (data(1, 0, span(0, 7, 8)), data(1, 0, read(7, 8, ONE))),
        (ResetRecord("me", "x", (move,)), ResetRecord("me", "x", (replace(move, tail=ONE),))),
        (
            SourceChangeRecord("me", "x", (change,)),
            SourceChangeRecord("me", "x", (replace(change, evidence={"tail": ONE}),)),
        ),
    ):
        assert (needed_format(plain), needed_format(newer)) == (FORMAT, 2)


def test_snapshot_keeps_it(tmp_path: Path) -> None:
    fold = fold_of(fence(), sources(0, 1), data(1, 0, read(0, 2, ONE)))
    fold.unpublished.clear()
    layout, storage = LedgerLayout(str(tmp_path), "orders"), LocalStorage()
    storage.make_folders(layout.stage)
    restored = load_snapshot(storage, layout, record(fold, write_side_file(storage, layout, fold)))
    assert restored is not None
    assert restored.sources == fold.sources
    assert restored.sources["orders", 0].tail == ONE
