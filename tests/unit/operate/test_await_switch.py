"""A switch is done once the other room's driver knows where its logs continue, not at its fence."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import RecordType
from sluiceway.ledger.room_files import RoomReport, write_advice
from sluiceway.operate.switch import await_switch
from sluiceway.storage.local import LocalStorage

HOLDS = RoomReport("b", 1, "d", "h", 1, "d", True, True, (), 0, 7, 1)  # noqa: FBT003
STANDBY, OF_BEFORE = replace(HOLDS, holds=False), replace(HOLDS, term=6)


class _FencedLog:
    """A log with a fence that is not read yet."""

    def __init__(self) -> None:
        self._new = [SimpleNamespace(type=RecordType.FENCE)]

    def advance(self, fold: object) -> list[SimpleNamespace]:
        del fold
        new, self._new = self._new, []
        return new


def _asked(folder: Path, *reports: RoomReport) -> tuple[bool, int]:
    """The answer of a wait in which room b reports this, and how many looks it took."""
    storage, layout = LocalStorage(), LedgerLayout(str(folder), "orders")
    place = SimpleNamespace(
        log=_FencedLog(), fold=SimpleNamespace(term=7), holder="b", storage=storage, layout=layout
    )
    left, looks = list(reports), 0

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        if left:
            write_advice(storage, layout, layout.room("b"), left.pop(0))
        return looks > len(reports) + 1

    plan: Any = SimpleNamespace(place=place, to="b", positions=())
    return await_switch(plan, rows=False, stopped=stopped), looks


def test_a_fence_alone_is_no_switch(tmp_path: Path) -> None:
    assert _asked(tmp_path) == (False, 2)


def test_reports_of_a_standby_and_of_a_term_before_do_not_count(tmp_path: Path) -> None:
    assert _asked(tmp_path, STANDBY, OF_BEFORE) == (False, 4)


def test_the_driver_that_has_the_route_ends_the_wait(tmp_path: Path) -> None:
    assert _asked(tmp_path, STANDBY, OF_BEFORE, HOLDS) == (True, 3)
