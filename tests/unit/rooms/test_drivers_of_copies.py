"""The product's own sessions in both rooms: before, at and after an adopt."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import FencedError, LedgerMismatchError
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.generations import Generation, claim_generation
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import DataRecord
from sluiceway.rooms.adopt_table import AdoptPlan, CopiedPlace, adopt_table, plan_adopt
from sluiceway.route import route_session, route_start
from sluiceway.route.ownership import table_identity
from sluiceway.sources.contract import LogBounds
from sluiceway.storage.local import LocalStorage
from tools.lost_room import ORDER
from tools.session_on_disk import DiskTable, SessionOnDisk, SmallSource, session_on_disk


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Rooms:
    """A job in room a, and a copy of its table in room b."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.tables = {name: DiskTable(folder / name) for name in ("a", "b")}
        for name in ("a", "b"):
            (folder / name).mkdir()
        self.folder = folder

    def rule(self, room: str) -> RoomRule:
        return RoomRule(room, "a", ("a", "b"), False, 10.0, 30.0, "", copied=True)  # noqa: FBT003

    def layout(self, room: str) -> LedgerLayout:
        return LedgerLayout(str(self.folder / room), "orders")

    @contextmanager
    def session(self, room: str) -> Iterator[SessionOnDisk]:
        with session_on_disk(
            self.folder / room,
            self._monkeypatch,
            table=self.tables[room],
            rooms=self.rule(room),
        ) as session:
            yield session

    def copy(self, lacking: str) -> None:
        shutil.copytree(self.folder / "a", self.folder / "b", dirs_exist_ok=True)
        (self.folder / "b" / lacking).unlink()

    def plan(self, session: SessionOnDisk) -> AdoptPlan:
        state = self.tables["b"].open()
        place = CopiedPlace(
            session.session.config,
            self.rule("b"),
            LocalStorage(),
            self.layout("b"),
            table_identity(state),
            state,
        )
        return plan_adopt(place, SmallSource(LogBounds(0, 10, 10)))


def last_file(owned: OwnedLedger) -> str:
    """Final name of the file of the last epoch."""
    found = [record.body for record, _ in owned.log.records()]
    return [body.files[0].final for body in found if isinstance(body, DataRecord)][-1]


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rooms:
    """Room a has read rows 0 to 7; the copy lacks the file of rows 4 to 7."""
    made = Rooms(tmp_path, monkeypatch)
    with made.session("a") as session:
        session.run_epoch(4)
        session.run_epoch(8)
        session.session.finish_effects()
        made.copy(last_file(session.owned))
    return made


def test_room_b_reads_what_was_cut_and_room_a_is_fenced(rooms: Rooms) -> None:
    with rooms.session("a") as a:
        plan = rooms.plan(a)
        slot = adopt_table(plan, ORDER, rooms.tables["b"])
        with rooms.session("b") as b:
            owned = b.owned
            assert (owned.fold.term, owned.fold.adoptions[0].seq) == (1_000_001, slot)
            assert [split.split.start_offset for split in b.plan().splits] == [4]
            b.run_epoch(10)
            b.session.finish_effects()
        rows = [path.read_text().count("row") for path in (rooms.folder / "b").glob("*.parquet")]
        assert sorted(rows) == [4, 6]
        a.owned.tenure.check_now()
        claims = Path(rooms.layout("b").generation(1)).parent
        shutil.copytree(claims, Path(rooms.layout("a").generation(1)).parent)
        with pytest.raises(FencedError, match="room b has adopted a copy of this table"):
            a.owned.tenure.check_now()
    with (
        pytest.raises(FencedError, match="as generation 1"),
        rooms.session("a"),
    ):
        pass


def test_the_catalog_is_compared_until_it_has_all_that_was_adopted(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []
    begin = route_start.begin_following

    def recorded(*given: Any, whole: bool) -> None:
        compared.append(whole)
        begin(*given, whole=whole)

    monkeypatch.setattr(route_session, "begin_following", recorded)
    with rooms.session("a") as a:
        adopt_table(rooms.plan(a), ORDER, rooms.tables["b"])
    for end in (9, 10):
        with rooms.session("b") as b:
            b.session.finish_effects()
            b.run_epoch(end)
    assert compared == [False, True, False]


def test_a_copy_is_refused_until_it_is_adopted(rooms: Rooms) -> None:
    with (
        pytest.raises(LedgerMismatchError, match="copy of the table of room a, and it was not"),
        rooms.session("b"),
    ):
        pass


def test_a_room_that_is_not_the_home_begins_no_ledger_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = Rooms(tmp_path, monkeypatch)
    with (
        pytest.raises(LedgerMismatchError, match="no copy of the table of room a is here") as no,
        rooms.session("b"),
    ):
        pass
    # That room may be lost for good, before anything was copied.
    assert "if that room is lost with its table, write `home: b`" in str(no.value.hint)
    assert not Path(rooms.layout("b").record(0)).exists()


def test_a_copy_is_refused_while_its_adopt_has_not_ended(rooms: Rooms) -> None:
    claim = Generation(1, 2, "0" * 64, "b", "ann@host", "x", ())
    claim_generation(LocalStorage(), rooms.layout("b"), claim)
    with (
        pytest.raises(LedgerMismatchError, match="generation 1 is claimed by ann@host and not"),
        rooms.session("b"),
    ):
        pass
