"""What takes the rows of a pipeline: staged files, or nothing when rows are only tried."""

from typing import Protocol

import pyarrow as pa

from sluiceway.ledger.file_names import FileRecord
from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.plan import Place

WrittenFiles = tuple[tuple[FileRecord, ...], tuple[FileRecord, ...], tuple[FileRecord, ...]]
"""Clean files, dirty ones, late ones."""


class RowFiles(Protocol):
    """Where a pipeline's rows go. Used by one thread."""

    @property
    def attempt(self) -> str:
        """Folder of the attempt, under stage/."""

    @property
    def held_bytes(self) -> int:
        """Memory of what was written and is in no file yet."""

    @property
    def most_open(self) -> int:
        """Most files that were open at once."""

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """Take clean rows of one partition, in time or late, and others that share their memory."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Take dirty rows."""

    def close_due(self) -> None:
        """Close files that are open, or had no row, for too long."""

    def free(self, kept_bytes: int) -> None:
        """Free memory until at most `kept_bytes` are held."""

    def close(self) -> WrittenFiles:
        """Records of the clean files, of the dirty and of the late ones. Called once."""

    def abort(self) -> None:
        """Drop what is open."""


class NoFiles:
    """Forgets the rows: what became of them is counted by the pipeline."""

    attempt = ""
    held_bytes = 0
    most_open = 0

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """See `RowFiles`."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def close_due(self) -> None:
        """See `RowFiles`."""

    def free(self, kept_bytes: int) -> None:
        """See `RowFiles`."""

    def close(self) -> WrittenFiles:
        """See `RowFiles`."""
        return (), (), ()

    def abort(self) -> None:
        """See `RowFiles`."""
