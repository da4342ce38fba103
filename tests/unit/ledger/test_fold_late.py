"""Late rows in the ledger: counted by fate, aside where no reader looks, never without a count."""

from dataclasses import replace

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.layout import LedgerLayout, is_late_place
from sluiceway.ledger.records import DataRecord, Record, decode_record, encode_record
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span, with_late

LATE = with_late(data(1, 0, span(0, 0, 10), dirty=2), 3)


def changed(**fields: object) -> DataRecord:
    return replace(LATE, **fields)  # type: ignore[arg-type]


def late(**rows: int) -> LateRows:
    return LateRows(**{name: BigInt(number) for name, number in rows.items()})


def test_late_rows_are_counted_and_in_no_partition() -> None:
    fold = fold_of(fence(), sources(0), LATE, with_late(data(1, 1, span(0, 10, 15)), 2))
    assert (fold.counts.read, fold.counts.written, fold.counts.late) == (15, 8, 5)
    assert fold.late_rows == late(side=5)
    assert list(fold.partitions) == ["dt=20261120/hr=08"]
    assert fold.partitions["dt=20261120/hr=08"].rows == 8


def test_late_rows_that_stay_among_the_others_are_counted_too() -> None:
    told = late(redirect=3, reopen=4, dirty=1)
    fold = fold_of(
        fence(), sources(0), replace(data(1, 0, span(0, 0, 10), dirty=2), late_rows=told)
    )
    assert fold.late_rows == told
    assert fold.late_rows.as_counts() == {"redirect": 3, "reopen": 4, "dirty": 1}
    assert fold.late_rows.total == 8


def test_all_rows_of_an_epoch_may_be_late_ones() -> None:
    body = data(1, 0, span(0, 0, 10), dirty=2)
    told = late(redirect=5, reopen=3, dirty=2)
    assert fold_of(fence(), sources(0), replace(body, late_rows=told)).late_rows == told


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (changed(late_rows=late()), "has 3 late, files 3, aside 0"),
        (changed(late_files=()), "has 3 late, files 0, aside 3"),
        (changed(late_rows=late(side=3, dirty=3)), "late rows .* among"),
        (changed(late_rows=late(side=3, redirect=4, reopen=2)), "late rows .* among"),
        (changed(late_rows=late(side=3, redirect=-1)), "late rows .* among"),
        (
            changed(late_files=(replace(LATE.late_files[0], final="dt=20261120/hr=08/x"),)),
            "late rows in dt=20261120/hr=08/x",
        ),
        (
            changed(late_files=(replace(LATE.late_files[0], staged="1-7-a/x"),)),
            "I9 does not hold",
        ),
        (
            changed(files=(replace(LATE.files[0], final=LATE.late_files[0].final),)),
            "hides rows in _sluiceway/orders/late/",
        ),
    ],
)
def test_late_rows_that_do_not_add_up_are_refused(body: DataRecord, says: str) -> None:
    fold = fold_of(fence(), sources(0))
    made = record(fold, body)
    with pytest.raises(InvariantError, match=says):
        fold.apply(made, encode_record(made))


def test_clock_in_the_ledger_never_falls() -> None:
    def dated(epoch: int, clock_us: int) -> DataRecord:
        body = data(1, epoch, span(0, epoch, epoch + 1))
        return replace(body, clock_us=BigInt(clock_us))

    fold = fold_of(fence(), sources(0), dated(0, 700), dated(1, 0), dated(2, 700))
    assert fold.clock_us == 700
    made = record(fold, dated(3, 699))
    with pytest.raises(InvariantError, match="clock 699 after 700"):
        fold.apply(made, encode_record(made))


def test_record_without_late_rows_says_nothing_of_them() -> None:
    fold = fold_of(fence(), sources(0))
    raw = encode_record(record(fold, data(1, 0, span(0, 0, 10))))
    assert b"late_files" not in raw
    assert b"late_rows" not in raw
    assert b"clock_us" not in raw
    late_raw = encode_record(record(fold, LATE))
    assert decode_record(late_raw, "slot").body == LATE
    assert b'"late_rows":{"side":"3"}' in late_raw


def test_side_file_keeps_what_was_late_and_the_clock(tmp_path: object) -> None:
    layout, storage = LedgerLayout(str(tmp_path), "orders"), LocalStorage()
    fold = fold_of(fence(), sources(0), replace(LATE, clock_us=BigInt(77)))
    fold.drop_published(fold.next_seq)
    body = write_side_file(storage, layout, fold)
    made: Record = record(fold, body)
    found = load_snapshot(storage, layout, made)
    assert found is not None
    assert (found.late_rows, found.clock_us) == (late(side=3), 77)


@pytest.mark.parametrize(
    ("final", "aside"),
    [
        ("_sluiceway/orders/late/dt=1/x", True),
        ("_sluiceway/orders/late/x", True),
        ("_sluiceway/orders/late", False),
        ("_sluiceway/orders/dirty/x", False),
        ("dt=1/late/x", False),
        ("x/orders/late/y", False),
    ],
)
def test_place_of_late_rows_is_known_by_its_name(final: str, aside: bool) -> None:  # noqa: FBT001
    assert is_late_place(final) is aside
