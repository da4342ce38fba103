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
    seconds[0] += READERS_GRACE_S + 1
    moved.sweep(sink)
    assert (old / "a.parquet").exists()
    assert moved.take_gone() == set()
