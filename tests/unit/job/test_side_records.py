"""Records beside the epochs of a route."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sluiceway.errors import StorageUnavailableError
from sluiceway.job.desk import RouteDesk
from sluiceway.job.side_records import put_closing
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import fence


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


def test_prefix_is_closed_by_one_record_and_no_other_follows(tmp_path: Path) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    log = LedgerLog(LocalStorage(), layout)
    for folder in (layout.log, layout.stage):
        log.storage.make_folders(folder)
    writer = LedgerWriter(log, log.fold(), _no_wait)
    writer.fence(fence(), lambda: None)
    desk = RouteDesk(log, ())
    owned = SimpleNamespace(fold=writer.fold, writer=writer)
    wanted: list[int] = []
    held = cast(
        "Any", SimpleNamespace(desk=desk, owned=owned, unshown=None, want_partitions=wanted.append)
    )
    desk.close_prefix("dt=20261120/hr=08")
    # Another record may be asked for just then, which is put later.
    for epoch in range(3):
        desk.ask(lambda _: None)
        put_closing(held, lambda _: None, epoch)
    assert [record.type.value for record, _ in log.records()] == ["FENCE", "DATA"]
    assert list(writer.fold.closed) == ["dt=20261120/hr=08"]
