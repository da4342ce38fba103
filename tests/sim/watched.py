"""The product's local storage, telling the monitor what its callers know."""

from typing import BinaryIO

from sim.monitor import Monitor
from sluiceway.storage.contract import FileSeal, PutResult, StagedWriter
from sluiceway.storage.local import LocalStorage


class WatchedLocalStorage(LocalStorage):
    """The product's own, on the simulated file system; says what it has promised."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        result = super().put_if_absent(path, content, tmp_folder=tmp_folder)
        if result is PutResult.CREATED:
            self._monitor.acknowledge(path)
        return result

    def create_staged(self, path: str) -> StagedWriter:
        return _WatchedWriter(super().create_staged(path), self._monitor)


class _WatchedWriter(StagedWriter):
    """Says when a staged file is begun, and when its writer knows that it is whole."""

    def __init__(self, writer: StagedWriter, monitor: Monitor) -> None:
        self._writer = writer
        self._monitor = monitor
        self.path = writer.path
        monitor.writes(self.path)

    def handle(self) -> BinaryIO:
        return self._writer.handle()

    def seal(self) -> FileSeal:
        seal = self._writer.seal()
        self._monitor.sealed(self.path)
        return seal

    def abort(self) -> None:
        self._writer.abort()
