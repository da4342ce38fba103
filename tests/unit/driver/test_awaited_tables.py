"""The rest of a `route_by` waits for the tables that its rows have named, and a run for both."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.driver.route_slot import RouteSlot, awaits_tables, pop_new_tables
from sluiceway.observe.log import stderr_log
from sluiceway.route.status import RouteState
from sluiceway.worker.plan import RowShare


def slot(
    table: str | None,
    state: RouteState = RouteState.RUNNING,
    *,
    pattern: str = "ods.{value}",
    named: bool = False,
) -> RouteSlot:
    share = RowShare("v", "$.v", pattern, table)
    session = SimpleNamespace(
        config=SimpleNamespace(share=share), committer=SimpleNamespace(has_new_tables=named)
    )
    return RouteSlot(cast("Any", session), state, waits_until=math.inf)


def plain() -> RouteSlot:
    session = SimpleNamespace(
        config=SimpleNamespace(share=None), committer=SimpleNamespace(has_new_tables=False)
    )
    return RouteSlot(cast("Any", session), RouteState.STARTING)


def test_rest_waits_while_one_of_its_tables_starts() -> None:
    rest, started, starting = slot(None), slot("ods.a"), slot("ods.b", RouteState.STARTING)
    assert not awaits_tables(rest, [rest, started, plain()])
    assert awaits_tables(rest, [rest, started, starting])


def test_tables_that_have_read_nothing_wait_for_each_other_while_starts_succeed() -> None:
    rest, fresh, starting = slot(None), slot("ods.a"), slot("ods.b", RouteState.STARTING)
    others = [rest, fresh, starting]
    assert awaits_tables(fresh, others)
    # Neither for one that hangs, nor once it reads.
    for each in others:
        each.waits_until = -math.inf
    assert not awaits_tables(fresh, others)
    assert awaits_tables(rest, others)
    rest.waits_until = math.inf
    fresh.stage(cast("Any", None), [])
    assert not awaits_tables(fresh, others)


def test_start_of_one_table_lets_the_others_wait_on() -> None:
    started = slot("ods.a", RouteState.STARTING)
    cast("Any", started.session).started = True
    started.waits_until = before = -math.inf
    started.go_on(stderr_log())
    assert (started.state, started.waits_until > before) == (RouteState.RUNNING, True)


def test_rest_waits_for_tables_that_are_only_named() -> None:
    rest = slot(None, named=True)
    assert awaits_tables(rest, [rest])
    assert pop_new_tables([plain(), rest])
    assert not pop_new_tables([plain(), rest])
    assert not awaits_tables(rest, [rest])


def test_rest_waits_for_no_table_of_another_or_of_one_that_halted() -> None:
    rest = slot(None)
    other = slot("lake.a", RouteState.STARTING, pattern="lake.{value}")
    assert not awaits_tables(rest, [rest, other, slot("ods.a", RouteState.HALTED)])


@pytest.mark.parametrize("state", [RouteState.HALTED, RouteState.CAUGHT_UP])
def test_run_is_not_over_while_named_tables_have_no_route(state: RouteState) -> None:
    assert slot(None, state).is_over()
    assert not slot(None, state, named=True).is_over()
    assert not slot(None).is_over()
