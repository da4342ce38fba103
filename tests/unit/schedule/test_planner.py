from dataclasses import replace

import pytest

from sluiceway.errors import OffsetsLostError, SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.ledger.records import encode_record
from sluiceway.schedule.planner import (
    check_identities,
    missed_partitions,
    new_partitions,
    plan_sources,
    plan_splits,
    up_to_copies,
)
from sluiceway.schedule.start_offsets import ResolvedStart
from sluiceway.sources.contract import (
    LAKE_CLUSTER,
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span


def part(number: int, topic: str = "orders") -> SourcePartition:
    return SourcePartition(topic, number)


def found(number: int, *, topic: str = "orders", topic_id: str = "t1") -> DiscoveredPartition:
    return DiscoveredPartition(part(number, topic), SourceIdentity("c1", topic_id), None)


def bounds(**places: tuple[int, int]) -> dict[SourcePartition, LogBounds]:
    return {part(int(name[1:])): LogBounds(low, high, high) for name, (low, high) in places.items()}


ORDERS = Subscription(("orders",), "", "earliest")


def starts(**offsets: int) -> dict[SourcePartition, ResolvedStart]:
    return {part(int(name[1:])): ResolvedStart(at, "group") for name, at in offsets.items()}


def test_sources_of_a_new_route_are_pinned_where_start_says() -> None:
    fold = fold_of(fence())
    both = [found(0), found(1)]
    assert new_partitions(fold, ORDERS, both) == (part(0), part(1))
    planned = plan_sources(fold, ORDERS, both, bounds(p0=(5, 100), p1=(0, 7)), starts(p0=9, p1=3))
    assert planned is not None
    assert [(pin.start, pin.how) for pin in planned.partitions] == [(9, "group"), (3, "group")]
    assert (planned.topics, planned.pattern, planned.start) == (("orders",), "", "earliest")


def test_partition_that_appears_later_starts_at_its_own_earliest_even_with_latest() -> None:
    fold = fold_of(fence(), sources(0))
    latest = replace(ORDERS, start="latest")
    fold.subscription = latest
    both = [found(0), found(1)]
    assert new_partitions(fold, latest, both) == ()
    planned = plan_sources(fold, latest, both, bounds(p0=(0, 9), p1=(0, 50)), {})
    assert planned is not None
    assert [(pin.partition, pin.start, pin.how) for pin in planned.partitions] == [
        (1, 0, "discovered")
    ]


def test_topic_that_joins_an_unchanged_pattern_is_discovered() -> None:
    fold = fold_of(fence(), sources(0))
    before = Subscription(("orders",), "o.*", "latest")
    fold.subscription = before
    now = replace(before, topics=("orders", "other"))
    new = found(0, topic="other")
    assert new_partitions(fold, now, [found(0), new]) == ()
    place = {new.partition: LogBounds(3, 40, 40)}
    planned = plan_sources(fold, now, [found(0), new], place, {})
    assert planned is not None
    assert [(p.topic, p.start, p.how) for p in planned.partitions] == [("other", 3, "discovered")]
    assert planned.pattern == "o.*"


@pytest.mark.parametrize("before", ["", "or.*"])
def test_topic_that_comes_with_another_pattern_begins_where_start_says(before: str) -> None:
    fold = fold_of(fence(), sources(0))
    fold.subscription = replace(ORDERS, pattern=before)
    now = Subscription(("orders", "other"), "o.*", "earliest")
    new = found(0, topic="other")
    assert new_partitions(fold, now, [found(0), new]) == (new.partition,)


def test_topic_that_left_a_pattern_is_retired_and_resumed_at_its_end() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 7)))
    fold.subscription = replace(ORDERS, pattern="o.*")
    gone = plan_sources(fold, replace(fold.subscription, topics=()), [], {}, {})
    assert gone is not None
    assert [(p.topic, p.start, p.retired) for p in gone.partitions] == [("orders", 7, True)]
    made = record(fold, gone)
    fold.apply(made, encode_record(made))
    back = replace(ORDERS, pattern="o.*")
    assert new_partitions(fold, back, [found(0)]) == ()
    again = plan_sources(fold, back, [found(0)], bounds(p0=(0, 9)), {})
    assert again is not None
    assert [(p.start, p.how, p.retired) for p in again.partitions] == [(7, "resumed", False)]


