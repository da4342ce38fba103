"""Which units of a table are due: by what their last SWAP was computed from, and nothing else."""

from dataclasses import replace

import pytest

from sluiceway.chains.units import (
    ComputedUnit,
    DueReason,
    UnitBook,
    UnitRule,
    UnitState,
    UnitWhen,
    due_units,
    fingerprint_of,
    unit_of,
)
from sluiceway.errors import TableMismatchError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import (
    ExpiredPartition,
    ExpireRecord,
    ReadyRecord,
    RemovedFile,
    ReplaceRecord,
    SwapCounts,
    SwappedPartition,
    SwapRecord,
)
from sluiceway.ledger.records import FIRST_PREV, NO_ROWS, Body, DataRecord, Record
from sluiceway.types.strict_json import BigInt

HOUR = "dt=20261120/hr=08"
RULE = UnitRule(("dt", "hr"), UnitWhen.READY, 600_000, fingerprint_of("SELECT 1"))
READY = UnitState(HOUR, version=1, announced=7, slot=5, rows=3)
DONE = ComputedUnit("one", 1, 5, RULE.fingerprint)


def due(
    state: UnitState, before: ComputedUnit | None = DONE, rule: UnitRule = RULE, now_ms: int = 0
) -> list[DueReason]:
    computed = {} if before is None else {state.prefix: before}
    return [each.reason for each in due_units([state], computed, "one", rule, now_ms)]


def test_unit_is_due_once_it_is_announced_and_until_it_was_computed() -> None:
    assert due(replace(READY, version=0, announced=-1), None) == []
    assert due(READY, None) == [DueReason.NEW]
    assert due(READY) == []


@pytest.mark.parametrize(
    "before",
    [replace(DONE, ledger="two"), replace(DONE, version=2), replace(DONE, slot=4)],
    ids=["ledger", "version", "slot"],
)
def test_unit_is_due_again_when_its_input_differs(before: ComputedUnit) -> None:
    assert due(READY, before) == [DueReason.INPUT]


def test_unit_is_due_again_when_the_query_differs() -> None:
    other = replace(RULE, fingerprint=fingerprint_of("SELECT 2"))
    assert due(READY, rule=other) == [DueReason.SQL]


def test_fingerprints_of_unlike_parts_differ() -> None:
    assert fingerprint_of("a", "b") == fingerprint_of("a", "b")
    assert len({fingerprint_of("ab"), fingerprint_of("a", "b"), fingerprint_of(("a", "b"))}) == 3


def test_unit_with_late_rows_waits_until_they_are_announced() -> None:
    assert due(replace(READY, slot=9)) == []
    assert due(replace(READY, slot=9, version=2, announced=11)) == [DueReason.INPUT]


def test_unit_that_upstream_let_go_of_stays_as_it_was_computed() -> None:
    assert due(replace(READY, slot=9, version=2, announced=11, lost=True)) == []
    assert due(replace(READY, lost=True), None) == []


def test_unit_settles_when_nothing_has_changed_it_for_so_long() -> None:
    rule = replace(RULE, when=UnitWhen.SETTLED, settle_ms=1000)
    state = UnitState(HOUR, slot=5, changed_ms=10_000, rows=3)
    assert due(state, None, rule, 10_999) == []
    assert due(state, None, rule, 11_000) == [DueReason.NEW]
    assert due(UnitState(HOUR), None, rule, 11_000) == []


def test_unit_with_a_success_file_is_complete() -> None:
    rule = replace(RULE, when=UnitWhen.SUCCESS)
    state = UnitState(HOUR, slot=5, rows=3)
    assert due(state, None, rule) == []
    assert due(replace(state, success=True), None, rule) == [DueReason.NEW]


def test_units_come_in_the_order_of_their_prefixes() -> None:
    states = [replace(READY, prefix=f"dt=20261120/hr={hour}") for hour in ("10", "08", "09")]
    found = due_units(states, {}, "one", RULE, 0)
    assert [each.prefix[-2:] for each in found] == ["08", "09", "10"]


def record(seq: int, body: Body) -> Record:
    return Record("test", seq, 1, FIRST_PREV, "id", 0, 0, body)


