"""A small log for tests of snapshots and packs: folders of four slots."""

from pathlib import Path

from sluiceway.errors import (
    StorageUnavailableError,
)
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, fence, sources, span

EVERY = 6


def open_log(root: Path, storage: LocalStorage | None = None) -> LedgerLog:
    layout = LedgerLayout(str(root / "t"), "orders")
    log = LedgerLog(storage or LocalStorage(), layout)
    for folder in (layout.log, layout.stage):
        log.storage.make_folders(folder)
    return log


def take_over(log: LedgerLog, driver: str = "d1") -> LedgerWriter:
    def no_wait(attempts: int, error: StorageUnavailableError) -> None:
        raise AssertionError((attempts, error))

    writer = LedgerWriter(log, log.fold(), no_wait)
    writer.fence(fence(driver=driver), lambda: None)
    return writer


def write_rows(writer: LedgerWriter, epochs: int) -> None:
    """Commit and publish so many epochs of two rows."""
    if not writer.fold.sources:
        writer.commit(sources(0))
    for _ in range(epochs):
        end = writer.fold.sources[("orders", 0)].end
        writer.commit(data(writer.term, writer.fold.last_epoch + 1, span(0, end, end + 2)))
        writer.set_published()


def tend(writer: LedgerWriter) -> None:
    tended = LogUpkeep(writer)
    while tended.due():
        tended.run()


def whole_fold(log: LedgerLog) -> object:
    """The fold from slot 0, without any snapshot."""
    Path(log.layout.hint).unlink(missing_ok=True)
    return log.fold()


def kept_folders(log: LedgerLog) -> list[str]:
    return sorted(path.name for path in Path(log.layout.log).iterdir())
