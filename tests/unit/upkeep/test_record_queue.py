"""Records of background work: whoever asks is told, whatever happens."""

from pathlib import Path

import pytest

from sluiceway.errors import FencedError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep.record_queue import Build, RecordQueue


def test_bug_in_a_record_is_told_to_whoever_waits_for_it(tmp_path: Path) -> None:
    record_queue = RecordQueue(LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders")), ())

    def build(fold: Fold) -> None:
        raise KeyError("a partition that is not there")

    answer = record_queue.ask(build)

    def put(made: Build) -> int | None:
        made(Fold())
        return None

    with pytest.raises(KeyError):
        record_queue.serve(put)
    assert answer.done()
    assert isinstance(answer.exception(), KeyError)


def test_sealed_prefix_is_not_said_to_be_closed_any_more_nor_waited_for(tmp_path: Path) -> None:
    log = LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders"))
    record_queue = RecordQueue(log, ["hr=07", "hr=08"])
    fold = Fold(closed={"hr=08": ClosedPrefix(5)}, sealed={"hr=07": 9})
    assert not record_queue.is_waited_for(fold)
    record_queue.forget_sealed(["hr=07"])
    assert record_queue.closed() == ("hr=08",)
    record_queue.close_prefix("hr=09")
    assert record_queue.is_waited_for(fold)


def fenced() -> None:
    """What a log says whose driver was replaced."""
    raise FencedError("term 1 was taken over")


def test_fenced_driver_shows_nobody_what_its_fold_has(tmp_path: Path) -> None:
    log = LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders"))
    record_queue = RecordQueue(log, ())
    log.check_held = fenced
    seen: list[Fold] = []
    answer = record_queue.ask(seen.append)

    def put(made: Build) -> int | None:
        made(Fold())
        return None

    with pytest.raises(FencedError):
        record_queue.serve(put)
    assert (seen, answer.done()) == ([], False)
