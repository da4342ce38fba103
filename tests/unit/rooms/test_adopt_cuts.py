"""A copy that is adopted after any objects have come has each row of the queue once."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sluiceway.errors import RequestRefusedError, SluicewayError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.rooms.adopt_cut import LedgerCut, NeededFiles
from tools.lost_room import (
    Queue,
    RoomB,
    RoomTable,
    adopted,
    copy_some,
    dice,
    ends_of,
    room_a,
    rows_up_to,
)

TABLES, COPIES = 10, 10
REFUSALS = ("no slot of the copy has all", "the slots that could be kept name no source")


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Tries:
    """What became of the copies of some tables."""

    def __init__(self, folder: Path) -> None:
        self.refused = self.cut = self.placed = self.moved = 0
        self._folder = folder

    def run(self, tables: int, copies: int) -> None:
        for seed in range(tables):
            rng = dice(seed)
            table = room_a(self._folder / f"a{seed}", rng, epochs=rng.randint(5, 12))
            for number in range(copies):
                self._adopt(table, self._folder / f"b{seed}-{number}", dice(number))

    def _adopt(self, table: RoomTable, folder: Path, rng: Random) -> None:
        room, ends = RoomB(folder), ends_of(table, more=7)
        copy_some(table, room.root, rng)
        try:
            plan = adopted(room, Queue(ends))
        except RequestRefusedError as error:
            if not error.message.startswith(REFUSALS):
                raise
            self.refused += 1
            return
        assert plan.cut is not None
        self.cut += plan.cut.kept.next_seq < plan.cut.chained
        self.placed += bool(plan.cut.to_place)
        self.moved += bool(plan.cut.to_move)
        driver = room.driver(rng)
        assert driver.fold.term == 1_000_001
        half = {n: (driver.fold.sources["orders", n].end + end) // 2 for n, end in ends.items()}
        driver.run_epoch(0, half)
        driver.compact("dt=1")
        driver.run_epoch(0, ends)
        assert driver.rows() == rows_up_to(ends), folder


def test_each_row_is_there_once_whatever_objects_have_come(tmp_path: Path) -> None:
    """Of 100 copies: those that cannot be adopted say so, all others lose and double nothing."""
    tries = Tries(tmp_path)
    tries.run(TABLES, COPIES)
    assert tries.refused < TABLES * COPIES / 4
    assert min(tries.cut, tries.placed, tries.moved) > TABLES * COPIES / 10


def _always(self: NeededFiles, fold: object) -> bool:
    return True


def _one_log(self: LedgerLayout, generation: int) -> str:
    return f"{self.root}/log"


WRONG: dict[str, tuple[type, str, Any]] = {
    "cut at the end of the chain": (NeededFiles, "is_whole", _always),
    "unnamed files stay where readers look": (LedgerCut, "to_move", ()),
    "what the lost room had published is believed": (LedgerCut, "to_place", ()),
    "one log folder": (LedgerLayout, "log_of", _one_log),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_adopts_are_found_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, attribute, wrong = WRONG[name]
    monkeypatch.setattr(kind, attribute, wrong)
    found: tuple[type[BaseException], ...] = (AssertionError, FileNotFoundError, SluicewayError)
    with pytest.raises(found):
        Tries(tmp_path).run(3, 4)
