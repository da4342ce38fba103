"""What `offsets show` says of one source partition at which the next start would halt."""

import pytest

from sluiceway.audit.source_offsets import PartitionOffsets, _offsets
from sluiceway.ledger.folding.fold import Fold
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from tools.ledger_records import data, fence, fold_of, sources, span

_ZERO, _ONE = SourcePartition("orders", 0), SourcePartition("orders", 1)


def _fold(*, retired: bool = False) -> Fold:
    """Read up to 10."""
    gone = [sources(0, start=10, retired=True, how="retired")] if retired else []
    return fold_of(fence(), sources(0), data(1, 0, span(0, 0, 10)), *gone)


def _view(
    log: LogBounds | None, *, one: SourcePartition = _ZERO, topic_id: str = "t1"
) -> SourceView:
    """A cluster with one partition of the topic; without bounds no leader answers."""
    found = DiscoveredPartition(one, SourceIdentity("c1", topic_id), 0)
    return SourceView({"orders": (found,)}, {} if log is None else {one: log}, {})


def _shown(view: SourceView | None, *, retired: bool = False) -> PartitionOffsets:
    return _offsets(_fold(retired=retired), _ZERO, view)


def test_partition_that_can_be_read_on_has_no_problem_and_its_lag() -> None:
    shown = _shown(_view(LogBounds(0, 15, 18)))
    assert (shown.problem, shown.committed_end, shown.lag) == (None, 10, 5)


@pytest.mark.parametrize(
    ("view", "problem"),
    [
        (_view(LogBounds(0, 15, 15), one=_ONE), "the cluster does not have it; when it is gone"),
        (SourceView({}, {}, {}), "the cluster does not have it"),
        (_view(None), "no leader answers for it"),
        (_view(LogBounds(0, 15, 15), topic_id="t2"), "another log of this name"),
        (_view(LogBounds(12, 15, 15)), "2 offsets were deleted before they were read"),
        (_view(LogBounds(0, 8, 8)), "it was truncated"),
    ],
    ids=["partition gone", "topic gone", "no leader", "another log", "retention", "truncation"],
)
def test_next_start_that_would_halt_is_told_with_its_reason(view: SourceView, problem: str) -> None:
    assert problem in (_shown(view).problem or "")


@pytest.mark.parametrize("log", [LogBounds(0, 15, 15), LogBounds(12, 15, 15)])
def test_lag_is_not_counted_in_another_log_of_the_same_name(log: LogBounds) -> None:
    assert _shown(_view(log, topic_id="t2")).lag is None


def test_offsets_that_retention_took_are_no_lag() -> None:
    shown = _shown(_view(LogBounds(12, 15, 15)))
    assert (shown.log_start, shown.lag) == (12, 3)


def test_partition_that_was_retired_or_that_nobody_was_asked_about_has_no_problem() -> None:
    gone = _view(LogBounds(0, 15, 15), one=_ONE)
    assert _shown(gone, retired=True).problem is None
    assert _shown(None).problem is None
    assert _shown(None).lag is None
