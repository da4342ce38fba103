"""A route's readiness between its ledger and the pure rules: what is closed and announced when."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import CountsRule, ReadyRule
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.observe.log import stderr_log
from sluiceway.route import route_readiness
from sluiceway.route.route_readiness import RouteReadiness
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.sources.side_topics import SideTopic
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import counts_body, ready_body
from sluiceway.upkeep.record_queue import RecordQueue
from tools.table_on_disk import TableOnDisk, table_on_disk

S = 1_000_000
HOUR = 3600 * S
EIGHT_US = 1_795_161_600 * S
SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
RULE = ReadyRule(
    WatermarkRule(), columns=(("dt", "yyyyMMdd"), ("hr", "HH")), timezone="UTC", whole_key=True
)


class Asked:
    """What has to happen before READY, and never does."""

    def __init__(self) -> None:
        self.prefixes: list[str] = []

    def is_done(self, prefix: str) -> bool:
        self.prefixes.append(prefix)
        return False


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


def readiness(table: TableOnDisk) -> RouteReadiness:
    fold = table.log.fold()
    return RouteReadiness(
        RULE, RecordQueue(table.log, fold.closed), fold, stderr_log(level="error")
    )


def test_time_without_rows_waits_for_nothing_before_it_is_announced(table: TableOnDisk) -> None:
    table.rows(EIGHT)
    table.rows(closed=(SEVEN,))
    made, before = readiness(table), Asked()
    made.before = before
    assert made.to_announce(table.log.fold()) == SEVEN
    assert before.prefixes == []
    table.rows(closed=(EIGHT,))
    again = readiness(table)
    again.before = before
    again.add_announced(SEVEN)
    fold = table.log.fold()
    fold.closed[SEVEN] = replace(fold.closed[SEVEN], version=1)
    assert again.to_announce(fold) is None
    assert before.prefixes == [EIGHT]


def test_times_from_before_the_loss_of_a_room_wait_for_it(table: TableOnDisk) -> None:
    table.rows(SEVEN, EIGHT)
    table.rows(closed=(SEVEN, EIGHT))
    made, lost_us = readiness(table), [EIGHT_US]
    fold = table.log.fold()
    fold.published_through = fold.next_seq
    made.lost_before_us = lambda: lost_us[0]
    assert made.to_announce(fold) is None
    # A bounded run does not wait for a room.
    assert not made.waits
    lost_us[0] = EIGHT_US - HOUR
    assert made.to_announce(fold) == SEVEN
    assert made.waits


def test_row_ahead_of_the_clock_from_before_there_was_a_watermark_counts_as_now(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US + HOUR)
    fold = table.log.fold()
    end = fold.sources["orders", 0].end
    bounds = {SourcePartition("orders", 0): LogBounds(0, end, end)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + 10)
    mark = readiness(table).mark(fold, view)
    assert mark.us == EIGHT_US + 10


def test_look_by_a_clock_that_was_set_back_is_taken_for_one_of_the_moment_of_the_last(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US, mark=mark(EIGHT_US + HOUR))
    fold = table.log.fold()
    assert fold.watermark.read_at_us == EIGHT_US + HOUR
    made = readiness(table)
    back = made.mark(fold, SourceView({}, {}, {}, read_at_us=EIGHT_US + HOUR - 10 * S))
    assert back.read_at_us == EIGHT_US + HOUR
    later = made.mark(fold, SourceView({}, {}, {}, read_at_us=EIGHT_US + HOUR + 10 * S))
    assert later.read_at_us == EIGHT_US + HOUR + 10 * S


def test_watermark_is_told_when_it_rises_and_not_again(table: TableOnDisk) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US)
    fold = table.log.fold()
    end = fold.sources["orders", 0].end
    bounds = {SourcePartition("orders", 0): LogBounds(0, end, end)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + 10)
    risen = readiness(table).mark(fold, view)
    assert risen.us == EIGHT_US
    table.rows(EIGHT, mark=risen)
    fold = table.log.fold()
    assert fold.watermark.us == EIGHT_US
    end = fold.sources["orders", 0].end
    view = replace(view, bounds={SourcePartition("orders", 0): LogBounds(0, end, end)})
    again = readiness(table).mark(fold, view)
    assert (again.us, again.by) == (None, "")


def test_time_of_the_look_is_told_once_as_what_raised_it_when_all_are_idle(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US, mark=mark(EIGHT_US))
    end = table.log.fold().sources["orders", 0].end
    bounds = {SourcePartition("orders", 0): LogBounds(0, end, end)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + HOUR)
    idle_us = EIGHT_US + HOUR - RULE.watermark.idle_after_us
    risen = readiness(table).mark(table.log.fold(), view)
    assert (risen.us, risen.by) == (idle_us, "all_idle")
    table.rows(mark=risen)
    again = readiness(table).mark(table.log.fold(), view)
    assert (again.us, again.by) == (None, "")


def test_route_that_never_had_a_row_has_no_watermark_however_quiet_it_is(
    table: TableOnDisk,
) -> None:
    fold = table.log.fold()
    fold.sources["orders", 0].quiet_since_us = EIGHT_US
    bounds = {SourcePartition("orders", 0): LogBounds(0, 0, 0)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + HOUR)
    assert readiness(table).mark(fold, view).us is None


def test_route_whose_source_partitions_with_rows_are_all_retired_goes_on_by_time(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US)
    fold = table.log.fold()
    known = fold.sources["orders", 0]
    fold.sources["orders", 1] = replace(
        known, end=0, start=0, max_event_time_us=None, quiet_since_us=EIGHT_US
    )
    known.retired = True
    bounds = {SourcePartition("orders", 1): LogBounds(0, 0, 0)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + HOUR)
    mark = readiness(table).mark(fold, view)
    assert mark.us == EIGHT_US + HOUR - RULE.watermark.idle_after_us


COUNTED = replace(RULE, counts=CountsRule(SideTopic((), "audit"), CountRule()))


def commit_counts(table: TableOnDisk, **rows: int) -> None:
    """Somebody has counted hours: `h08=10`."""
    counts = {f"dt=20261120/hr={name[1:]}": number for name, number in rows.items()}
    table.writer.commit_made(
        lambda fold: counts_body(fold, (), ("audit", "c", "t"), {0: 1}, counts)
    )
    table.writer.set_published()


def counted(
    table: TableOnDisk, rule: ReadyRule = COUNTED
) -> tuple[RouteReadiness, RecordQueue, Fold]:
    """What a driver begins with."""
    fold = table.log.fold()
    queue = RecordQueue(table.log, fold.closed)
    return RouteReadiness(rule, queue, fold, stderr_log(level="warning")), queue, fold


def mark(read_at_us: int, us: int | None = None) -> WatermarkRecord:
    return WatermarkRecord(BigInt(read_at_us), None if us is None else BigInt(us))


def test_hour_is_closed_once_the_watermark_has_passed_it_and_its_count_is_there(
    table: TableOnDisk,
) -> None:
    nine_us = EIGHT_US + HOUR
    table.rows(EIGHT, newest_us=nine_us, mark=mark(nine_us + S, nine_us))
    made, queue, fold = counted(table)
    made.close_due(fold)
    assert queue.closed() == ()
    commit_counts(table, h08=11)
    made, queue, fold = counted(table)
    made.close_due(fold)
    assert queue.closed() == ()
    commit_counts(table, h08=10)
    made, queue, fold = counted(table)
    made.close_due(fold)
    assert (queue.closed(), queue.counted, queue.bound_us) == (
        (EIGHT,),
        (EIGHT,),
        nine_us,
    )


def test_counts_alone_close_before_the_watermark_and_without_one(table: TableOnDisk) -> None:
    alone = replace(COUNTED, counts=CountsRule(SideTopic((), "audit"), CountRule(alone=True)))
    table.rows(SEVEN, EIGHT, mark=mark(EIGHT_US))
    commit_counts(table, h07=10, h08=11)
    made, queue, fold = counted(table, alone)
    made.close_due(fold)
    assert (queue.closed(), queue.counted, queue.bound_us) == (
        (SEVEN,),
        (SEVEN,),
        None,
    )


def test_watermark_of_an_idle_route_is_told_once_while_a_count_is_missing(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US + 1, mark=mark(EIGHT_US + 1, EIGHT_US))
    for hours, is_told in ((1, True), (1.5, False), (2, True)):
        made, _, fold = counted(table)
        end = fold.sources["orders", 0].end
        bounds = {SourcePartition("orders", 0): LogBounds(0, end, end)}
        read_at_us = int(EIGHT_US + hours * HOUR + 600 * S)
        found = made.idle_mark(fold, SourceView({}, bounds, {}, read_at_us=read_at_us))
        assert (found is not None) is is_told, hours
        if found is not None:
            table.rows(mark=found)


ORDERS = ("orders", 0)


def quiet_sources(made: RouteReadiness, fold: Fold, read_at_us: int) -> list[str]:
    """Topics that a mark at this time says are idle now; all is read."""
    end = fold.sources[ORDERS].end
    bounds = {SourcePartition(*ORDERS): LogBounds(0, end, end)}
    return [each.topic for each in made.mark(fold, SourceView({}, bounds, {}, read_at_us)).idle]


def test_record_does_not_make_a_source_partition_that_was_quiet_before_active_again(
    table: TableOnDisk,
) -> None:
    made = readiness(table)
    assert quiet_sources(made, table.log.fold(), EIGHT_US) == []
    table.rows(mark=mark(EIGHT_US + 299 * S))
    fold = table.log.fold()
    assert fold.sources[ORDERS].quiet_since_us == EIGHT_US + 299 * S
    assert quiet_sources(made, fold, EIGHT_US + 299 * S) == []
    assert quiet_sources(made, fold, EIGHT_US + 300 * S) == ["orders"]
    assert quiet_sources(readiness(table), fold, EIGHT_US + 300 * S) == [], "another driver"


@pytest.mark.parametrize("seen_while_retired", [True, False])
def test_source_partition_that_comes_back_is_quiet_from_then_on(
    table: TableOnDisk, *, seen_while_retired: bool
) -> None:
    made = readiness(table)
    assert quiet_sources(made, table.log.fold(), EIGHT_US) == []
    table.rows(mark=mark(EIGHT_US + S))
    fold = table.log.fold()
    assert quiet_sources(made, fold, EIGHT_US + 2 * S) == []
    if seen_while_retired:
        fold.sources[ORDERS].retired = True
        assert quiet_sources(made, fold, EIGHT_US + 3 * S) == []
    # As a SOURCES record that resumes it leaves it.
    fold.sources[ORDERS].retired = False
    fold.sources[ORDERS].quiet_since_us = None
    assert quiet_sources(made, fold, EIGHT_US + 400 * S) == []
    assert quiet_sources(made, fold, EIGHT_US + 699 * S) == []
    assert quiet_sources(made, fold, EIGHT_US + 700 * S) == ["orders"]


def test_source_partition_that_was_away_before_any_record_is_quiet_from_its_return_on(
    table: TableOnDisk,
) -> None:
    made, fold = readiness(table), table.log.fold()
    assert quiet_sources(made, fold, EIGHT_US) == []
    fold.sources[ORDERS].retired = True
    assert quiet_sources(made, fold, EIGHT_US + S) == []
    fold.sources[ORDERS].retired = False
    assert quiet_sources(made, fold, EIGHT_US + 400 * S) == []
    assert quiet_sources(made, fold, EIGHT_US + 700 * S) == ["orders"]


def test_source_partition_with_a_row_is_quiet_from_that_row_on(table: TableOnDisk) -> None:
    made = readiness(table)
    assert quiet_sources(made, table.log.fold(), EIGHT_US) == []
    table.rows(EIGHT, newest_us=EIGHT_US, mark=mark(EIGHT_US + 200 * S))
    fold = table.log.fold()
    assert quiet_sources(made, fold, EIGHT_US + 499 * S) == []
    assert quiet_sources(made, fold, EIGHT_US + 500 * S) == ["orders"]


def test_missing_count_of_an_hour_that_is_over_is_told_once(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_readiness, "COUNT_WAIT_S", 0.0)
    monkeypatch.setattr("time.time_ns", lambda: (EIGHT_US + 2 * HOUR) * 1000)
    table.rows(EIGHT, newest_us=EIGHT_US + HOUR, mark=mark(EIGHT_US + HOUR + S, EIGHT_US + HOUR))
    commit_counts(table, h08=12)
    made, _, fold = counted(table)
    for _ in range(5):
        made.close_due(fold)
    told = capsys.readouterr().err
    assert told.count("ready_waits_for_count") == 1
    assert EIGHT in told
    assert "12" in told


def test_more_rows_than_were_counted_are_told(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    nine_us = EIGHT_US + HOUR
    table.rows(EIGHT, newest_us=nine_us, mark=mark(nine_us + S, nine_us))
    commit_counts(table, h08=7)
    made, queue, fold = counted(table)
    made.close_due(fold)
    assert queue.closed() == (EIGHT,)
    assert "more_rows_than_counted" in capsys.readouterr().err


def test_any_record_may_bring_the_count_or_the_rows_that_it_waits_for(table: TableOnDisk) -> None:
    nine_us = EIGHT_US + HOUR
    table.rows(EIGHT, newest_us=nine_us, mark=mark(nine_us + S, nine_us))
    made, queue, fold = counted(table)
    made.close_due(fold)
    commit_counts(table, h08=12)
    made.update(table.log.fold())
    assert queue.closed() == ()
    # As a replay of dirty rows: no epoch of the stream says that it has landed.
    table.rows(EIGHT, rows=2, mark=mark(nine_us + S))
    made.update(table.log.fold())
    assert queue.closed() == (EIGHT,)
    plain, queue, fold = counted(table, RULE)
    plain.update(fold)
    assert queue.closed() == ()


ALONE = replace(COUNTED, counts=CountsRule(SideTopic((), "audit"), CountRule(alone=True)))


def test_hour_that_an_epoch_in_flight_has_begun_is_announced_before_the_one_closed_by_its_count(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, mark=mark(EIGHT_US))
    commit_counts(table, h08=10)
    made, queue, fold = counted(table, ALONE)
    made.close_due(fold)
    assert queue.closed() == (EIGHT,)
    # It was planned when nothing was closed: its row of seven o'clock is in time.
    table.rows(SEVEN, mark=mark(EIGHT_US + S))
    table.rows(closed=(EIGHT,), mark=mark(EIGHT_US + 2 * S))
    fold = table.log.fold()
    assert EIGHT in fold.closed
    assert made.to_announce(fold) is None
    # A run that ends by itself does not wait for what may never be closed.
    assert not made.waits
    table.rows(closed=(SEVEN,), mark=mark(EIGHT_US + 3 * S))
    fold = table.log.fold()
    assert made.to_announce(fold) == SEVEN
    assert made.waits
    made.add_announced(SEVEN)
    fold.closed[SEVEN] = replace(fold.closed[SEVEN], version=1)
    assert made.to_announce(fold) == EIGHT


def test_one_of_two_hours_begun_in_flight_does_not_let_go_what_waits_for_the_other(
    table: TableOnDisk,
) -> None:
    six = "dt=20261120/hr=06"
    table.rows(EIGHT, mark=mark(EIGHT_US))
    table.rows(six, SEVEN, mark=mark(EIGHT_US + S))
    table.rows(closed=(six, EIGHT), mark=mark(EIGHT_US + 2 * S))
    made, _, fold = counted(table, ALONE)
    assert made.to_announce(fold) == six
    made.add_announced(six)
    fold.closed[six] = replace(fold.closed[six], version=1)
    assert made.to_announce(fold) is None


@pytest.mark.parametrize("announced_at_us", [EIGHT_US + HOUR, EIGHT_US + 9 * HOUR, None])
def test_hour_is_announced_again_by_the_time_of_the_ledger_whichever_driver_lives(
    table: TableOnDisk, announced_at_us: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rows(EIGHT, mark=mark(EIGHT_US))
    table.rows(closed=(EIGHT,), mark=mark(EIGHT_US + S))
    table.writer.commit(lambda fold: _made(ready_body(fold, EIGHT, announced_at_us)))
    table.writer.set_published()
    table.rows(EIGHT, mark=mark(EIGHT_US + 2 * S))
    table.rows(mark=mark(EIGHT_US + 3 * S))
    soon, due = (EIGHT_US + HOUR + minutes * 60 * S for minutes in (59, 60))
    for now_us, wanted in ((soon, announced_at_us is None), (due, True)):
        monkeypatch.setattr(route_readiness, "process_clock", lambda now=now_us: _ClockAt(now))
        # Each is a driver of its own, which has just begun.
        made, fold = readiness(table), table.log.fold()
        is_other_clock = announced_at_us is not None and announced_at_us > due
        assert made.to_announce(fold) == (EIGHT if wanted or is_other_clock else None)
    made.add_announced(EIGHT)
    assert made.to_announce(fold) is None


def _made(body: ReadyRecord | None) -> ReadyRecord:
    assert body is not None
    return body


@dataclass(frozen=True)
class _ClockAt:
    at_us: int

    def now_us(self) -> int:
        return self.at_us


def test_late_rows_of_an_hour_before_hold_up_no_announcement(table: TableOnDisk) -> None:
    table.rows(EIGHT, mark=mark(EIGHT_US))
    table.rows(closed=(EIGHT,), mark=mark(EIGHT_US + S))
    table.rows(SEVEN, mark=mark(EIGHT_US + 2 * S))
    made, _, fold = counted(table, ALONE)
    assert made.to_announce(fold) == EIGHT


def test_hour_that_is_closed_while_another_is_sealed_is_announced_all_the_same(
    table: TableOnDisk,
) -> None:
    """As many prefixes are closed as before, and they are others."""
    table.rows(SEVEN)
    table.rows(EIGHT, closed=(SEVEN,))
    made, fold = readiness(table), table.log.fold()
    fold.drop_published(fold.next_seq)
    assert made.to_announce(fold) == SEVEN
    del fold.closed[SEVEN]
    fold.sealed[SEVEN] = 9
    fold.closed[EIGHT] = ClosedPrefix(8)
    assert made.to_announce(fold) == EIGHT


def test_hour_is_announced_only_when_its_files_have_their_names(table: TableOnDisk) -> None:
    table.rows(SEVEN)
    table.rows(EIGHT, closed=(SEVEN,))
    made, fold = readiness(table), table.log.fold()
    fold.published_through = fold.partitions[SEVEN].last_seq
    assert made.to_announce(fold) is None
    fold.published_through += 1
    assert made.to_announce(fold) == SEVEN
