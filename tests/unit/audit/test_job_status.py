"""What is said of a route that no driver runs: its lag, and nothing of a driver that is gone."""

from dataclasses import replace
from typing import Any

import pytest

from sluiceway.audit import job_status
from sluiceway.audit.job_status import _Found, _measured, _of_ledger, _see
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix
from sluiceway.ledger.lease import Lease
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.types.strict_json import BigInt
from tools.board_sessions import placed_session
from tools.ledger_records import fence, fold_of, sources
from tools.session_on_disk import SmallSource

TWO = SourcePartition("orders", 1)
STOPPED = RouteStatus(route="r", table="t", state=RouteState.STOPPED)


def fold() -> Fold:
    return fold_of(fence(), sources(0, 1))


def view(topic_id: str = "t1", rest: dict[SourcePartition, LogBounds] | None = None) -> SourceView:
    return read_source_view(SmallSource(LogBounds(0, 10, 10), topic_id, rest or {}), ["orders"])


def test_lag_is_that_of_all_logs_or_not_known() -> None:
    both = view(rest={TWO: LogBounds(0, 5, 5)})
    assert _measured(STOPPED, fold(), both) == replace(STOPPED, lag_records=15)


def test_late_rows_and_replaced_rows_are_those_of_the_ledger() -> None:
    found = fold()
    found.late_rows = LateRows(side=BigInt(1), dirty=BigInt(2))
    found.closed = {
        "dt=1": ClosedPrefix(0, 1, 9, 7_000_000),
        "dt=2": ClosedPrefix(0, 1, 4, 9_000_000),
    }
    # What was announced before its rows were replaced says nothing of when that was.
    found.swaps = {"dt=1": 8, "dt=2": 5, "dt=3": 6}
    status = _of_ledger(STOPPED, found)
    assert (status.rows_late, status.late_rows) == (3, {"side": 1, "dirty": 2})
    assert status.last_commit_ms == 7000


def test_partition_that_is_gone_is_not_called_another_log() -> None:
    assert _measured(STOPPED, fold(), view()) == STOPPED


def test_topic_that_was_created_again_is_told_also_with_fewer_partitions() -> None:
    told = _measured(STOPPED, fold(), view("t2"))
    assert told.code == "SW455"
    assert "another log of this name" in (told.message or "")


@pytest.mark.parametrize(("lives", "shown"), [(True, "http://h:1"), (None, None)])
def test_address_of_sparks_pages_is_that_of_a_driver_that_lives(
    monkeypatch: pytest.MonkeyPatch, *, lives: bool | None, shown: str | None
) -> None:
    # A halted route has given its lease back: of another host nothing tells whether its driver is.
    monkeypatch.setattr(job_status, "is_alive", lambda _: lives)
    halted = RouteStatus(
        route="orders", table="t", state=RouteState.HALTED, term=2, spark_ui="http://h:1"
    )
    table: Any = None
    lease = Lease("d", 2, 1, released=True, host="h", boot_id="b", pid=1, start_ticks=1)
    seen = _see(_Found(table, lease, halted), placed_session("orders").config, set())
    assert seen.status == replace(halted, spark_ui=shown)
