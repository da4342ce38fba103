"""Which rows of a fetch count, where a range ends and which jumps are looked at again."""

import pytest

from sluiceway.errors import TaskFailedError
from sluiceway.sources.contract import SourcePartition, Split, SplitEnd
from sluiceway.sources.kafka.progress import Jump, SplitProgress

LOG = SourcePartition("orders", 3)


def _progress(start: int, stop: int | None = None) -> SplitProgress:
    return SplitProgress(Split(LOG, start, stop))


def test_progress_contiguous_rows_are_counted_without_gaps() -> None:
    progress = _progress(10)
    assert progress.count([10, 11, 12]) == 3
    assert progress.end() == SplitEnd(end_offset=13, rows=3, gaps=0, leader_epoch=None)
    assert progress.pop_jumps() == []


def test_progress_nothing_read_ends_at_start() -> None:
    assert _progress(10).end() == SplitEnd(end_offset=10, rows=0, gaps=0, leader_epoch=None)


def test_progress_end_of_log_after_last_row_is_the_end_of_the_range() -> None:
    progress = _progress(10)
    progress.count([10, 11])
    progress.reach_end(13)
    assert progress.end() == SplitEnd(end_offset=13, rows=2, gaps=1, leader_epoch=None)


def test_epoch_of_the_last_row_is_kept_when_the_log_ends_right_behind_it() -> None:
    progress = _progress(10)
    progress.count([10, 11])
    progress.set_leader_epoch(11, 4)
    progress.reach_end(12)
    assert progress.end() == SplitEnd(end_offset=12, rows=2, gaps=0, leader_epoch=4)
    progress.reach_end(13)
    assert progress.end().leader_epoch is None


@pytest.mark.parametrize("event_offset", [10, 12])
def test_progress_end_of_log_before_last_row_changes_nothing(event_offset: int) -> None:
    progress = _progress(10)
    progress.count([10, 11])
    progress.reach_end(event_offset)
    assert progress.end().end_offset == 12


def test_progress_stop_inside_fetch_drops_rows_and_cannot_be_continued() -> None:
    progress = _progress(0, stop=3)
    assert progress.count([0, 1, 2, 3, 4]) == 3
    assert progress.done
    assert progress.overran
    assert progress.end() == SplitEnd(end_offset=3, rows=3, gaps=0, leader_epoch=None)
    assert progress.count([5, 6]) == 0
    assert progress.end().rows == 3


def test_progress_stop_met_exactly_leaves_consumer_usable() -> None:
    progress = _progress(0, stop=3)
    assert progress.count([0, 1, 2]) == 3
    assert progress.done
    assert not progress.overran


def test_progress_stop_in_a_hole_ends_at_the_stop() -> None:
    progress = _progress(0, stop=5)
    assert progress.count([0, 1, 9]) == 2
    assert progress.end() == SplitEnd(end_offset=5, rows=2, gaps=3, leader_epoch=None)


def test_progress_only_rows_behind_the_stop_ends_without_rows() -> None:
    progress = _progress(0, stop=5)
    assert progress.count([7, 8]) == 0
    assert progress.end() == SplitEnd(end_offset=5, rows=0, gaps=5, leader_epoch=None)
    assert progress.pop_jumps() == [Jump(0, 5)]


def test_progress_stop_reached_by_end_of_log_behind_it() -> None:
    progress = _progress(0, stop=5)
    progress.count([0, 1])
    progress.reach_end(8)
    assert progress.done
    assert progress.end().end_offset == 5


def test_progress_end_of_log_before_stop_goes_on() -> None:
    progress = _progress(0, stop=5)
    progress.count([0, 1])
    progress.reach_end(3)
    assert not progress.done
    progress.count([3, 4])
    assert progress.done


def test_progress_start_at_stop_is_done_at_once() -> None:
    assert _progress(5, stop=5).done


@pytest.mark.parametrize("offsets", [[9, 10], [10, 10], [10, 12, 11], [10, 11, 13, 13]])
def test_progress_offsets_that_cannot_be_fail_the_task(offsets: list[int]) -> None:
    with pytest.raises(TaskFailedError, match=r"orders\[3\]"):
        _progress(10).count(offsets)


