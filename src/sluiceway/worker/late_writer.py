"""A staged file that is not begun before something is to be written to it."""

from typing import BinaryIO

from sluiceway.storage.contract import FileSeal, StagedWriter, Storage


class LateWriter(StagedWriter):
    """Until the first byte a partition costs no open file, only the rows that are buffered for it.

    Args:
        storage: The table's storage.
        path: Of the file.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._storage = storage
        self._writer: StagedWriter | None = None

    @property
    def begun(self) -> bool:
        """Whether there is an open file."""
        return self._writer is not None

    @property
    def held_bytes(self) -> int:
        """See `StagedWriter.held_bytes`."""
        return 0 if self._writer is None else self._writer.held_bytes

    def handle(self) -> BinaryIO:
        """See `StagedWriter.handle`; begins the file.

        Raises:
            StorageUnavailableError: It cannot be begun; the attempt is thrown away.
        """
        return self._begun().handle()

    def seal(self) -> FileSeal:
        """See `StagedWriter.seal`."""
        return self._begun().seal()

    def abort(self) -> None:
        """See `StagedWriter.abort`."""
        if self._writer is not None:
            self._writer.abort()

    def _begun(self) -> StagedWriter:
        if self._writer is None:
            self._writer = self._storage.create_staged(self.path)
        return self._writer
