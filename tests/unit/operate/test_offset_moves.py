"""What `offsets reset` would change, decided without I/O."""

import pytest

from sluiceway.errors import OffsetsLostError, ResetRefusedError, SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.ledger.records import encode_record
from sluiceway.operate.offset_moves import (
    OPTIONS,
    OffsetMove,
    ResetRequest,
    ResetTarget,
    plan_moves,
    record_of,
    refuse_stale,
    refuse_unaccepted,
)
from sluiceway.schedule.planner import check_identities, plan_splits
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span

_ZERO, _ONE = SourcePartition("orders", 0), SourcePartition("orders", 1)


def _fold() -> Fold:
    """Committed ends 10 and 0."""
    return fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)), fence())


def _view(
    *bounds: tuple[int, int, int], topic_id: str = "t1", partitions: tuple[int, ...] = (0, 1)
) -> SourceView:
    found = tuple(
        DiscoveredPartition(SourcePartition("orders", n), SourceIdentity("c1", topic_id), 0)
        for n in partitions
    )
    logs = bounds or ((0, 20, 25), (0, 0, 0))
    by_log = {one.partition: LogBounds(*log) for one, log in zip(found, logs, strict=False)}
    return SourceView({"orders": found}, by_log, {})


def _wish(
    kind: str, *accepted: str, offset: int = 0, partitions: tuple[SourcePartition, ...] = (_ZERO,)
) -> ResetRequest:
    target = ResetTarget(kind, offset=offset)  # type: ignore[arg-type]
    return ResetRequest(target, "why", "me@here", partitions, frozenset(accepted))


def _plan(wish: ResetRequest, view: SourceView | None = None) -> tuple[OffsetMove, ...]:
    return plan_moves(_fold(), wish, view or _view(), {_ZERO: 13, _ONE: 0})


@pytest.mark.parametrize(
    ("wish", "new_end", "accepts", "moved"),
    [
        (_wish("earliest"), 0, "twice", 10),
        (_wish("latest"), 20, "gap", 10),
        (_wish("timestamp"), 13, "gap", 3),
        (_wish("offset", offset=4), 4, "twice", 6),
        (_wish("offset", offset=25), 25, "gap", 15),
    ],
)
def test_target_is_resolved_and_its_consequence_named(
    wish: ResetRequest, new_end: int, accepts: str, moved: int
) -> None:
    (move,) = _plan(wish)
    assert (move.old_end, move.new_end, move.accepts, move.offsets) == (10, new_end, accepts, moved)
    assert move.generation == 1
    with pytest.raises(ResetRefusedError, match=str(moved)) as refused:
        refuse_unaccepted([move], {"gap", "twice"} - {accepts})
    assert OPTIONS[accepts] in refused.value.hint
    # Nothing has changed meanwhile: the end of the log is a place to go on at, too.
    refuse_stale(_fold(), [move], _view())
    refuse_unaccepted([move], {accepts})


def test_partition_that_is_there_already_is_left_out() -> None:
    assert _plan(_wish("offset", offset=10)) == ()
    assert [move.partition for move in _plan(_wish("earliest", partitions=()))] == [_ZERO]


@pytest.mark.parametrize("leader_epoch", [None, 8])
def test_same_offset_under_another_leader_epoch_is_a_move(leader_epoch: int | None) -> None:
    fold, view = _fold(), _view()
    fold.sources["orders", 0].end_epoch = 7
    bounds = {_ZERO: LogBounds(0, 20, 25, leader_epoch)}
    wish = _wish("offset", "gap", offset=10)
    (move,) = plan_moves(fold, wish, SourceView(view.by_topic, bounds, {}), {})
    assert (move.new_end, move.accepts, move.offsets, move.generation) == (10, "gap", 0, 1)
    with pytest.raises(ResetRefusedError, match=r"truncated would never be read.*--accept-gap"):
        refuse_unaccepted([move], {"twice"})
    made = record(fold, record_of(fold, wish, [move]))
    fold.apply(made, encode_record(made))
    assert fold.sources["orders", 0].end_epoch is None


