"""The driver's own garbage passes: rarely, one at a time, and never in its way."""

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.collect import Collected, GarbageCollector
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import encode_record
from sluiceway.observe.log import stderr_log
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep.housekeeping import FileCleaner
from tools.ledger_records import fence, fold_of, record

if TYPE_CHECKING:
    from sluiceway.upkeep.dirty_retention import DirtyRetention

_PATIENCE_S = 30.0


class Passes:
    """Stands for `collect`: counts, and goes on when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.count = 0
        self._error = error

    def __call__(self, **_: object) -> Collected:
        self.count += 1
        self.began.release()
        assert self.may_end.wait(_PATIENCE_S)
        if self._error is not None:
            raise self._error
        return Collected((), (), (), 0)


def _keeper(root: Path, every_s: float) -> FileCleaner:
    log = LedgerLog(LocalStorage(), LedgerLayout(str(root), "orders"))
    return FileCleaner(log, stderr_log(level="info"), every_s=every_s)


@pytest.fixture
def fold() -> Fold:
    return fold_of(fence())


def test_pass_that_runs_is_not_waited_for_and_not_doubled(
    tmp_path: Path, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Passes()
    monkeypatch.setattr(GarbageCollector, "collect", passes)
    keeper = _keeper(tmp_path, 0.0)
    keeper.tidy(fold)
    assert passes.began.acquire(timeout=_PATIENCE_S)
    keeper.tidy(fold)
    keeper.tidy(fold)
    assert passes.count == 1
    passes.may_end.set()
    keeper.close()
    keeper.tidy(fold)
    assert passes.began.acquire(timeout=_PATIENCE_S)
    keeper.close()
    assert passes.count == 2


def test_next_pass_waits_for_its_time(
    tmp_path: Path, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = Passes()
    passes.may_end.set()
    monkeypatch.setattr(GarbageCollector, "collect", passes)
    keeper = _keeper(tmp_path, 3600.0)
    for _ in range(3):
        keeper.tidy(fold)
        keeper.close()
    assert passes.count == 1


def test_failed_pass_is_only_noted(
    tmp_path: Path,
    fold: Fold,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    passes = Passes(StorageUnavailableError("mount gone"))
    passes.may_end.set()
    monkeypatch.setattr(GarbageCollector, "collect", passes)
    keeper = _keeper(tmp_path, 0.0)
    keeper.tidy(fold)
    keeper.close()
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["level"]) == ("garbage_left", "info")
    assert "mount gone" in line["error"]


def test_what_was_removed_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keeper = _keeper(tmp_path, 0.0)
    layout, fold = LedgerLayout(str(tmp_path), "orders"), Fold()
    for _ in range(2):
        made = record(fold, fence())
        raw = encode_record(made)
        fold.apply(made, raw)
        Path(layout.record_folder(0)).mkdir(parents=True, exist_ok=True)
        Path(layout.record(made.seq)).write_bytes(raw)
    left = Path(layout.attempt(f"1-0-{'a' * 32}"))
    left.mkdir(parents=True)
    (left / "f.parquet").write_bytes(b"12345")
    keeper.tidy(fold)
    assert keeper._over.wait(_PATIENCE_S)
    assert not left.exists()
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["places"], line["size_bytes"]) == ("garbage_removed", 1, 5)


def test_bug_in_one_part_of_a_pass_is_told_and_keeps_nothing_from_the_other(
    tmp_path: Path,
    fold: Fold,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    passes = Passes(ValueError("no number"))
    passes.may_end.set()
    monkeypatch.setattr(GarbageCollector, "collect", passes)
    tended = threading.Event()

    class Dirty:
        def run_pass(self, *_: object) -> None:
            tended.set()

    keeper = _keeper(tmp_path, 3600.0)
    keeper.dirty = cast("DirtyRetention", Dirty())
    keeper.tidy(fold)
    assert tended.wait(_PATIENCE_S)
    keeper.close()
    assert "a bug: ValueError: no number" in capsys.readouterr().err
