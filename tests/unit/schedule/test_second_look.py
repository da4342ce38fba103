"""A log that ends below its committed end: a leader that lags, or a truncation."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.schedule import partition_watch
from sluiceway.schedule.partition_watch import RECHECK_AFTER_S, LogEndHistory
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.ledger_records import data, fence, fold_of, sources, span

ONE, TWO = SourcePartition("orders", 0), SourcePartition("orders", 1)
BEHIND = LogBounds(0, 7, 7, leader_epoch=4)
Pass = Callable[[float], None]


@pytest.fixture
def fold() -> Fold:
    return fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 9), span(1, 0, 2)))


@pytest.fixture
def let_pass(monkeypatch: pytest.MonkeyPatch) -> Pass:
    """A clock that goes on only when it is told to."""
    now = [100.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    def let_pass(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(partition_watch, "time", Clock)
    return let_pass


def _in_doubt(looks: LogEndHistory, fold: Fold, place: LogBounds) -> bool:
    try:
        looks.update(fold, {ONE: place, TWO: LogBounds(0, 2, 2)})
    except SourceUnavailableError:
        return True
    return False


def test_log_that_stays_behind_under_one_leader_is_believed(fold: Fold, let_pass: Pass) -> None:
    looks = LogEndHistory()
    with pytest.raises(SourceUnavailableError, match=r"\[0\].*ends at 7, the committed end is 9"):
        looks.update(fold, {ONE: BEHIND})
    let_pass(RECHECK_AFTER_S - 0.1)
    assert _in_doubt(looks, fold, BEHIND)
    let_pass(0.1)
    assert not _in_doubt(looks, fold, BEHIND)


def test_table_that_is_short_is_doubted_in_words_of_a_table(fold: Fold) -> None:
    one = SourcePartition("table:others.events", 0)
    fold.sources[one.topic, 0] = fold.sources["orders", 0]
    with pytest.raises(SourceUnavailableError, match="ends at row 7, 9 rows were read") as doubt:
        LogEndHistory().update(fold, {one: BEHIND})
    assert "leader" not in str(doubt.value)


def test_leader_that_has_caught_up_is_not_held_against_its_log_later(
    fold: Fold, let_pass: Pass
) -> None:
    looks = LogEndHistory()
    assert _in_doubt(looks, fold, BEHIND)
    let_pass(RECHECK_AFTER_S)
    assert not _in_doubt(looks, fold, LogBounds(0, 9, 9, leader_epoch=4))
    assert _in_doubt(looks, fold, BEHIND)


def test_another_leader_has_time_of_its_own(fold: Fold, let_pass: Pass) -> None:
    looks = LogEndHistory()
    assert _in_doubt(looks, fold, BEHIND)
    let_pass(RECHECK_AFTER_S)
    assert _in_doubt(looks, fold, replace(BEHIND, leader_epoch=5))
    let_pass(RECHECK_AFTER_S)
    assert not _in_doubt(looks, fold, replace(BEHIND, leader_epoch=5))


def test_leader_that_does_not_answer_in_between_changes_nothing(fold: Fold, let_pass: Pass) -> None:
    looks = LogEndHistory()
    assert _in_doubt(looks, fold, BEHIND)
    let_pass(RECHECK_AFTER_S)
    looks.update(fold, {})
    assert not _in_doubt(looks, fold, BEHIND)


def test_retired_partition_is_nobodys_doubt() -> None:
    gone = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)), sources(0, retired=True))
    LogEndHistory().update(gone, {ONE: BEHIND})


def test_first_of_several_logs_that_are_behind_is_told(fold: Fold, let_pass: Pass) -> None:
    del let_pass
    with pytest.raises(SourceUnavailableError) as caught:
        LogEndHistory().update(fold, {ONE: BEHIND, TWO: LogBounds(0, 1, 1)})
    assert caught.value.where == str(ONE)
