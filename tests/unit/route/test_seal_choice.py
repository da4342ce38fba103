"""What a route still needs of times that its ledger could seal."""

from dataclasses import replace
from typing import Any

import pytest

from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.ledger.folding.fold_state import ClosedPrefix, FoldState, PartitionState, SourceState
from sluiceway.route.route_start import RouteSealing
from sluiceway.worker.plan import IN_TIME_ALWAYS, LatePolicy, LateRule

HOUR_US = 3_600_000_000
EIGHT_US = 1_795_161_600_000_000
SIX, SEVEN, EIGHT = (f"dt=20261120/hr={hour:02d}" for hour in (6, 7, 8))
COLUMNS = (("dt", "yyyyMMdd"), ("hr", "HH"))
READY = ReadyRule(WatermarkRule(0, 0), COLUMNS, "UTC", whole_key=True)
KEEP = RetentionRule(
    keep_us=HOUR_US, text="1h", drop=True, columns=COLUMNS, timezone="UTC", announced=True
)


def sealing(**given: Any) -> RouteSealing:
    base = RouteSealing(READY, IN_TIME_ALWAYS, None, lambda: None)
    return replace(base, **given)


def announced(newest_us: int = EIGHT_US) -> FoldState:
    fold = FoldState()
    for seq, name in enumerate((SIX, SEVEN, EIGHT)):
        fold.closed[name] = ClosedPrefix(seq, version=1, ready_seq=10 + seq)
        fold.partitions[name] = PartitionState.begun((name[3:11], name[-2:]), name, seq)
    fold.sources["orders", 0] = SourceState("c", "t", 0, "earliest", 9, max_event_time_us=newest_us)
    return fold


def sealed(choice: RouteSealing, fold: FoldState) -> list[str]:
    may_seal = choice(fold)
    return [name for name in (SIX, SEVEN, EIGHT) if may_seal(name)]


def test_latest_closed_hour_is_never_sealed() -> None:
    """By it all that ends before it is closed, and the next one follows it."""
    assert sealed(sealing(), announced()) == [SIX, SEVEN]


def test_hour_that_a_receiver_was_not_told_of_is_kept() -> None:
    """The next driver finds by what is closed whom to tell of what."""
    assert sealed(sealing(told_below=lambda: 11), announced()) == [SIX]


@pytest.mark.parametrize(("window_h", "expected"), [(0, [SIX, SEVEN]), (1, [SIX]), (2, [])])
def test_hour_that_late_rows_may_reopen_is_kept(window_h: int, expected: list[str]) -> None:
    late = LateRule(LatePolicy.REOPEN, window_us=window_h * HOUR_US)
    assert sealed(sealing(late=late), announced()) == expected


def test_rows_put_aside_keep_no_hour_however_wide_the_window() -> None:
    late = LateRule(LatePolicy.SIDE, window_us=99 * HOUR_US)
    assert sealed(sealing(late=late), announced()) == [SIX, SEVEN]


def test_hour_that_is_to_be_let_go_of_is_kept_until_then() -> None:
    fold = announced()
    fold.partitions[SIX].expired = True
    assert sealed(sealing(retention=KEEP), fold) == [SIX]


def test_route_that_announces_nothing_keeps_what_another_one_had_closed() -> None:
    assert sealed(sealing(ready=None), announced()) == []


def test_open_partition_is_sealed_only_where_nothing_is_ever_closed() -> None:
    fold = announced()
    fold.closed.clear()
    assert sealed(sealing(ready=None), fold) == [SIX, SEVEN, EIGHT]
    assert sealed(sealing(), fold) == []
    fold.partitions[SIX].expired = True
    assert sealed(sealing(), fold) == [SIX]
