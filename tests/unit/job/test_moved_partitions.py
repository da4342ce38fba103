"""Folders that partitions have left: removed late, and never at the route's cost."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.job import moved_partitions
from sluiceway.job.moved_partitions import READERS_GRACE_S, MovedPartitions, OldFolder
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.storage.local import LocalStorage

NOW = DesiredPartition(("20261120",), "/t/_sluiceway-3-x/dt=20261120", first="", moves="")


def test_old_folder_stays_when_the_record_that_names_its_files_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr(moved_partitions, "time", clock)
    layout = LedgerLayout(str(tmp_path), "orders")
    record = Path(layout.record(3))
    record.parent.mkdir(parents=True)
    record.write_bytes(b"damaged")
    old = tmp_path / "dt=20261120"
    old.mkdir()
    (old / "a.parquet").touch()
    moved = MovedPartitions(LedgerLog(LocalStorage(), layout), stderr_log())
    moved.take([], [OldFolder("dt=20261120", 3, NOW)])
    sink = cast("Any", SimpleNamespace(shown=lambda _: {NOW.values: NOW.location}))
    moved.sweep(sink)
    for _ in range(62):
        seconds[0] += 60.0
        moved.sweep(sink)
    assert seconds[0] > 1000.0 + READERS_GRACE_S
    assert (old / "a.parquet").exists()
    assert moved.take_gone() == set()


def test_driver_that_stood_still_waits_for_readers_anew() -> None:
    waiting = moved_partitions._Waiting(OldFolder("dt=20261120", 3, NOW))
    assert [waiting.shown(float(at)) for at in (0, 60, 120, 240)] == [0.0, 60.0, 120.0, 240.0]
    # Whoever has replaced it meanwhile may have sent readers back to the old folder.
    assert [waiting.shown(float(at)) for at in (4_000, 4_060)] == [0.0, 60.0]
