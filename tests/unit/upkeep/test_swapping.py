"""The rows of a prefix are replaced while epochs bring more: none is lost, none is doubled."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import FencedError, StorageUnavailableError, TaskFailedError, WrongUsageError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import AbandonRecord, SwapCounts, SwapInput, SwapRecord
from sluiceway.route.side_records import abandon_left
from sluiceway.storage.copying import stream_crc32c
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import record_queue as queues
from sluiceway.upkeep import replacing, swapping
from sluiceway.upkeep.partition_bodies import intent_body
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, Swapped, SwapStaging, swap
from tools.worked_route import EIGHT, NINE, TEN, WorkedRoute

DAY = "dt=20261120"
_INPUT = SwapInput("e" * 32, EIGHT, 1, 17)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine too, a turn of the driver's thread takes all that is asked for."""
    monkeypatch.setattr(queues, "TURN_S", 600.0)
    monkeypatch.setattr(swapping, "_BUSY_PAUSE_S", 0.0)


def five_rows(staging: SwapStaging) -> SwapContent:
    """Five new rows at 8 o'clock."""
    content = b"five rows"
    (Path(staging.folder) / "new").write_bytes(content)
    file = FileRecord(
        "",
        "",
        ("20261120", "08"),
        BigInt(5),
        BigInt(len(content)),
        stream_crc32c(BytesIO(content)),
        {},
    )
    counts = SwapCounts(BigInt(7), BigInt(5), outside=BigInt(2))
    return SwapContent([staging.record_of(file, EIGHT, "new")], counts, inputs=(_INPUT,), sql="x")


def swapped(
    route: WorkedRoute,
    prefix: str = EIGHT,
    write: Callable[[SwapStaging], SwapContent] = five_rows,
    between: Callable[[], None] = lambda: None,
    busy_s: float = 600.0,
) -> Swapped:
    order = SwapOrder(prefix, "backfill", "me@here", "wrong rate", busy_s)
    return route.drive(lambda: swap(route.record_queue, order, write), between)


def check_carried(route: WorkedRoute, record: SwapRecord) -> None:
    """Copies of what has come are there, byte by byte."""
    for each in record.partitions:
        for file in each.carried:
            path = Path(route.log.layout.attempt(file.staged))
            assert stream_crc32c(BytesIO(path.read_bytes())) == file.crc32c


def test_rows_of_a_prefix_are_replaced_and_all_others_stay(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT, NINE)
    done = swapped(route)
    assert route.kinds() == ["INTENT", "SWAP"]
    fold = route.writer.fold
    assert (fold.partitions[EIGHT].rows, fold.partitions[NINE].rows) == (5, 4)
    record = done.record
    assert (record.operator, record.reason, record.sql) == ("me@here", "wrong rate", "x")
    assert (record.rows_before, record.rows_after, record.inputs) == (4, 5, (_INPUT,))
    assert fold.swaps == {EIGHT: done.slot}


def test_partitions_of_a_prefix_without_a_new_row_are_emptied_with_it(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT, NINE)
    done = swapped(route, DAY)
    assert [each.partition for each in done.record.partitions] == [EIGHT, NINE]
    state = route.writer.fold.partitions[NINE]
    assert (state.rows, state.files, state.expired) == (0, 0, False)


def test_rows_that_come_meanwhile_are_carried_over(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT, NINE, TEN)
    comes = iter([EIGHT, NINE, TEN])

    def between() -> None:
        if route.writer.fold.intents:
            for name in comes:
                route.commit_file(name)

    done = swapped(route, EIGHT, between=between)
    assert {each.partition: len(each.carried) for each in done.record.partitions} == {EIGHT: 1}
    assert route.writer.fold.partitions[EIGHT].rows == 9
    check_carried(route, done.record)


def test_first_rows_of_a_partition_that_come_meanwhile_are_carried_over(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT, NINE, later=1)
    comes = iter([NINE])

    def between() -> None:
        if route.writer.fold.intents:
            for name in comes:
                route.commit_file(name)

    done = swapped(route, DAY, between=between)
    nine = done.record.partitions[1]
    assert (nine.partition, len(nine.removed), len(nine.carried)) == (NINE, 1, 1)
    check_carried(route, done.record)


