"""Rows from before the offsets at which a route began: which they are, and that they come once."""

from dataclasses import replace

import pytest

from sluiceway.errors import RequestRefusedError
from sluiceway.ledger.operator_records import OriginLog, SourceChangeRecord
from sluiceway.ledger.partition_records import (
    ExpiredPartition,
    ExpireRecord,
    SwapCounts,
    SwappedPartition,
    SwapRecord,
)
from sluiceway.ledger.records import Body, SourcesRecord
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.earlier_rows import EarlierRange, before_first, pinned_ranges
from sluiceway.upkeep.prefix_history import PrefixHistory, history_of
from tools.ledger_records import LEDGER, data, sources, span
from unit.upkeep.test_prefix_history import DAY, EIGHT, LAYOUT, NINE, log, ranges, rows

EARLIER = EarlierRange("orders", 0, 3, 20, "t1", "c1")


def first(*bodies: Body) -> list[tuple[object, int]]:
    return [(each.partition, each.end) for each in before_first(log(*bodies))]


def added(prefix: str, *earlier: EarlierRange, dirty: int = 0) -> SwapRecord:
    files = data(1, 1, dirty=dirty).dirty_files
    pins = dict(each.pin() for each in earlier)
    none = BigInt(0)
    return SwapRecord(
        1, prefix, SwapCounts(none, none), none, none, pins=pins, dirty_files=tuple(files)
    )


def history(*bodies: Body, prefix: str = EIGHT) -> PrefixHistory:
    return history_of(log(*bodies), LAYOUT, LEDGER, prefix, 99)


def test_offsets_below_the_first_one_that_was_ever_read_are_earlier() -> None:
    begun = sources(0, 1, start=20)
    assert first(begun, data(1, 1, span(0, 20, 25))) == [(0, 20), (1, 20)]
    # An operator has had offsets read again from 12 on.
    assert first(begun, data(1, 1, span(0, 12, 25))) == [(0, 12), (1, 20)]
    resumed = sources(0, start=4, how="resumed")
    assert first(begun, sources(0, retired=True), resumed) == [(0, 20), (1, 20)]
    assert first(begun, sources(0, start=7)) == [(0, 7), (1, 20)]


@pytest.mark.parametrize("what", ["table", "copy", "another log"])
def test_rows_that_may_be_there_already_are_refused(what: str) -> None:
    body: Body = sources(0, start=20)
    assert isinstance(body, SourcesRecord)
    (pin,) = body.partitions
    if what == "table":
        body = replace(body, partitions=(replace(pin, topic="table:ods.orders"),))
    elif what == "copy":
        origin = OriginLog("sw-origin", "c2/orders/0", "t2", BigInt(0))
        body = replace(body, partitions=(replace(pin, origin=origin),))
    else:
        body = SourceChangeRecord("me@host", "a is lost", ())
    with pytest.raises(RequestRefusedError, match=r"from a table or a copy|another log had"):
        first(body)


def test_ranges_of_a_swap_are_read_with_all_else_until_it_is_replaced() -> None:
    assert pinned_ranges(dict([EARLIER.pin(), ("users", "slot 3")])) == [EARLIER]
    there = added(EIGHT, EARLIER)
    found = history(rows(20, 25, EIGHT), there)
    assert (ranges(found), found.earlier, found.earlier_slot) == ([(3, 25)], [EARLIER], 1)
    assert history(rows(20, 25, EIGHT), there, added(EIGHT)).earlier_slot == -1
    assert history(rows(20, 25, EIGHT), there, added(NINE)).earlier == [EARLIER]
    # A day has its hours' rows, and does not know all of them.
    whole = history(rows(20, 25, EIGHT), there, prefix=DAY)
    assert (whole.earlier, whole.earlier_slot) == ([], 1)
    assert history(rows(20, 25, EIGHT), added(DAY, EARLIER)).earlier == [EARLIER]


def test_ranges_of_a_swap_go_with_the_partitions_that_it_filled() -> None:
    names = (SwappedPartition(name, (), 1, f"{name}/2") for name in (EIGHT, NINE))
    there = replace(added(DAY, EARLIER), partitions=tuple(names))
    eight, nine = (
        ExpireRecord("old", (ExpiredPartition(name, BigInt(4), BigInt(1), "next"),))
        for name in (EIGHT, NINE)
    )
    for prefix, gone, slot in ((EIGHT, (eight,), -1), (NINE, (eight,), 1), (DAY, (eight,), 1)):
        found = history(rows(20, 25, EIGHT), there, *gone, prefix=prefix)
        assert (bool(found.earlier), found.earlier_slot) == (slot >= 0, slot)
    found = history(rows(20, 25, EIGHT), there, nine, eight, rows(25, 30, EIGHT), prefix=DAY)
    assert (ranges(found), found.earlier_slot) == ([(25, 30)], -1)


def test_row_that_was_dirty_for_one_prefix_is_not_dirty_again_for_another() -> None:
    there = added(EIGHT, EARLIER, dirty=2)
    paths = [LAYOUT.final(file.final) for file in there.dirty_files]
    assert paths
    assert history(rows(20, 25, NINE), there, prefix=NINE).earlier_dirty == paths
    assert history(rows(20, 25, EIGHT), there).left_out == paths
    assert history(rows(20, 25, NINE), there, prefix=NINE).left_out == []
