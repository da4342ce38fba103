"""Records beside the epochs of a route."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.side_records import is_due, put_closing, put_due, put_requested
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep import record_queue
from sluiceway.upkeep.record_queue import RecordQueue
from tools.ledger_records import data, fence, sources, span


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


@pytest.fixture(autouse=True)
def _turns_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends when there is nothing more to put, however slow the disk is."""
    monkeypatch.setattr(record_queue, "time", SimpleNamespace(monotonic=lambda: 0.0))


class Told:
    """What the catalog was told of; stands for a driver's thread that applies effects."""

    def __init__(self) -> None:
        self.values: list[list[str]] = []

    def want(
        self, partitions: list[DesiredPartition], through: int, complete_us: int | None = None
    ) -> None:
        self.values.append([each.values[1] for each in partitions])


class Published:
    """Followers for which all is published as soon as it has landed."""

    published_through = 0

    def update(self, fold: Fold) -> None:
        self.published_through = fold.next_seq


def begun(root: Path) -> LedgerWriter:
    layout = LedgerLayout(str(root), "orders")
    log = LedgerLog(LocalStorage(), layout)
    for folder in (layout.log, layout.stage):
        log.storage.make_folders(folder)
    writer = LedgerWriter(log, log.fold(), _no_wait)
    writer.fence(fence(), lambda: None)
    return writer


def held_by(writer: LedgerWriter, told: Told) -> OwnedRoute:
    """A route of which only the ledger and the catalog's wishes are real."""
    owned = SimpleNamespace(fold=writer.fold, writer=writer, layout=writer.log.layout)
    moved = SimpleNamespace(pop_removed=set, add=lambda wanted, old, through: None)
    schema = SimpleNamespace(owes_columns=lambda: False)
    others = dict.fromkeys(("upkeep", "dirty"), None)
    made: dict[str, Any] = {**others, "owned": owned, "moved": moved, "schema": schema}
    made["followers"], made["background"] = Published(), SimpleNamespace(counts=None)
    return OwnedRoute(**made, catalog=cast("Any", told), record_queue=RecordQueue(writer.log, ()))


def _made(body: DataRecord, fold: Fold) -> DataRecord:
    del fold
    return body


def hour(number: int) -> DataRecord:
    """An epoch that writes to a partition of its own."""
    body = data(1, number, span(0, 4 * number, 4 * number + 4))
    (file,) = body.files
    final = file.final.replace("hr=08", f"hr={number:02d}")
    return replace(body, files=(replace(file, final=final, values=("20261120", f"{number:02d}")),))


def test_catalog_is_told_once_of_all_records_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_queue, "TURN_S", 600.0)
    writer, told = begun(tmp_path), Told()
    writer.commit(sources(0))
    held = held_by(writer, told)
    bodies = [hour(number) for number in range(3)]
    answers = [held.record_queue.ask(partial(_made, body)) for body in bodies]
    put_requested(held, lambda _: None)
    assert [answer.result(0) for answer in answers] == [2, 3, 4]
    assert told.values == [["00", "01", "02"]]
    put_requested(held, lambda _: None)
    assert len(told.values) == 1


def fail_a_turn(held: OwnedRoute) -> None:
    """A record lands in a turn, and the store fails at the next one."""

    def fail(fold: Fold) -> None:
        raise StorageUnavailableError(f"no answer at slot {fold.next_seq}")

    held.record_queue.ask(lambda _: hour(0))
    held.record_queue.ask(fail)
    with pytest.raises(StorageUnavailableError):
        put_requested(held, lambda _: None)


def test_record_that_landed_before_its_turn_failed_is_told_of_with_the_next_one(
    tmp_path: Path,
) -> None:
    writer, told = begun(tmp_path), Told()
    writer.commit(sources(0))
    held = held_by(writer, told)
    fail_a_turn(held)
    assert told.values == []
    # An epoch's record, which tells of itself.
    before = writer.fold.next_seq
    writer.commit(hour(1))
    writer.set_published()
    held.want_partitions(before)
    assert told.values == [["00", "01"]]
    held.want_partitions(before)
    assert told.values[1:] == [["01"]]


def test_record_that_landed_before_its_turn_failed_is_told_of_when_nothing_else_comes(
    tmp_path: Path,
) -> None:
    writer, told = begun(tmp_path), Told()
    writer.commit(sources(0))
    held = held_by(writer, told)
    fail_a_turn(held)
    assert is_due(held, None)
    put_due(held, lambda _: None, None, lambda: 0)
    assert told.values == [["00"]]
    assert not is_due(held, None)


def test_prefix_is_closed_by_one_record_and_no_other_follows(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    log = writer.log
    asked = RecordQueue(log, ())
    owned = SimpleNamespace(fold=writer.fold, writer=writer)
    wanted: list[int] = []
    hooks = {"want_partitions": wanted.append, "update_followers": writer.set_published}
    held = cast("Any", SimpleNamespace(record_queue=asked, owned=owned, unshown=None, **hooks))
    asked.close_prefix("dt=20261120/hr=08")
    # Another record may be asked for just then, which is put later.
    for epoch in range(3):
        asked.ask(lambda _: None)
        put_closing(held, lambda _: None, epoch)
    assert [record.type.value for record, _ in log.records()] == ["FENCE", "DATA"]
    assert list(writer.fold.closed) == ["dt=20261120/hr=08"]


def test_what_is_closed_and_not_in_the_ledger_is_still_to_be_announced(tmp_path: Path) -> None:
    writer = begun(tmp_path)
    held = held_by(writer, Told())
    held.record_queue.close_prefix("dt=20261120/hr=08")
    assert not held.announcing
    timed = cast("Any", SimpleNamespace(waits=False, inherits_due=lambda _: False))
    assert replace(held, readiness=timed).announcing
    put_closing(held, lambda _: None, 5)
    assert not replace(held, readiness=timed).announcing
