"""Reads rows of an Iceberg table of others inside a task, from one metadata file."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask, StaticTable, Table

from sluiceway.chains.lake_client import LakeClient
from sluiceway.chains.lake_log import LakeLog, LakeStep, StepKind
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.chains.reader import TableBatch
from sluiceway.errors import (
    FileLostError,
    NotInThisVersionError,
    SluicewayError,
    SourceUnavailableError,
    TableMismatchError,
)
from sluiceway.sources.contract import SourceBatch, Split, SplitEnd, SplitReader

_BATCH_ROWS = 16_384
_LONGEST_SLEEP_S = 0.5
_TIMEOUT_S = 30.0


@dataclass(slots=True)
class _Progress:
    """How far a split is read.

    Attributes:
        batches: Offsets and columns of its rows; None before the first read.
    """

    split: Split
    at: int
    batches: Iterator[tuple[int, pa.RecordBatch]] | None = field(default=None)


class LakeReader(SplitReader):
    """Reads the one log of a table, as far as the driver has seen it. Used by one thread.

    Args:
        splits: Ranges of rows to read.
        options: The table, with its metadata file.
    """

    def __init__(self, splits: Sequence[Split], options: LakeUpstream) -> None:
        self._options = options
        self._splits = [_Progress(split, split.start_offset) for split in splits]
        self._opened: tuple[Table, LakeLog] | None = None

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`."""
        found: list[SourceBatch] = []
        for index, progress in enumerate(self._splits):
            with client_errors(self._options.topic):
                if progress.batches is None:
                    progress.batches = self._batches(progress.split)
                batch = next(progress.batches, None)
            if batch is not None:
                first, columns = batch
                progress.at = first + columns.num_rows
                found.append(TableBatch(index, progress.split.partition, first, columns))
        if not found and not self.finished():
            # Later rows are of the next epoch.
            time.sleep(min(timeout_s, _LONGEST_SLEEP_S))
        return found

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        return all(
            each.split.stop_offset is not None and each.at >= each.split.stop_offset
            for each in self._splits
        )

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`: rows follow each other without a gap."""
        return tuple(
            SplitEnd(each.at, each.at - each.split.start_offset, 0, self._number_below(each))
            for each in self._splits
        )

    def close(self, *, reusable: bool) -> None:
        """See `SplitReader.close`: nothing is kept."""
        del reusable

    def _number_below(self, progress: _Progress) -> int | None:
        if progress.at == progress.split.start_offset:
            return progress.split.leader_epoch
        _, log = self._open()
        return log.number_below(progress.at, progress.split.newest_slot)

    def _open(self) -> tuple[Table, LakeLog]:
        if self._opened is None:
            access, place = dict(self._options.file_access), self._options.metadata
            # A sample is read by who asks the catalog itself.
            table = StaticTable.from_metadata(place, access) if place else self._from_catalog()
            passes_over = self._options.passes_over
            log = LakeLog(table.metadata, self._options.topic, passes_over=passes_over)
            self._opened = table, log
        return self._opened

    def _from_catalog(self) -> Table:
        client = LakeClient(self._options, _TIMEOUT_S)
        try:
            return client.table()
        finally:
            client.close()

    def _batches(self, split: Split) -> Iterator[tuple[int, pa.RecordBatch]]:
        table, log = self._open()
        end = log.end if split.newest_slot < 0 else log.end_of(split.newest_slot)
        stop = end if split.stop_offset is None else min(end, split.stop_offset)
        if stop <= split.start_offset:
            return
        for step in log.after(split):
            first = step.begin
            for file in self._files(table, step):
                end = first + file.record_count
                if first < stop and end > split.start_offset:
                    yield from self._rows(table, file, first, range(split.start_offset, stop))
                first = end

    def _files(self, table: Table, step: LakeStep) -> list[DataFile]:
        """Data files with the rows of a snapshot, always in the same order."""
        snapshot, is_base = step.snapshot, step.kind is StepKind.BASE
        entries = []
        for manifest in snapshot.manifests(table.io):
            if manifest.content is not ManifestContent.DATA:
                if is_base and (manifest.has_added_files() or manifest.has_existing_files()):
                    raise self._unread("it has deletes of single rows (merge on read)")
            elif is_base or manifest.added_snapshot_id == snapshot.snapshot_id:
                entries += manifest.fetch_manifest_entry(table.io)
        if not is_base:
            entries = [
                each
                for each in entries
                if each.status is ManifestEntryStatus.ADDED
                and each.snapshot_id in (None, snapshot.snapshot_id)
            ]
        entries.sort(key=lambda each: (each.sequence_number or 0, each.data_file.file_path))
        files = [each.data_file for each in entries]
        if any(file.file_format is not FileFormat.PARQUET for file in files):
            raise self._unread("it has files of another format than Parquet")
        rows = sum(file.record_count for file in files)
        if rows != step.end - step.begin:
            raise TableMismatchError(
                f"files of its snapshot {snapshot.snapshot_id} have {rows} rows, and its summary "
                f"counts {step.end - step.begin}",
                where=self._options.topic,
                hint="the table's metadata is damaged: restore it, or read another table",
            )
        return files

    def _rows(
        self, table: Table, file: DataFile, first: int, wanted: range
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows of a file whose first row has the offset `first`."""
        schema = table.metadata.schema()
        if self._options.columns:
            names = [each.name for each in schema.fields]
            chosen = [name for name in names if name.lower() in self._options.columns]
            schema = schema.select(*chosen)
        scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
        at = first
        # The public call holds all rows of a file in memory.
        for batch in scan._record_batches_from_scan_tasks_and_deletes([FileScanTask(file)], {}):  # noqa: SLF001
            named = batch.rename_columns([name.lower() for name in batch.schema.names])
            for begin in range(0, named.num_rows, _BATCH_ROWS):
                piece = named.slice(begin, _BATCH_ROWS)
                skipped = max(wanted.start - at, 0)
                kept = piece.slice(skipped, max(min(wanted.stop - at, piece.num_rows) - skipped, 0))
                if kept.num_rows:
                    yield at + skipped, kept
                at += piece.num_rows
            if at >= wanted.stop:
                return
        if at != first + file.record_count:
            raise FileLostError(
                f"it has {at - first} rows, and the table's metadata counts {file.record_count}",
                where=file.file_path,
            )

    def _unread(self, what: str) -> NotInThisVersionError:
        return NotInThisVersionError(
            f"{what}, which is not read in this version",
            where=self._options.topic,
            hint="rewrite its data files, and begin with a new table of the route",
        )


@contextmanager
def client_errors(topic: str) -> Iterator[None]:
    """Errors of the client: a file that is gone may have been replaced by a later snapshot.

    Args:
        topic: What stands for the table.

    Raises:
        SourceUnavailableError: The store does not give a file.
        FileLostError: A file is damaged.
    """
    try:
        yield
    except SluicewayError:
        raise
    except OSError as error:
        raise SourceUnavailableError(
            f"a file of the table cannot be read: {error}",
            where=topic,
            hint="it is read again from the newest snapshot",
        ) from error
    except (pa.ArrowException, ValueError) as error:
        raise FileLostError(f"it cannot be read: {error}", where=topic) from error