def test_topics_that_a_pattern_misses_are_told_and_those_of_another_pattern_not() -> None:
    fold = fold_of(fence(), sources(0, 1), sources(1, retired=True))
    before = Subscription(("orders",), "o.*", "earliest")
    fold.subscription = before
    assert missed_partitions(fold, replace(before, topics=())) == (part(0),)
    assert missed_partitions(fold, before) == ()
    assert missed_partitions(fold, Subscription((), "x.*", "earliest")) == ()


def test_sources_that_are_all_known_need_no_record() -> None:
    fold = fold_of(fence(), sources(0))
    assert plan_sources(fold, ORDERS, [found(0)], bounds(p0=(0, 9)), {}) is None


def test_changed_subscription_needs_a_record_without_pins() -> None:
    fold = fold_of(fence(), sources(0))
    for changed in (replace(ORDERS, start="latest"), replace(ORDERS, pattern="o.*")):
        planned = plan_sources(fold, changed, [found(0)], bounds(p0=(0, 9)), {})
        assert planned is not None
        assert planned.partitions == ()


def test_topic_that_left_the_subscription_is_retired_and_one_that_came_uses_start() -> None:
    fold = fold_of(fence(), sources(0))
    new = found(0, topic="other")
    now = Subscription(("other",), "", "latest")
    assert new_partitions(fold, now, [new]) == (new.partition,)
    place = {new.partition: LogBounds(3, 40, 40)}
    start = {new.partition: ResolvedStart(40, "latest")}
    planned = plan_sources(fold, now, [new], place, start)
    assert planned is not None
    assert [(p.topic, p.start, p.how, p.retired) for p in planned.partitions] == [
        ("other", 40, "latest", False),
        ("orders", 0, "retired", True),
    ]


def test_recreated_topic_is_refused_with_both_ids() -> None:
    fold = fold_of(fence(), sources(0))
    check_identities(fold, [found(0)])
    other = DiscoveredPartition(SourcePartition("orders", "a/0"), found(0).identity, None)
    with pytest.raises(OffsetsLostError, match="another kind before"):
        check_identities(fold, [other])
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


def test_partition_without_a_leader_fails_no_run_whose_others_are_at_their_targets() -> None:
    fold = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)))
    targets = {part(0): 10, part(1): 5}
    assert plan_splits(fold, bounds(p0=(0, 20)), targets) == []
    with pytest.raises(SourceUnavailableError, match="no leader answers"):
        plan_splits(fold, {}, targets)


def test_rows_wait_until_another_room_has_copies_of_them() -> None:
    fold = fold_of(fence(), sources(0, 1, 2), data(1, 0, span(0, 0, 7)))
    splits = plan_splits(fold, bounds(p0=(0, 20), p1=(0, 20), p2=(0, 20)), None)
    found = up_to_copies(splits, {"orders/0": 12, "orders/1": 0})
    assert [(each.split.partition, each.split.stop_offset) for each in found] == [(part(0), 12)]
    assert up_to_copies(splits, {"orders/0": 7}) == []
    targets = {part(0): 10, part(1): 3}
    bounded = plan_splits(fold, bounds(p0=(0, 20), p1=(0, 20), p2=(0, 20)), targets)
    found = up_to_copies(bounded, {"orders/0": 12, "orders/1": 2})
    assert [each.split.stop_offset for each in found] == [10, 2]


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


