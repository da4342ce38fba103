import pytest

from sluiceway.errors import OffsetsLostError
from sluiceway.job.planner import check_identities, plan_sources, plan_splits
from sluiceway.ledger.fold import Fold
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from tools.ledger_records import data, fence, fold_of, sources, span


def part(number: int, topic: str = "orders") -> SourcePartition:
    return SourcePartition(topic, number)


def found(number: int, *, topic: str = "orders", topic_id: str = "t1") -> DiscoveredPartition:
    return DiscoveredPartition(part(number, topic), SourceIdentity("c1", topic_id), None)


def bounds(**places: tuple[int, int]) -> dict[SourcePartition, LogBounds]:
    return {part(int(name[1:])): LogBounds(low, high, high) for name, (low, high) in places.items()}


def test_sources_of_a_new_route_are_pinned_where_start_says() -> None:
    fold = fold_of(fence())
    for start, offsets in (("earliest", [5, 0]), ("latest", [100, 7])):
        record = plan_sources(
            fold, ("orders",), start, [found(0), found(1)], bounds(p0=(5, 100), p1=(0, 7))
        )
        assert record is not None
        assert [pin.start for pin in record.partitions] == offsets
        assert {pin.how for pin in record.partitions} == {start}


def test_partition_that_appears_later_starts_at_its_own_earliest_even_with_latest() -> None:
    fold = fold_of(fence(), sources(0))
    fold.subscription = (("orders",), "latest")
    record = plan_sources(
        fold, ("orders",), "latest", [found(0), found(1)], bounds(p0=(0, 9), p1=(0, 50))
    )
    assert record is not None
    assert [(pin.partition, pin.start, pin.how) for pin in record.partitions] == [
        (1, 0, "discovered")
    ]


def test_sources_that_are_all_known_need_no_record() -> None:
    fold = fold_of(fence(), sources(0))
    assert plan_sources(fold, ("orders",), "earliest", [found(0)], bounds(p0=(0, 9))) is None


def test_topic_that_left_the_subscription_is_retired_and_one_that_came_uses_start() -> None:
    fold = fold_of(fence(), sources(0))
    new = found(0, topic="other")
    place = {new.partition: LogBounds(3, 40, 40)}
    record = plan_sources(fold, ("other",), "latest", [new], place)
    assert record is not None
    assert [(p.topic, p.start, p.how, p.retired) for p in record.partitions] == [
        ("other", 40, "latest", False),
        ("orders", 0, "retired", True),
    ]


def test_recreated_topic_is_refused_with_both_ids() -> None:
    fold = fold_of(fence(), sources(0))
    check_identities(fold, [found(0)])
    with pytest.raises(OffsetsLostError, match=r"t2.*t1"):
        check_identities(fold, [found(0, topic_id="t2")])


def read_up_to(end: int) -> Fold:
    return fold_of(fence(), sources(0), data(1, 0, span(0, 0, end)))


def test_split_starts_at_the_committed_end() -> None:
    (planned,) = plan_splits(read_up_to(7), bounds(p0=(0, 20)), None)
    assert (planned.split.start_offset, planned.split.stop_offset, planned.range_start) == (
        7,
        None,
        7,
    )


def test_bounded_run_plans_only_what_is_below_its_targets() -> None:
    fold = read_up_to(7)
    (planned,) = plan_splits(fold, bounds(p0=(0, 20)), {part(0): 15})
    assert planned.split.stop_offset == 15
    assert plan_splits(fold, bounds(p0=(0, 20)), {part(0): 7}) == []
    assert plan_splits(fold, bounds(p0=(0, 20)), {}) == []


def test_retention_past_the_committed_end_halts_with_the_numbers() -> None:
    with pytest.raises(OffsetsLostError, match=r"starts at 12.*end is 7.*5 offsets"):
        plan_splits(read_up_to(7), bounds(p0=(12, 20)), None)


def test_retention_before_the_first_row_is_a_counted_gap_only_from_earliest() -> None:
    (planned,) = plan_splits(fold_of(fence(), sources(0)), bounds(p0=(12, 20)), None)
    assert (planned.split.start_offset, planned.range_start) == (12, 0)
    with pytest.raises(OffsetsLostError):
        plan_splits(fold_of(fence(), sources(0, how="latest")), bounds(p0=(12, 20)), None)


def test_truncated_log_halts() -> None:
    with pytest.raises(OffsetsLostError, match="truncated"):
        plan_splits(read_up_to(7), bounds(p0=(0, 6)), None)