def data(*finals: str, at_ms: int = 50) -> DataRecord:
    files = tuple(
        FileRecord(f"a/{n}", final, (), BigInt(2), BigInt(9), "0", {})
        for n, final in enumerate(finals)
    )
    return DataRecord(1, (), files, (), NO_ROWS, "", {}, {"prepared_at": at_ms})


def ready(prefix: str, version: int = 1) -> ReadyRecord:
    return ReadyRecord(prefix, version, 0, BigInt(0), BigInt(0), whole=True, partitions=())


def test_book_knows_what_changed_a_unit_and_what_was_announced() -> None:
    book = UnitBook(("dt", "hr"))
    book.apply(record(1, data("dt=1/hr=08/c=a/f1", "dt=1/hr=08/c=b/f2", "dt=1/hr=09/c=a/f3")))
    book.apply(record(2, ready("dt=1/hr=08")))
    book.apply(record(3, ready("dt=1/hr=10")))
    moved = "dt=1/hr=08/_sluiceway-4-" + "a" * 32 + "/c=a"
    removed = (RemovedFile("f1", BigInt(2), BigInt(9), "0"),)
    book.apply(record(5, ReplaceRecord(4, "dt=1/hr=08/c=a", 1, moved, removed, ())))
    states = {each.prefix: each for each in book.states()}
    assert states == {
        "dt=1/hr=08": UnitState("dt=1/hr=08", 1, 2, 1, 50, 4),
        "dt=1/hr=09": UnitState("dt=1/hr=09", 0, -1, 1, 50, 2),
        "dt=1/hr=10": UnitState("dt=1/hr=10", 1, 3),
    }
    book.apply(record(6, data(f"{moved}/f4", at_ms=60)))
    late = next(each for each in book.states() if each.prefix == "dt=1/hr=08")
    assert (late.slot, late.rows, late.changed_ms) == (6, 6, 60)


def test_book_takes_in_that_rows_of_a_unit_were_replaced() -> None:
    book = UnitBook(("dt", "hr"))
    book.apply(record(1, data("dt=1/hr=08/c=a/f1", "dt=1/hr=08/c=b/f2")))
    gone = RemovedFile("f1", BigInt(2), BigInt(9), "0")
    new = FileRecord("i2/f3", "x/f3", (), BigInt(7), BigInt(9), "0", {})
    part = SwappedPartition("dt=1/hr=08/c=a", ("1", "08", "a"), 1, "x", (gone,), (new,))
    counts = SwapCounts(BigInt(7), BigInt(7))
    swap = SwapRecord(2, "dt=1/hr=08", counts, BigInt(4), BigInt(9), (part,))
    book.apply(record(3, swap))
    (state,) = book.states()
    assert (state.rows, state.slot, state.changed_ms) == (9, 3, 50)


def test_book_marks_a_unit_whose_rows_were_let_go_of() -> None:
    book = UnitBook(("dt", "hr"))
    book.apply(record(1, data("dt=1/hr=08/f1")))
    gone = ExpiredPartition("dt=1/hr=08", BigInt(2), BigInt(1), "dt=1/_sluiceway-2-x/hr=08")
    book.apply(record(2, ExpireRecord("retention", (gone,))))
    (state,) = book.states()
    assert (state.lost, state.rows, state.slot) == (True, 0, 2)


@pytest.mark.parametrize("final", ["f1", "day=1/hr=08/f1", "dt=1/f1"])
def test_table_with_other_partition_columns_has_no_such_units(final: str) -> None:
    with pytest.raises(TableMismatchError, match="no units of dt, hr"):
        UnitBook(("dt", "hr")).apply(record(1, data(final)))


def test_announcements_of_other_times_are_no_units() -> None:
    with pytest.raises(TableMismatchError, match="announces dt=1/hr=08/mi=01"):
        UnitBook(("dt", "hr")).apply(record(1, ready("dt=1/hr=08/mi=01")))
    book = UnitBook(("dt", "hr"), announced=False)
    book.apply(record(1, ready("dt=1/hr=08/mi=01")))
    assert list(book.states()) == []


def test_unit_is_the_leading_part_of_a_partition() -> None:
    assert unit_of("DT=1/hr=08/c=a", ("dt", "hr")) == "DT=1/hr=08"
    assert unit_of("dt=1", ("dt", "hr")) is None
