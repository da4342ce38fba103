"""Partitions move in groups; what goes wrong with one of them ends alone, and its route goes on."""

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import (
    FencedError,
    SluicewayError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import DataRecord, Record
from sluiceway.route.side_records import abandon_left
from sluiceway.storage.copying import copy_staged, stream_crc32c
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import record_queue as desks
from sluiceway.upkeep import replacing
from sluiceway.upkeep.record_queue import Build, RecordQueue
from sluiceway.upkeep.replacing import ReplacedFiles, Rewrite, Staging, move_partitions
from tools.worked_route import EIGHT, NINE, TEN, WorkedRoute

FOUND = dict.fromkeys((EIGHT, NINE, TEN), "")


def new_files(staging: Staging) -> list[FileRecord]:
    """Those that are live, each under another name, as if they had been written anew."""
    folder = staging.folder.rpartition("/")[2]
    return [replace(file, staged=f"{folder}/x{n}") for n, file in enumerate(staging.live)]


def rewrite(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
    return [new_files(each) for each in staged]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine too, a turn of the driver's thread takes all that is asked for."""
    monkeypatch.setattr(desks, "TURN_S", 600.0)


class _Route(WorkedRoute):
    def move(
        self,
        work: Rewrite = rewrite,
        between: Callable[[], None] = lambda: None,
        names: Sequence[str] = (),
    ) -> dict[str, ReplacedFiles]:
        """Do the work.

        Args:
            work: Writes the files anew.
            between: What the driver does before it puts anything.
            names: Of the partitions; all.
        """
        asked = list(names or self.names)
        found = self.drive(
            lambda: move_partitions(self.record_queue, asked, lambda *_: "", work), between
        )
        assert [each.partition for each in found] == asked
        return {each.partition: each for each in found}

    def replaced(self) -> dict[str, ReplaceRecord]:
        bodies = [record.body for record, _ in self.log.records()]
        return {body.partition: body for body in bodies if isinstance(body, ReplaceRecord)}

    def check_given_up(self, *between: str) -> None:
        """The work has ended without an effect."""
        assert self.kinds() == ["INTENT", *between, "ABANDON"]
        assert self.writer.fold.intents == {}

    def check_files(self, name: str) -> None:
        """All files of a partition that were carried over are there, byte by byte."""
        added = self.replaced()[name].added
        folder = Path(self.log.layout.attempt(added[0].staged)).parent
        files = {path.name: path.read_bytes() for path in folder.glob("orders-*")}
        named = [file.staged.rpartition("/")[2] for file in added]
        assert set(files) == {each for each in named if each.startswith("orders-")}
        for file in added:
            content = files.get(file.staged.rpartition("/")[2])
            if content is not None:
                assert stream_crc32c(BytesIO(content)) == file.crc32c


def test_work_that_loses_rows_is_given_up_and_does_not_halt_the_route(tmp_path: Path) -> None:
    route = _Route(tmp_path)

    def lose(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        return [[replace(f, rows=BigInt(f.rows - 1)) for f in new_files(each)] for each in staged]

    (moved,) = route.move(lose).values()
    assert (moved.slot, moved.failed) == (None, f"{EIGHT}: 4 rows were rewritten as 3")
    route.check_given_up()


def test_work_whose_store_fails_while_files_are_carried_over_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = _Route(tmp_path)
    comes = iter([EIGHT])

    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "input/output error")

    def between() -> None:
        if route.writer.fold.intents:
            for name in comes:
                route.commit_file(name)

    monkeypatch.setattr(LocalStorage, "open_read", lambda storage, path: Broken())
    (moved,) = route.move(between=between).values()
    assert "carry it over" in moved.failed
    route.check_given_up("DATA")


def test_files_that_every_epoch_brings_are_carried_over_between_two_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = _Route(tmp_path)
    starts: list[int] = []
    read = LedgerLog.records

    def records(log: LedgerLog, start: int = 0) -> Iterator[tuple[Record, bytes]]:
        if threading.current_thread() is threading.main_thread():
            starts.append(start)
        return read(log, start)

    monkeypatch.setattr(LedgerLog, "records", records)
    (moved,) = route.move(between=lambda: route.commit_file(EIGHT)).values()
    monkeypatch.undo()
    assert moved.slot is not None
    body = route.replaced()[EIGHT]
    # The driver's thread, for which commits wait, reads no more than what is new.
    assert len(starts) == 1
    assert starts[0] > body.intent
    # The first epoch, that before the INTENT, and those of each round and the last one.
    assert len(body.added) == 6
    assert moved.after.files == 6
    (state,) = route.writer.fold.partitions.values()
    assert (state.files, state.rows) == (6, 24)
    route.check_files(EIGHT)


def test_group_has_its_records_put_together_and_each_its_own(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE, TEN)
    moved = route.move()
    assert route.kinds() == ["INTENT"] * 3 + ["REPLACE"] * 3
    assert route.record_queue.turns <= 3
    assert list(route.replaced()) == [EIGHT, NINE, TEN]
    for name, each in moved.items():
        assert (each.slot, each.left, each.failed) == (
            route.writer.fold.partitions[name].moved_seq,
            "",
            "",
        )


def test_one_of_a_group_that_fails_is_abandoned_alone(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE, TEN)

    def fail_one(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        made = rewrite(staged)
        made[1] = TaskFailedError("the process that rewrites files has ended by signal 9")
        return made

    moved = route.move(fail_one)
    assert {name: each.failed for name, each in moved.items()} == {
        **FOUND,
        NINE: "the process that rewrites files has ended by signal 9",
    }
    assert route.kinds() == ["INTENT"] * 3 + ["REPLACE"] * 2 + ["ABANDON"]
    assert route.writer.fold.intents == {}
    assert route.writer.fold.partitions[NINE].version == 0


def test_one_of_a_group_that_rows_come_for_is_carried_over_and_the_others_are_not_held(
    tmp_path: Path,
) -> None:
    route = _Route(tmp_path, EIGHT, NINE, TEN)
    comes = iter([NINE])

    def between() -> None:
        if route.writer.fold.intents:
            for name in comes:
                route.commit_file(name)

    moved = route.move(between=between)
    assert {name: each.after.files for name, each in moved.items()} == {EIGHT: 1, NINE: 2, TEN: 1}
    assert route.kinds() == ["INTENT"] * 3 + ["DATA"] + ["REPLACE"] * 3
    assert list(route.replaced()) == [EIGHT, TEN, NINE]
    route.check_files(NINE)


def test_one_of_a_group_that_is_left_alone_has_no_record(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE)
    moved = route.move(names=[EIGHT, TEN, NINE])
    assert {name: each.left for name, each in moved.items()} == {
        **FOUND,
        TEN: "it cannot be worked on",
    }
    assert route.kinds() == ["INTENT"] * 2 + ["REPLACE"] * 2


def test_bug_in_the_rewriting_gives_up_the_whole_group(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE)

    def fail(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        raise KeyError(len(staged))

    moved = route.move(fail)
    assert {each.failed for each in moved.values()} == {"a bug: KeyError: 2"}
    assert route.kinds() == ["INTENT"] * 2 + ["ABANDON"] * 2
    assert route.writer.fold.intents == {}


def test_work_is_abandoned_although_the_store_fails_when_it_is_given_up(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE)
    fails = iter([True, True])

    def fail_all(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        def put(build: Build) -> int | None:
            if next(fails, False):
                raise StorageUnavailableError("no answer")
            return _Route.put(route, build)

        route.put = put  # type: ignore[method-assign]
        return [TaskFailedError("no") for _ in staged]

    moved = route.move(fail_all)
    assert {name: each.failed for name, each in moved.items()} == {EIGHT: "no", NINE: "no"}
    assert route.writer.fold.intents == {}
    assert route.kinds() == ["INTENT"] * 2 + ["ABANDON"] * 2


def test_driver_that_dies_leaves_a_group_to_the_next_one_which_abandons_all_of_it(
    tmp_path: Path,
) -> None:
    route = _Route(tmp_path, EIGHT, NINE, TEN)

    def leave(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        route.record_queue.end(FencedError("the route was left"))
        return rewrite(staged)

    with pytest.raises(FencedError):
        route.move(leave)
    assert route.kinds() == ["INTENT"] * 3
    begin_anew(route)
    assert route.kinds() == ["INTENT"] * 3 + ["FENCE"] + ["ABANDON"] * 3
    assert route.writer.fold.intents == {}


def test_driver_that_is_fenced_between_two_of_a_group_puts_none_of_the_others(
    tmp_path: Path,
) -> None:
    route = _Route(tmp_path, EIGHT, NINE, TEN)

    def take_over(kind: str) -> None:
        if kind == "REPLACE":
            route.driver("d2")

    route.landed = take_over
    with pytest.raises(FencedError):
        route.move()
    assert route.kinds() == ["INTENT"] * 3 + ["REPLACE", "FENCE"]
    route.landed = lambda _: None
    begin_anew(route)
    assert route.kinds()[4:] == ["FENCE", "FENCE", "ABANDON", "ABANDON"]
    states = route.writer.fold.partitions
    assert {name: states[name].version for name in states} == {EIGHT: 1, NINE: 0, TEN: 0}
    assert {states[name].rows for name in states} == {4}


def begin_anew(route: _Route) -> None:
    """The next driver's START, as far as background work goes."""
    route.writer = route.driver("d3")
    owned = SimpleNamespace(fold=route.writer.fold, writer=route.writer)
    noted = route.writer.set_published
    abandon_left(cast("Any", SimpleNamespace(owned=owned, update_followers=noted)))


def test_drivers_thread_carries_over_so_much_in_one_turn_and_the_rest_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_MOST_HELD_FILES", 1)
    route = _Route(tmp_path, EIGHT, NINE)
    copies: list[int] = []
    copy = copy_staged

    def note(*asked: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            copies.append(route.record_queue.turns)
        return copy(*asked)

    monkeypatch.setattr(replacing, "copy_staged", note)

    def between() -> None:
        for name in (EIGHT, NINE):
            if any(each.partition == name for each in route.writer.fold.intents.values()):
                route.commit_file(name)

    moved = route.move(between=between)
    assert {name: each.failed for name, each in moved.items()} == {EIGHT: "", NINE: ""}
    assert len(set(copies)) == len(copies) >= 1
    for name in (EIGHT, NINE):
        route.check_files(name)
        added = route.replaced()[name].added
        assert route.writer.fold.partitions[name].files == len(added) > 4


def test_work_for_which_more_comes_than_the_drivers_thread_carries_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_MOST_HELD_FILES", 1)
    route = _Route(tmp_path, EIGHT, NINE)

    def between() -> None:
        if route.writer.fold.intents:
            for _ in range(2):
                route.commit_file(EIGHT)

    moved = route.move(between=between)
    assert moved[EIGHT].failed == "files come faster than they are carried over"
    assert moved[NINE].slot is not None
    assert route.writer.fold.intents == {}


def test_those_that_wait_for_others_of_their_group_are_not_given_up_for_what_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each turn puts one record, and each epoch before it brings as much as a turn may carry.
    monkeypatch.setattr(replacing, "_MOST_HELD_FILES", 1)
    monkeypatch.setattr(desks, "TURN_S", 0.0)
    route = _Route(tmp_path, EIGHT, NINE, TEN)

    def between() -> None:
        for each in [each.partition for each in route.writer.fold.intents.values()]:
            route.commit_file(each)

    moved = route.move(between=between)
    assert {name: each.failed for name, each in moved.items()} == FOUND
    for name in (EIGHT, NINE, TEN):
        route.check_files(name)
        state = route.writer.fold.partitions[name]
        assert state.files == len(route.replaced()[name].added)


def test_damaged_record_keeps_only_those_from_moving_whose_files_it_names(tmp_path: Path) -> None:
    route = _Route(tmp_path, EIGHT, NINE)
    route.move(names=[NINE])
    bodies = [(record.seq, record.body) for record, _ in route.log.records()]
    first = next(seq for seq, body in bodies if isinstance(body, DataRecord))
    path = Path(route.log.layout.record(first))
    whole = path.read_bytes()
    path.write_bytes(b"{}")
    route.record_queue = RecordQueue(route.log, ())
    moved = route.move()
    assert "rec" in moved[EIGHT].failed
    assert moved[NINE].slot is not None
    path.write_bytes(whole)
    assert route.writer.fold.partitions[NINE].version == 2
    assert route.kinds() == ["INTENT", "REPLACE", "INTENT", "INTENT", "REPLACE", "ABANDON"]


def test_turn_that_takes_its_time_leaves_the_rest_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "TURN_S", 0.0)
    route = _Route(tmp_path, EIGHT, NINE, TEN)
    turns: list[int] = []
    route.landed = lambda _: turns.append(route.record_queue.turns)
    moved = route.move()
    assert {name: each.failed for name, each in moved.items()} == FOUND
    assert turns == [1, 2, 3, 4, 5, 6]
    assert route.kinds() == ["INTENT"] * 3 + ["REPLACE"] * 3