def test_same_offset_under_the_same_leader_epoch_is_none() -> None:
    fold, view = _fold(), _view()
    fold.sources["orders", 0].end_epoch = 7
    bounds = {_ZERO: LogBounds(0, 20, 25, 7)}
    wish = _wish("offset", "gap", offset=10)
    assert plan_moves(fold, wish, SourceView(view.by_topic, bounds, {}), {}) == ()


@pytest.mark.parametrize(
    ("wish", "view", "match"),
    [
        (_wish("offset", offset=26), _view(), "outside of the log"),
        (_wish("offset", offset=2), _view((3, 20, 25)), "outside of the log"),
        (_wish("latest", partitions=(SourcePartition("orders", 9),)), _view(), "does not read"),
        (_wish("latest"), _view(partitions=(1,)), "does not have it"),
    ],
)
def test_wish_that_cannot_be_is_refused(wish: ResetRequest, view: SourceView, match: str) -> None:
    with pytest.raises(ResetRefusedError, match=match):
        _plan(wish, view)


def test_partition_without_a_leader_is_not_moved_and_the_operator_may_try_again() -> None:
    view = _view((0, 20, 25), (0, 4, 4))
    silent = SourceView(view.by_topic, {_ONE: view.bounds[_ONE]}, {})
    with pytest.raises(SourceUnavailableError, match="no leader answers") as refused:
        _plan(_wish("latest", "gap"), silent)
    assert refused.value.where == str(_ZERO)
    # Nor are the others of the same wish: it is carried out whole.
    with pytest.raises(SourceUnavailableError):
        _plan(_wish("latest", "gap", partitions=()), silent)
    assert len(_plan(_wish("latest", "gap", partitions=(_ONE,)), silent)) == 1


def test_logs_that_are_others_are_moved_before_those_that_are_not() -> None:
    found = _view().by_topic["orders"]
    other = DiscoveredPartition(_ONE, SourceIdentity("c1", "t2"), 0)
    view = SourceView({"orders": (found[0], other)}, _view((0, 20, 25), (0, 4, 4)).bounds, {})
    assert [move.partition for move in _plan(_wish("latest", partitions=()), view)] == [_ONE]


def test_ledger_without_a_source_partition_is_refused() -> None:
    with pytest.raises(ResetRefusedError, match="no source partition"):
        plan_moves(fold_of(fence()), _wish("latest", partitions=()), _view(), {})


@pytest.mark.parametrize("view", [_view(), _view(topic_id="t2")], ids=["same", "another"])
def test_planned_record_is_one_that_the_fold_takes(view: SourceView) -> None:
    fold = _fold()
    another = view.by_topic["orders"][0].identity.topic_id == "t2"
    wish = _wish("latest", *(["identity"] if another else ["gap"]))
    moves = plan_moves(fold, wish, view, {})
    refuse_unaccepted(moves, wish.accepted)
    refuse_stale(fold, moves, view)
    body = record_of(fold, wish, moves)
    assert isinstance(body, SourceChangeRecord if another else ResetRecord)
    made = record(fold, body)
    fold.apply(made, encode_record(made))
    assert fold.sources["orders", 0].end == 20
    assert fold.sources["orders", 0].topic_id == ("t2" if another else "t1")


def test_another_log_is_planned_and_refused_until_it_is_accepted() -> None:
    (move,) = _plan(_wish("latest", "gap"), _view(topic_id="t2"))
    assert (move.accepts, move.old_end, move.new_end) == ("identity", 10, 20)
    with pytest.raises(ResetRefusedError, match="is not the log that was read") as refused:
        refuse_unaccepted([move], {"gap", "twice"})
    assert "--accept-identity" in refused.value.hint
    refuse_unaccepted([move], {"identity"})


