import time
from concurrent.futures import Future

import pytest

from sluiceway.driver.route_slot import RouteSlot
from sluiceway.errors import (
    FencedError,
    MetastoreUnavailableError,
    StorageUnavailableError,
    TableMismatchError,
)
from sluiceway.route.status import RouteState
from tools.board_sessions import placed_session

DROPPED = TableMismatchError("the table was dropped")


def test_pauses_of_a_halted_route_grow_to_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 7_000_000_000)
    slot = RouteSlot(placed_session("a"))
    pauses = [slot.halt(DROPPED) or 0.0 for _ in range(30)]
    for pause, wanted in zip(pauses, [30, 60, 120, 240, *[300] * 26], strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted
    assert (slot.state, slot.error) == (RouteState.HALTED, DROPPED)
    assert not slot.free()
    assert slot.next_try_ms == 7000 + int(pauses[-1] * 1000)


def test_route_that_halts_again_soon_goes_on_with_the_longer_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot = RouteSlot(placed_session("a"))
    slot.halt(DROPPED)
    slot.come_back()
    assert (slot.state, slot.error, slot.next_try_ms) == (
        RouteState.RUNNING,
        None,
        None,
    )
    assert (slot.halt(DROPPED) or 0.0) > 40
    slot.come_back()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 301)
    assert (slot.halt(DROPPED) or 99.0) < 40


def test_route_that_another_driver_fenced_is_never_tried_again() -> None:
    slot = RouteSlot(placed_session("a"))
    assert slot.halt(FencedError("term 2 is another's")) is None
    assert (slot.next_try_ms, slot.free()) == (None, False)


def test_outage_that_a_new_try_meets_is_not_why_the_route_has_halted() -> None:
    slot = RouteSlot(placed_session("a"))
    slot.halt(DROPPED)
    slot.halt(MetastoreUnavailableError("away"))
    assert slot.error is DROPPED
    slot.halt(TableMismatchError("was created again"))
    assert slot.error is not None
    assert "created again" in str(slot.error)


def test_put_that_is_repeated_is_shown_as_what_it_waits_for() -> None:
    session = placed_session("a")
    slot = RouteSlot(session, RouteState.RUNNING)
    session.trouble = StorageUnavailableError("disk full")
    assert slot.shown() == (RouteState.RUNNING, None)
    slot.work = Future()
    assert slot.shown() == (RouteState.WAITING, session.trouble)
    session.trouble = None
    assert slot.shown() == (RouteState.RUNNING, None)
