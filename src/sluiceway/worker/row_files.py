"""What takes the rows of a pipeline: staged files, or nothing when rows are only tried."""

from typing import Protocol

import pyarrow as pa

from sluiceway.ledger.file_records import FileRecord
from sluiceway.worker.open_files import SharedRows, Values


class RowFiles(Protocol):
    """Where a pipeline's rows go. Used by one thread."""

    @property
    def attempt(self) -> str:
        """Folder of the attempt, under stage/."""

    @property
    def held_bytes(self) -> int:
        """Memory of what was written and is in no file yet."""

    def write(self, values: Values, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """Take clean rows of one partition, and what other partitions' lie beside them."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Take dirty rows."""

    def close_due(self) -> None:
        """Close files that are open, or had no row, for too long."""

    def shed(self, kept_bytes: int) -> None:
        """Free memory until at most `kept_bytes` are held."""

    def close(self) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
        """Records of the clean files and of the dirty ones. Called once."""

    def abort(self) -> None:
        """Drop what is open."""


class NoFiles:
    """Forgets the rows: what became of them is counted by the pipeline."""

    attempt = ""
    held_bytes = 0

    def write(self, values: Values, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """See `RowFiles`."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def close_due(self) -> None:
        """See `RowFiles`."""

    def shed(self, kept_bytes: int) -> None:
        """See `RowFiles`."""

    def close(self) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
        """See `RowFiles`."""
        return (), ()

    def abort(self) -> None:
        """See `RowFiles`."""
