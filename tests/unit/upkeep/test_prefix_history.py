"""What made a prefix, by its log: ranges, replays, rows that stayed aside."""

from dataclasses import replace

from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import LaneCounts, LaneDataRecord, LaneSpan
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.operator_records import (
    ORIGIN_HEADER,
    ORIGIN_LOG,
    ChangedSource,
    OriginLog,
    SourceChangeRecord,
)
from sluiceway.ledger.partition_records import ExpiredPartition, ExpireRecord
from sluiceway.ledger.records import Body, DataRecord, Record
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.prefix_history import PrefixHistory, QueueRange, history_of
from tools.ledger_records import LEDGER, data, record, span, with_late

LAYOUT = LedgerLayout("/w/t", "orders")
DAY, EIGHT, NINE = "dt=20261120", "dt=20261120/hr=08", "dt=20261120/hr=09"


def log(*bodies: Body) -> list[Record]:
    fold = Fold()
    return [record(fold, body, term=1, seq=seq) for seq, body in enumerate(bodies)]


def rows(start: int, end: int, *folders: str, dirty: int = 0) -> DataRecord:
    body = data(1, start, span(0, start, end), dirty=dirty)
    (file,) = body.files
    name = file.final.rpartition("/")[2]
    files = tuple(replace(file, final=f"{folder}/{name}") for folder in folders)
    return replace(body, files=files)


def history(*bodies: Body, prefix: str = EIGHT, before: int = 99) -> PrefixHistory:
    return history_of(log(*bodies), LAYOUT, LEDGER, prefix, before)


def ranges(found: PrefixHistory) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in found.ranges.get(("orders", 0), [])]


def test_ranges_of_records_with_files_below_the_prefix_are_joined() -> None:
    bodies = (rows(0, 4, EIGHT), rows(4, 8, EIGHT, NINE), rows(8, 12, NINE), rows(12, 16, EIGHT))
    assert ranges(history(*bodies)) == [(0, 8), (12, 16)]
    assert ranges(history(*bodies, prefix=DAY)) == [(0, 16)]
    assert ranges(history(*bodies, before=2)) == [(0, 8)]
    assert history(*bodies).rows == 12


def test_partition_is_known_wherever_it_has_moved() -> None:
    moved = f"dt=20261120/_sluiceway-3-{'a' * 32}/hr=08"
    assert ranges(history(rows(0, 4, moved), rows(4, 8, NINE))) == [(0, 4)]


def test_ranges_of_another_log_of_the_name_stay_apart() -> None:
    other = rows(4, 8, EIGHT)
    other = replace(other, ranges=tuple(replace(one, topic_id="t2") for one in other.ranges))
    found = history(rows(0, 4, EIGHT), other)
    assert found.ranges["orders", 0] == [
        QueueRange("t1", "c1", 0, 4),
        QueueRange("t2", "c1", 4, 8),
    ]


def test_rows_of_before_a_partition_was_let_go_of_are_not_of_it() -> None:
    gone = ExpireRecord("old", (ExpiredPartition(EIGHT, BigInt(4), BigInt(1), "next"),))
    assert ranges(history(rows(0, 4, EIGHT), gone, rows(4, 8, EIGHT))) == [(4, 8)]
    # Another partition of the prefix still has its own.
    both = history(rows(0, 4, EIGHT, NINE), gone, prefix=DAY)
    assert ranges(both) == [(0, 4)]


def test_dirty_files_of_the_ranges_are_left_out() -> None:
    body = rows(0, 4, EIGHT, dirty=1)
    found = history(body, rows(4, 8, NINE, dirty=1))
    assert found.left_out == [LAYOUT.final(file.final) for file in body.dirty_files]


def lane(source: str, start: int, end: int, *files: FileRecord) -> LaneDataRecord:
    count, none = BigInt(end - start), BigInt(0)
    return LaneDataRecord(
        lane="l",
        epoch=9,
        ranges=(LaneSpan(source, BigInt(start), BigInt(end)),),
        files=files,
        dirty_files=(),
        counts=LaneCounts(count, count, none, none, none, none),
        schema="1",
        dirty_reasons={},
        timings_ms={},
        late_in=(),
    )


def test_replays_into_the_prefix_are_read_again_from_their_dirty_files() -> None:
    body = rows(0, 4, NINE, dirty=1)
    (dirty,) = body.dirty_files
    source = str(DirtySource(LEDGER, 0, dirty.final.rpartition("/")[2]))
    (file,) = rows(0, 1, EIGHT).files
    (elsewhere,) = rows(0, 1, NINE).files
    (found,) = history(body, lane(source, 0, 1, file)).spans
    assert (found.path, found.start, found.stop) == (LAYOUT.final(dirty.final), 0, 1)
    assert history(body, lane(source, 0, 1, elsewhere)).spans == []


def test_late_rows_in_their_own_place_stay_there_until_they_are_brought_in() -> None:
    body = with_late(rows(0, 4, NINE), 2)
    (late,) = body.late_files
    late = replace(late, final=LAYOUT.late_relative(EIGHT, late.final.rpartition("/")[2]))
    body = replace(body, late_files=(late,))
    found = history(body)
    assert (found.aside, found.ranges) == ({0: 2}, {})
    source = str(LateSource(LEDGER, 0, late.final.rpartition("/")[2]))
    (file,) = rows(0, 2, EIGHT).files
    brought = history(body, lane(source, 0, 2, file))
    # They are read again with the range that had them.
    assert (brought.aside, ranges(brought), brought.spans) == ({}, [(0, 4)], [])


def test_ranges_are_read_again_with_the_origin_end_that_they_were_read_with() -> None:
    evidence = {ORIGIN_HEADER: "sw-origin", ORIGIN_LOG: "c1/orders/0"}
    moved = ChangedSource("orders", 0, "c1", "t1", "c2", "t2", BigInt(4), BigInt(100), 1, evidence)

    def in_b(body: DataRecord, origin_end: int) -> DataRecord:
        (one,) = body.ranges
        one = replace(one, cluster_id="c2", topic_id="t2", origin_end=BigInt(origin_end))
        return replace(body, ranges=(one,))

    found = history(
        rows(0, 4, EIGHT),
        SourceChangeRecord("me@host", "a is lost", (moved,)),
        in_b(rows(100, 104, NINE), 6),
        in_b(rows(104, 108, EIGHT), 9),
        in_b(rows(108, 110, EIGHT), 10),
    )
    assert found.ranges["orders", 0] == [
        QueueRange("t1", "c1", 0, 4),
        QueueRange("t2", "c2", 104, 110, OriginLog("sw-origin", "c1/orders/0", "t1", BigInt(6))),
    ]