@pytest.mark.parametrize("log", [(5, 5), (9, 12)], ids=["emptied", "past the target"])
def test_bounded_run_is_at_its_end_when_retention_took_all_that_it_was_to_read(
    log: tuple[int, int],
) -> None:
    fold = fold_of(fence(), sources(0))
    assert plan_splits(fold, bounds(p0=log), {part(0): 5}) == []
    (later,) = plan_splits(fold, bounds(p0=log), None)
    assert (later.split.start_offset, later.range_start) == (log[0], 0)


def test_partition_that_the_cluster_does_not_describe_is_waited_for() -> None:
    with pytest.raises(SourceUnavailableError, match=r"orders\[0\]"):
        plan_splits(read_up_to(7), {}, None)


def test_one_that_was_given_up_is_none_to_go_on_with() -> None:
    fold = fold_of(fence(), sources(0, 1), sources(1, retired=True))
    with pytest.raises(SourceUnavailableError, match=r"orders\[0\]"):
        plan_splits(fold, bounds(p1=(0, 5)), None)


def test_truncated_log_halts() -> None:
    with pytest.raises(OffsetsLostError, match="truncated"):
        plan_splits(read_up_to(7), bounds(p0=(0, 6)), None)


def test_table_of_others_that_removes_rows_after_the_reading_began_halts() -> None:
    fold = read_up_to(7)
    known = fold.sources["orders", 0]
    known.cluster_id, known.newest_slot = LAKE_CLUSTER, 3
    before = LogBounds(0, 7, 7, removed_slot=3)
    (planned,) = plan_splits(fold, {part(0): before}, None)
    assert (planned.split.start_offset, planned.split.newest_slot) == (7, 3)
    # Also when there is nothing to read, or less than before.
    for end in (7, 9, 5):
        with pytest.raises(OffsetsLostError, match=r"number 4 has removed .*; 7 rows were read"):
            plan_splits(fold, {part(0): replace(before, end_offset=end, removed_slot=4)}, None)
    rolled_back = LogBounds(0, 6, 6, removed_slot=3)
    with pytest.raises(OffsetsLostError, match="rolled back: it has 6 rows, 7 were read before"):
        plan_splits(fold, {part(0): rolled_back}, None)


def test_table_of_others_that_was_made_again_is_refused_without_words_of_a_ledger() -> None:
    fold = read_up_to(7)
    fold.sources["orders", 0].cluster_id = LAKE_CLUSTER
    again = DiscoveredPartition(part(0), SourceIdentity(LAKE_CLUSTER, "t2"), None)
    with pytest.raises(OffsetsLostError, match="the table is not the same as before: t2") as caught:
        check_identities(fold, [again])
    assert "_sluiceway" not in caught.value.hint


def test_retired_source_partition_is_not_read_and_not_retired_again() -> None:
    fold = fold_of(fence(), sources(0), sources(0, retired=True))
    assert plan_splits(fold, {}, None) == []
    fold.subscription = replace(ORDERS, topics=())
    assert plan_sources(fold, fold.subscription, [], {}, {}) is None


@pytest.mark.parametrize(
    ("known", "leader", "told"),
    [(3, 3, (3, False)), (3, 4, (3, True)), (3, None, (3, True)), (None, 4, (None, False))],
)
def test_split_tells_the_leader_epoch_of_its_start_and_whether_another_has_begun(
    known: int | None, leader: int | None, told: tuple[int | None, bool]
) -> None:
    fold = read_up_to(7)
    fold.sources["orders", 0].end_epoch = known
    (planned,) = plan_splits(fold, {part(0): LogBounds(0, 20, 20, leader)}, None)
    assert (planned.split.leader_epoch, planned.split.new_leader) == told


def test_leader_epoch_of_the_committed_end_says_nothing_of_a_later_offset() -> None:
    fold = fold_of(fence(), sources(0))
    fold.sources["orders", 0].end_epoch = 3
    (planned,) = plan_splits(fold, {part(0): LogBounds(12, 20, 20, 4)}, None)
    assert planned.split.start_offset == 12
    assert (planned.split.leader_epoch, planned.split.new_leader) == (None, False)