def test_progress_row_again_in_next_fetch_fails_the_task() -> None:
    progress = _progress(10)
    progress.count([10, 11])
    with pytest.raises(TaskFailedError, match="offset 11 came"):
        progress.count([11, 12])


def test_progress_jump_at_start_is_doubtful_whatever_its_length() -> None:
    progress = _progress(10)
    progress.count([11, 12])
    assert progress.pop_jumps() == [Jump(10, 11)]
    assert progress.pop_jumps() == []


def test_progress_end_of_log_above_start_is_doubtful_whatever_its_length() -> None:
    progress = _progress(10)
    progress.reach_end(11)
    assert progress.pop_jumps() == [Jump(10, 11)]


@pytest.mark.parametrize(
    ("next_row", "doubtful"), [(1_011, []), (1_012, [Jump(11, 1_012)])], ids=["1000", "1001"]
)
def test_progress_jump_between_rows_is_doubtful_above_1000_offsets(
    next_row: int, doubtful: list[Jump]
) -> None:
    within, across, to_end = _progress(10), _progress(10), _progress(10)
    within.count([10, next_row, next_row + 1])
    across.count([10])
    across.count([next_row])
    to_end.count([10])
    to_end.reach_end(next_row)
    assert within.pop_jumps() == across.pop_jumps() == to_end.pop_jumps() == doubtful


def test_progress_many_short_holes_are_trusted() -> None:
    progress = _progress(0)
    progress.count(list(range(0, 10_000, 2)))
    assert progress.pop_jumps() == []
    assert progress.end().gaps == 4_999


def test_progress_jump_to_rows_behind_the_stop_ends_at_the_stop() -> None:
    progress = _progress(0, stop=2_000)
    progress.count([0, 5_000])
    assert progress.pop_jumps() == [Jump(1, 2_000)]


def _epoch_at_the_end(progress: SplitProgress) -> int | None:
    return progress.end().leader_epoch


def test_progress_epoch_of_the_last_row_stands_beside_the_offset_behind_it() -> None:
    progress = _progress(10)
    progress.count([10, 11])
    progress.set_leader_epoch(11, 4)
    assert _epoch_at_the_end(progress) == 4
    progress.count([12])
    progress.set_leader_epoch(12, 5)
    assert _epoch_at_the_end(progress) == 5


def test_progress_epoch_is_not_kept_past_markers() -> None:
    progress = _progress(10)
    progress.count([10, 11])
    progress.set_leader_epoch(11, 4)
    progress.reach_end(13)
    assert _epoch_at_the_end(progress) is None


def test_progress_epoch_is_not_kept_for_a_stop_in_a_hole() -> None:
    progress = _progress(0, stop=5)
    progress.count([0, 1, 9])
    progress.set_leader_epoch(1, 4)
    assert _epoch_at_the_end(progress) is None


def test_progress_epoch_of_a_row_just_below_the_stop_is_kept() -> None:
    progress = _progress(0, stop=2)
    progress.count([0, 1, 2])
    progress.set_leader_epoch(1, 4)
    assert _epoch_at_the_end(progress) == 4


def test_progress_first_hole_of_a_log_without_holes_is_looked_at_again() -> None:
    progress = SplitProgress(Split(LOG, 0), has_holes=False)
    progress.count([0, 1, 2])
    assert progress.pop_jumps() == []
    progress.count([4, 5, 9])
    assert progress.pop_jumps() == [Jump(3, 4)]
    progress.count([12])
    assert progress.pop_jumps() == []


def test_progress_hole_inside_the_first_fetch_of_a_log_without_holes_is_looked_at_again() -> None:
    progress = SplitProgress(Split(LOG, 0), has_holes=False)
    progress.count([0, 1, 3, 7, 9_000])
    assert progress.pop_jumps() == [Jump(2, 3), Jump(8, 9_000)]


def test_progress_marker_at_the_end_of_a_log_without_holes_is_looked_at_again() -> None:
    progress = SplitProgress(Split(LOG, 0), has_holes=False)
    progress.count([0, 1])
    progress.reach_end(3)
    assert progress.pop_jumps() == [Jump(2, 3)]
