"""`offsets reset --by-tail`: where the last rows that were read are in a truncated log."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import ResetRefusedError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import TAIL, ResetRecord, SourceChangeRecord
from sluiceway.operate.offset_moves import ResetRequest, ResetTarget, record_of, refuse_unaccepted
from sluiceway.operate.reset_offsets import accepted_by, planned_moves
from sluiceway.rooms import copy_reader
from sluiceway.sources.contract import SourcePartition
from tools import session_on_disk
from tools.ledger_records import data, fence, fold_of, sources, span
from tools.made_logs import ACCESS, MadeLog, MadeLogs, tail_before

ONE = SourcePartition("orders", 0)
WISH = ResetRequest(ResetTarget("tail"), "unclean election", "me@here")


def _fold() -> Fold:
    read = replace(span(0, 0, 20), tail=tail_before(range(20)))
    return fold_of(fence(), sources(0), data(1, 0, read))


@pytest.fixture
def config() -> RouteConfig:
    (route,) = compile_routes(parse_job(session_on_disk._JOB, Path("job.yaml"), {}).spec).routes
    return replace(route, source=ACCESS, keep_tail=True)


def _logs(monkeypatch: pytest.MonkeyPatch, log: MadeLog, topic_id: str = "t1") -> MadeLogs:
    logs = MadeLogs({ONE: log}, cluster_id="c1", topic_id=topic_id)
    monkeypatch.setattr(copy_reader, "read_splits", logs.read)
    return logs


@pytest.mark.parametrize(
    ("numbers", "end"),
    [
        # The last rows were lost, and others came in their place.
        ([*range(17), 70, 71], 17),
        # A restored log has other rows before them.
        ([*range(5, 20), 70], 15),
    ],
)
def test_a_truncated_log_is_read_on_after_the_last_row_that_is_left(
    config: RouteConfig, monkeypatch: pytest.MonkeyPatch, numbers: list[int], end: int
) -> None:
    fold = _fold()
    (move,) = planned_moves(config, fold, WISH, _logs(monkeypatch, MadeLog.of(numbers)))
    assert (move.new_end, move.identity) == (end, None)
    refuse_unaccepted([move], accepted_by(WISH))
    body = record_of(fold, WISH, [move], {ONE: tail_before(range(17))})
    assert isinstance(body, ResetRecord)
    assert [each.tail for each in body.partitions] == [tail_before(range(17))]


def test_a_log_that_was_replaced_is_another_one_with_the_same_rows(
    config: RouteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold, logs = _fold(), _logs(monkeypatch, MadeLog.of(range(30), step=2), topic_id="t2")
    (move,) = planned_moves(config, fold, WISH, logs)
    assert move.identity is not None
    body = record_of(fold, WISH, [move], {ONE: tail_before(range(20))})
    assert isinstance(body, SourceChangeRecord)
    (changed,) = body.partitions
    assert (int(changed.new_end), changed.evidence[TAIL]) == (39, tail_before(range(20)))


@pytest.mark.parametrize("numbers", [range(5), [99, *range(20), *range(10, 20)], range(50, 60)])
def test_a_log_without_these_rows_once_is_refused(
    config: RouteConfig, monkeypatch: pytest.MonkeyPatch, numbers: list[int]
) -> None:
    with pytest.raises(ResetRefusedError, match="not the rows that were read last"):
        planned_moves(config, _fold(), WISH, _logs(monkeypatch, MadeLog.of(numbers)))


def test_the_log_as_it_was_moves_nothing(
    config: RouteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned_moves(config, _fold(), WISH, _logs(monkeypatch, MadeLog.of(range(30)))) == ()
