"""What takes the rows of a pipeline: staged files, or nothing when rows are only tried."""

from typing import Protocol

import pyarrow as pa

from sluiceway.ledger.file_records import FileRecord


class RowFiles(Protocol):
    """Where a pipeline's rows go. Used by one thread."""

    @property
    def attempt(self) -> str:
        """Folder of the attempt, under stage/."""

    def write(self, values: tuple[str | None, ...], rows: pa.RecordBatch) -> None:
        """Take clean rows of one partition."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Take dirty rows."""

    def close(self) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
        """Records of the clean files and of the dirty ones. Called once."""

    def abort(self) -> None:
        """Drop what is open."""


class NoFiles:
    """Forgets the rows: what became of them is counted by the pipeline."""

    attempt = ""

    def write(self, values: tuple[str | None, ...], rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """See `RowFiles`."""

    def close(self) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
        """See `RowFiles`."""
        return (), ()

    def abort(self) -> None:
        """See `RowFiles`."""
