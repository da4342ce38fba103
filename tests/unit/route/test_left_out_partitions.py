"""A route with a partition that nobody leads: the others go on, and nothing is claimed of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.schedule.source_view import read_source_view
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.session_on_disk import ONE, SessionOnDisk, session_on_disk

TWO = SourcePartition("orders", 1)


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionOnDisk]:
    """Both partitions are pinned and have 10 rows; nothing is read."""
    with session_on_disk(tmp_path / "t", monkeypatch) as found:
        found.source.rest[TWO] = LogBounds(0, 10, 10)
        view = found.view()
        found.session.committer.pin(found.session.planner.due_sources(view), view)
        yield found


def planned_starts(route: SessionOnDisk, *, bounded: bool = False) -> dict[SourcePartition, int]:
    planned = route.session.planner.plan(route.view(), bounded=bounded)
    splits = [] if planned is None else [each.split for each in planned.splits]
    return {split.partition: split.start_offset for split in splits}


def ends(route: SessionOnDisk) -> list[int]:
    return [known.end for _, known in sorted(route.owned.fold.sources.items())]


def test_the_others_go_on_and_the_status_names_the_one(route: SessionOnDisk) -> None:
    route.source.silent = frozenset({TWO})
    route.run_epoch(6)
    assert ends(route) == [6, 0]
    told = route.session.meter.read()
    assert told.left_out_count == 1
    assert "no leader answers" in told.left_out[str(TWO)]
    route.source.silent = frozenset()
    assert planned_starts(route) == {ONE: 6, TWO: 0}
    assert route.session.meter.read().left_out == {}


def test_one_that_has_vanished_keeps_its_end_and_is_found_again(route: SessionOnDisk) -> None:
    place = route.source.rest.pop(TWO)
    route.run_epoch(10)
    assert route.session.meter.read().left_out_count == 1
    assert ends(route) == [10, 0]
    route.source.rest[TWO] = place
    assert planned_starts(route) == {ONE: 10, TWO: 0}


def test_one_is_read_from_its_copy_as_far_as_that_goes(route: SessionOnDisk) -> None:
    route.run_one(TWO, 6)
    route.source.silent = frozenset({TWO})
    route.source.held[TWO] = LogBounds(0, 8, 8)
    assert planned_starts(route) == {ONE: 0, TWO: 6}
    assert "ends at offset 8" in route.session.meter.read().left_out[str(TWO)]
    for place in (LogBounds(0, 6, 6), LogBounds(0, 3, 3), LogBounds(7, 9, 9)):
        # It is behind, or retention took more of it: that says nothing about the log.
        route.source.held[TWO] = place
        assert planned_starts(route) == {ONE: 0}


def test_only_one_that_is_left_with_a_copy_is_read_from_it(route: SessionOnDisk) -> None:
    route.source.silent = frozenset({ONE, TWO})
    with pytest.raises(SourceUnavailableError):
        route.view()
    route.source.held[TWO] = LogBounds(0, 8, 8)
    assert planned_starts(route) == {TWO: 0}
    route.source.held[TWO] = LogBounds(0, 0, 0)
    with pytest.raises(SourceUnavailableError, match="no leader answers"):
        planned_starts(route)


def test_epoch_is_not_committed_when_nobody_tells_of_what_it_has_read(
    route: SessionOnDisk,
) -> None:
    route.source.silent = frozenset({TWO})
    planned = route.plan()
    answer = route.answer(planned, 6)
    route.source.silent = frozenset({ONE})
    with pytest.raises(SourceUnavailableError, match=r"orders\[0\]"):
        route.finish(planned, answer)
    route.source.held[ONE] = LogBounds(1, 8, 8)
    with pytest.raises(SourceUnavailableError, match=r"orders\[0\]"):
        route.finish(planned, answer)
    assert ends(route) == [0, 0]
    route.source.held[ONE] = LogBounds(0, 8, 8)
    route.finish(planned, answer)
    assert ends(route) == [6, 0]


def test_new_partition_begins_by_the_word_of_its_leader_alone(route: SessionOnDisk) -> None:
    three = SourcePartition("orders", 2)
    route.source.rest[three] = LogBounds(0, 5, 5)
    route.source.silent = frozenset({three})
    route.source.held[three] = LogBounds(2, 4, 4)
    view = route.view()
    with pytest.raises(SourceUnavailableError, match=r"orders\[2\]"):
        route.session.planner.due_sources(view)


def test_topic_of_a_pattern_is_retired_only_when_it_is_gone_for_good(
    route: SessionOnDisk,
) -> None:
    session, listed = route.session, ("orders",)
    session.config = replace(session.config, pattern="o.*")
    route.source.away = frozenset()
    session.committer.pin(session.planner.due_sources(route.view()), route.view())
    session.planner.set_topics(())
    nobody = read_source_view(route.source, ())
    assert session.planner.due_sources(nobody) is not None, "another source would be believed"
    route.source.away = frozenset({TWO})
    assert session.planner.due_sources(nobody) is None, "the topic may come back as it was"
    with pytest.raises(SourceUnavailableError, match="offsets retire JOB"):
        session.planner.plan(nobody, bounded=False)
    session.planner.set_topics(listed)
    assert planned_starts(route) == {ONE: 0, TWO: 0}


def test_bounded_run_is_not_caught_up_before_the_leader_has_told_its_end(
    route: SessionOnDisk,
) -> None:
    route.source.silent = frozenset({TWO})
    assert planned_starts(route, bounded=True) == {ONE: 0}
    route.run_epoch(10)
    with pytest.raises(SourceUnavailableError, match=r"orders\[1\]"):
        planned_starts(route, bounded=True)
    assert not route.session.planner.caught_up
    route.source.silent = frozenset()
    assert planned_starts(route, bounded=True) == {TWO: 0}
    route.source.silent = frozenset({TWO})
    # Its end is known now, and not reached.
    with pytest.raises(SourceUnavailableError, match=r"orders\[1\]"):
        planned_starts(route, bounded=True)
    route.source.silent = frozenset()
    route.run_one(TWO, 10)
    assert planned_starts(route, bounded=True) == {}
    assert route.session.planner.caught_up


@pytest.mark.parametrize("plans_before", [0, 1])
def test_bounded_run_reads_a_copy_to_its_end(route: SessionOnDisk, plans_before: int) -> None:
    for _ in range(plans_before):
        planned_starts(route, bounded=True)
    route.source.silent = frozenset({TWO})
    route.source.held[TWO] = LogBounds(0, 8, 8)
    planned = route.session.planner.plan(route.view(), bounded=True)
    assert planned is not None
    assert {str(each.split.partition): each.split.stop_offset for each in planned.splits} == {
        "orders[0]": 10,
        "orders[1]": 8,
    }


def test_nothing_is_called_fresh_while_one_is_left_out(route: SessionOnDisk) -> None:
    route.run_one(TWO, 10)
    route.run_one(ONE, 10)
    planned_starts(route)
    assert route.session.meter.read().lag_ms == 0
    route.source.silent = frozenset({TWO})
    planned_starts(route)
    told = route.session.meter.read()
    assert told.lag_records == 0
    assert told.lag_ms is not None
    before = route.session.meter.clock
    route.session.meter.clock = lambda: before() + 60
    planned_starts(route)
    assert (route.session.meter.read().lag_ms or 0) >= 60_000
