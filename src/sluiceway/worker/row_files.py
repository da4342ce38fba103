"""What takes the rows of a pipeline: staged files, or nothing when rows are only tried."""

from typing import Protocol

import pyarrow as pa

from sluiceway.ledger.file_records import FileRecord
from sluiceway.worker.places import Place

WrittenFiles = tuple[tuple[FileRecord, ...], tuple[FileRecord, ...], tuple[FileRecord, ...]]
"""Clean files, dirty ones, late ones."""


class RowFiles(Protocol):
    """Where a pipeline's rows go. Used by one thread."""

    @property
    def attempt(self) -> str:
        """Folder of the attempt, under stage/."""

    def write(self, place: Place, rows: pa.RecordBatch) -> None:
        """Take clean rows of one partition, in time or late."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Take dirty rows."""

    def close(self) -> WrittenFiles:
        """Records of the clean files, of the dirty and of the late ones. Called once."""

    def abort(self) -> None:
        """Drop what is open."""


class NoFiles:
    """Forgets the rows: what became of them is counted by the pipeline."""

    attempt = ""

    def write(self, place: Place, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def close(self) -> WrittenFiles:
        """See `RowFiles`."""
        return (), (), ()

    def abort(self) -> None:
        """See `RowFiles`."""
