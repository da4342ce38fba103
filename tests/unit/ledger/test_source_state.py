"""Committed end of a source partition: what a range that was read changes of it."""

from dataclasses import replace

from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import span


def state() -> SourceState:
    """Pinned at 0, quiet since 7."""
    return SourceState("c1", "t1", 0, "earliest", 0, quiet_since_us=7, idle=True)


def test_source_partition_has_data_once_a_row_was_read_and_stays_so() -> None:
    made = state()
    made.advance(span(0, 0, 2, gaps=2))
    assert (made.end, made.has_data) == (2, False)
    made.advance(span(0, 2, 3))
    made.advance(span(0, 3, 5, gaps=2))
    assert (made.end, made.has_data) == (5, True)


def test_gaps_leave_a_source_partition_idle_and_rows_do_not() -> None:
    made = state()
    made.advance(span(0, 0, 2, gaps=2), 100)
    assert (made.idle, made.quiet_since_us) == (True, 7)
    made.advance(span(0, 2, 3), 200)
    assert (made.idle, made.quiet_since_us) == (False, 200)


def test_greatest_event_time_does_not_fall_with_an_older_row() -> None:
    made = state()
    for start, newest_us in enumerate((50, 40, 60)):
        made.advance(replace(span(0, start, start + 1), max_event_time_us=BigInt(newest_us)))
        assert made.max_event_time_us == max(50, newest_us)


def test_leader_epoch_stays_with_an_end_that_has_not_moved() -> None:
    made = state()
    made.advance(replace(span(0, 0, 2), end_epoch=3))
    made.advance(span(0, 2, 2))
    assert (made.end, made.end_epoch) == (2, 3)
    made.advance(span(0, 2, 4))
    assert (made.end, made.end_epoch) == (4, None)