def test_another_log_is_one_to_accept_also_at_the_offset_that_was_reached() -> None:
    (move,) = _plan(_wish("offset", offset=10), _view(topic_id="t2"))
    assert (move.accepts, move.new_end) == ("identity", 10)


def test_move_in_a_log_without_a_leader_is_refused_behind_the_fence() -> None:
    moves, view = _plan(_wish("latest")), _view()
    with pytest.raises(ResetRefusedError, match="moved on"):
        refuse_stale(_fold(), moves, SourceView(view.by_topic, {}, {}))


def test_identity_that_is_accepted_moves_only_logs_that_are_others() -> None:
    assert _plan(_wish("earliest", "identity", "twice")) == ()


def _retired() -> Fold:
    gone = sources(0, start=10, retired=True, how="retired")
    return fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)), gone, fence())


def test_retired_partition_whose_topic_was_created_again_is_read_once_accepted() -> None:
    fold = _retired()
    view = _view(topic_id="t2")
    with pytest.raises(OffsetsLostError, match="t2") as halted:
        check_identities(fold, view.of(["orders"]))
    assert "--partition orders:0 --to earliest --accept-identity" in halted.value.commands[1]
    wish = _wish("earliest", "identity")
    moves = plan_moves(fold, wish, view, {})
    refuse_unaccepted(moves, wish.accepted)
    refuse_stale(fold, moves, view)
    made = record(fold, record_of(fold, wish, moves))
    fold.apply(made, encode_record(made))
    check_identities(fold, view.of(["orders"])[:1])
    (split,) = plan_splits(fold, view.bounds, {_ZERO: 20})
    assert (split.range_start, split.split.start_offset) == (0, 0)


@pytest.mark.parametrize(
    ("wish", "planned"),
    [
        (_wish("earliest", "identity", partitions=()), []),
        (_wish("latest", "gap", partitions=()), [_ONE]),
        (_wish("earliest", "identity"), []),
    ],
    ids=["not named", "not accepted", "the same log"],
)
def test_retired_partition_is_left_alone_otherwise(
    wish: ResetRequest, planned: list[SourcePartition]
) -> None:
    view = _view((0, 20, 25), (0, 4, 4))
    assert [move.partition for move in plan_moves(_retired(), wish, view, {})] == planned


def test_retired_partition_is_no_part_of_a_plain_reset() -> None:
    with pytest.raises(ResetRefusedError, match="does not read"):
        plan_moves(_retired(), _wish("latest", "gap"), _view(), {})


@pytest.mark.parametrize(
    "view",
    [
        _view((21, 30, 30)),
        _view((0, 12, 15)),
        _view(topic_id="t2"),
        _view(partitions=(1,)),
    ],
    ids=["retention", "truncation", "another log", "gone"],
)
def test_move_that_is_not_possible_any_more_behind_the_fence_is_refused(view: SourceView) -> None:
    moves = _plan(_wish("latest"))
    with pytest.raises(ResetRefusedError, match="moved on"):
        refuse_stale(_fold(), moves, view)


def test_move_from_an_end_that_another_operator_has_moved_to_where_it_was_is_refused() -> None:
    wish = _wish("latest", "gap", "twice")
    moves = _plan(wish)
    fold = _fold()
    for offset in (20, 10):
        other = _wish("offset", "gap", "twice", offset=offset)
        for body in (fence(), record_of(fold, other, plan_moves(fold, other, _view(), {}))):
            made = record(fold, body)
            fold.apply(made, encode_record(made))
    assert fold.sources["orders", 0].end == 10
    with pytest.raises(ResetRefusedError, match="moved on"):
        refuse_stale(fold, moves, _view())


def test_move_from_an_end_that_another_driver_has_moved_is_refused() -> None:
    moves = _plan(_wish("latest"))
    fold = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 12)), fence())
    with pytest.raises(ResetRefusedError, match="moved on"):
        refuse_stale(fold, moves, _view())
