"""What a driver that has the route does for the other rooms."""

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.room_files import RoomReport, SwitchRequest, read_advice, write_advice
from sluiceway.observe.log import stderr_log
from sluiceway.route.rooms import RoomKeeper, RoomProgress
from sluiceway.storage.local import LocalStorage

if TYPE_CHECKING:
    from sluiceway.ledger.driver_term import OwnedLedger

RULE = RoomRule("a", "a", ("a", "b"), auto=False, after_s=1.0, give_way_s=0.0, digest="d")
OTHER = RoomReport("b", 1, "d2", "h", 2, "d", False, True, (), 5, 1, 1)  # noqa: FBT003


@dataclass
class Kept:
    """A keeper of room a on a local disk, in its term 3."""

    keeper: RoomKeeper
    storage: LocalStorage
    layout: LedgerLayout
    progress: RoomProgress
    lines: StringIO
    problems: tuple[str, ...] = ()

    def look(self) -> str | None:
        self.keeper._reported_at = float("-inf")
        self.keeper.look()
        return self.keeper.leave_to

    def other(self, **changes: object) -> None:
        report = replace(OTHER, **changes)  # type: ignore[arg-type]
        write_advice(self.storage, self.layout, self.layout.room("b"), report)

    def own(self) -> RoomReport:
        found = read_advice(self.storage, self.layout.room("a"), RoomReport)
        assert found is not None
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    storage.make_folders(layout.root)
    writer = SimpleNamespace(term=3)
    owned = SimpleNamespace(storage=storage, layout=layout, writer=writer, driver="d1")
    progress, lines = RoomProgress(0, "", compared=False), StringIO()
    found = Kept(cast("RoomKeeper", None), storage, layout, progress, lines)
    ledger = cast("OwnedLedger", owned)
    found.keeper = RoomKeeper(
        RULE, ledger, lambda: found.progress, lambda: found.problems, stderr_log(stream=lines)
    )
    return found


def _ask(kept: Kept, **changes: object) -> None:
    asked = SwitchRequest("i", "b", 3, "ann", "", now=False, force=False, requested_ms=1)
    asked = replace(asked, **changes)  # type: ignore[arg-type]
    write_advice(kept.storage, kept.layout, kept.layout.switch, asked)


def test_a_driver_leaves_when_its_own_term_is_asked_to(kept: Kept) -> None:
    assert kept.look() is None
    for wrong in ({"term": 2}, {"to": "a"}, {"to": "c"}):
        _ask(kept, **wrong)
        assert kept.look() is None
    _ask(kept)
    assert kept.look() == "b"


def test_a_driver_reports_that_it_has_the_route(kept: Kept) -> None:
    kept.look()
    first = kept.own()
    assert (first.holds, first.ready, first.term, first.digest) == (True, True, 3, "d")
    kept.look()
    assert kept.own().counter == first.counter + 1


def test_a_comparison_is_owed_until_the_catalog_has_all(kept: Kept) -> None:
    owes = replace(OTHER, room="a", compare_owed=True, auto_term=3)
    write_advice(kept.storage, kept.layout, kept.layout.room("a"), owes)
    kept.look()
    assert (kept.own().compare_owed, kept.own().auto_term) == (True, 3)
    kept.progress = replace(kept.progress, compared=True)
    kept.look()
    assert (kept.own().compare_owed, kept.own().auto_term) == (False, 3)


def test_a_driver_that_cannot_work_gives_way_to_a_ready_room_with_rows(kept: Kept) -> None:
    kept.progress = replace(kept.progress, refused="SW101 no broker answers")
    kept.other()
    assert kept.look() is None
    # Its counter has not risen yet: the report may be of a room that is gone.
    assert kept.look() is None
    kept.other(counter=2, ready=False)
    assert kept.look() is None
    kept.other(counter=3, waiting_rows=0)
    assert kept.look() is None
    kept.other(counter=4)
    assert kept.look() == "b"


def test_a_driver_that_works_stays(kept: Kept) -> None:
    for counter in range(1, 5):
        kept.other(counter=counter)
        assert kept.look() is None


def test_files_that_differ_are_logged_once(kept: Kept) -> None:
    for counter in range(1, 5):
        kept.other(counter=counter, digest="e")
        kept.look()
    assert kept.lines.getvalue().count("file_differs") == 1


def test_rows_in_one_room_only_are_logged_and_reported(kept: Kept) -> None:
    kept.problems = ("orders: min.insync.replicas is 1",)
    for _ in range(2):
        kept.keeper._checked_at = float("-inf")
        kept.look()
    assert kept.own().notices == kept.problems
    assert kept.lines.getvalue().count("rooms_in_one_place") == 1
