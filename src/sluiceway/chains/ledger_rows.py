"""All rows of a table at a slot, for SQL that joins it.

A SWAP gives the rows of a partition no place in the log, and an EXPIRE takes places away. So rows
are found by what each partition had at the slot, as it stands in the ledger.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa

from sluiceway.chains.client import unavailable
from sluiceway.chains.options import UpstreamOptions, missing_yet
from sluiceway.chains.reader import file_batches
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.chains.whole_table import WholeTable
from sluiceway.errors import (
    FileLostError,
    MetastoreUnavailableError,
    SourceUnavailableError,
    StorageUnavailableError,
    TableNotFoundError,
)
from sluiceway.ledger.partition_records import ExpireRecord, SwapRecord
from sluiceway.ledger.records import EpochRecord, Record
from sluiceway.ledger.row_places import COUNTED_ONLY, FileSpan, PartitionRows, RowBook


def whole_ledger_table(options: UpstreamOptions, pin: str) -> WholeTable:
    """The newest state of a table, or the pinned one.

    Args:
        options: How it is reached.
        pin: The state to read; empty for the newest one. A table that was created again since, or
            that no longer has all rows of that state, is read as it is now.

    Returns:
        Its rows, partition by partition. To read them raises FileLostError for a lost file, and
        NotInThisVersionError for a format that is not read. Rows that were replaced or dropped
        meanwhile raise SourceUnavailableError.

    Raises:
        SourceUnavailableError: The table is not there, or its catalog or its store does not answer.
    """
    table = _LedgerTable(options, pin)
    return WholeTable(table.pin, table.rows())


class _LedgerTable:
    def __init__(self, options: UpstreamOptions, pin: str) -> None:
        self._changed = -1
        with _answering(options):
            book, root = RowBook(COUNTED_ONLY), options.found_root()
            self._upstream = UpstreamLedger(root, options.stores, book, self._note)
            self._then: dict[str, PartitionRows] = {}
            ledger, _, slot = pin.partition("@")
            if ledger == self._upstream.ledger:
                self._upstream.read_on(int(slot))
                self._then = book.counts()
            at = self._changed
            self._upstream.read_on()
            if not self._then or at != int(slot) or not self._is_there():
                self._then, at = book.counts(), self._changed
        self.pin = f"{self._upstream.ledger}@{at}"
        self._options = options

    def rows(self) -> Generator[pa.Table]:
        """All rows, partition by partition."""
        with _answering(self._options):
            for span in self._spans():
                try:
                    for batch in file_batches(self._upstream, span, self._options.columns):
                        yield pa.Table.from_batches([batch])
                except FileLostError as error:
                    self._upstream.read_on()
                    if self._is_there() and span in self._spans():
                        raise
                    raise SourceUnavailableError(
                        "the table changed while it was read; it is read again",
                        where=self._options.topic,
                    ) from error

    def _note(self, record: Record) -> None:
        body = record.body
        brings = isinstance(body, EpochRecord) and bool(body.files)
        if brings or isinstance(body, (SwapRecord, ExpireRecord)):
            self._changed = record.seq

    def _is_there(self) -> bool:
        """Whether the rows of the state are in the table now."""
        book = self._upstream.book
        return all(book.let_go(name, then.life) is None for name, then in self._then.items())

    def _spans(self) -> list[FileSpan]:
        then = sorted(self._then.items())
        return [
            span
            for name, each in then
            for span in self._upstream.book.first_rows(name, each.rows, self._changed)
        ]


@contextmanager
def _answering(options: UpstreamOptions) -> Iterator[None]:
    """Errors of a catalog or store are those of a source."""
    try:
        yield
    except TableNotFoundError as error:
        raise missing_yet(options.topic) from error
    except (StorageUnavailableError, MetastoreUnavailableError) as error:
        raise unavailable(error) from error