def test_rows_that_every_epoch_brings_are_carried_over_between_two_epochs(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT)
    done = swapped(route, between=lambda: route.commit_file(EIGHT))
    (each,) = done.record.partitions
    assert len(each.carried) > replacing.MOST_ROUNDS
    assert route.writer.fold.partitions[EIGHT].rows == 5 + 4 * len(each.carried)
    check_carried(route, done.record)


def test_too_much_to_carry_over_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "_MOST_HELD_FILES", 0)
    route = WorkedRoute(tmp_path, EIGHT)
    with pytest.raises(TaskFailedError, match="faster than they are carried over"):
        swapped(route, between=lambda: route.commit_file(EIGHT))
    assert route.kinds()[-1] == "ABANDON"
    assert route.writer.fold.partitions[EIGHT].version == 0


@pytest.mark.parametrize("error", [TaskFailedError("no"), KeyError("bug")])
def test_writer_that_fails_ends_it_without_an_effect(tmp_path: Path, error: Exception) -> None:
    route = WorkedRoute(tmp_path, EIGHT)

    def fail(staging: SwapStaging) -> SwapContent:
        raise error

    with pytest.raises(type(error)):
        swapped(route, write=fail)
    assert route.kinds() == ["INTENT", "ABANDON"]
    assert route.writer.fold.intents == {}


def test_other_work_is_waited_for_and_then_it_is_given_up(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT)
    intent = intent_body(route.writer.fold, EIGHT, "compact")
    assert intent is not None
    route.writer.commit(intent)
    with pytest.raises(TaskFailedError, match="other work"):
        swapped(route, busy_s=0.0)
    abandoning = iter([0])
    route = WorkedRoute(tmp_path / "other", EIGHT)
    intent = intent_body(route.writer.fold, EIGHT, "compact")
    assert intent is not None
    slot = route.writer.commit(intent).seq

    def between() -> None:
        for _ in abandoning:
            route.writer.commit(AbandonRecord(slot, "done"))

    assert swapped(route, between=between).slot > slot


def test_prefix_whose_partitions_are_forgotten_is_refused(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT)
    route.writer.fold.forgotten_up_to = NINE
    with pytest.raises(WrongUsageError, match="forgotten"):
        swapped(route)
    assert route.kinds() == []


def test_store_that_fails_while_rows_are_carried_over_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = WorkedRoute(tmp_path, EIGHT)
    comes = iter([EIGHT])

    def between() -> None:
        if route.writer.fold.intents:
            for name in comes:
                route.commit_file(name)

    def fail(*_: object) -> FileRecord:
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr(swapping, "carried_copy", fail)
    with pytest.raises(StorageUnavailableError):
        swapped(route, between=between)
    assert route.kinds() == ["INTENT", "DATA", "ABANDON"]


def test_driver_that_took_over_abandons_the_work_of_the_one_before(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT)

    def taken_over(staging: SwapStaging) -> SwapContent:
        route.driver("d2")
        return five_rows(staging)

    with pytest.raises(FencedError):
        swapped(route, write=taken_over)
    writer = route.driver("d3")
    owned = SimpleNamespace(fold=writer.fold, writer=writer)
    abandon_left(cast("Any", SimpleNamespace(owned=owned, update_followers=lambda: None)))
    assert writer.fold.intents == {}
    assert writer.fold.partitions[EIGHT].version == 0


def test_counts_that_do_not_add_up_end_it(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path, EIGHT)

    def wrong(staging: SwapStaging) -> SwapContent:
        made = five_rows(staging)
        return replace(made, counts=SwapCounts(BigInt(9), BigInt(5)))

    with pytest.raises(TaskFailedError, match="add up"):
        swapped(route, write=wrong)
    assert route.kinds() == ["INTENT", "ABANDON"]
