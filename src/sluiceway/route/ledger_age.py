"""A ledger that is older than its table: restored from a backup, or begun anew (commit rule 21).

Its driver would read again what the table has already. Published files tell by their names of
which term and epoch they are, and a record is in the log before its files have their final names.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

from sluiceway.errors import LedgerMismatchError, StorageRefusedError
from sluiceway.ledger.file_names import file_origin
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import PartitionState
from sluiceway.ledger.log import LedgerLog

RECENT_RECORDS = 100
"""Partitions that these last records touched are always looked into."""

_MOST_NEW = 200
_MOST_RECENT = 300
_MOST_KNOWN = 500


def refuse_older_ledger(log: LedgerLog, fold: Fold) -> None:
    """Look for files that the log does not know. Called at START, before fencing.

    Args:
        log: Of the route.
        fold: Of the log; brought up to the tail.

    Raises:
        LedgerMismatchError: There is one; names it.
        StorageUnavailableError: The store failed.
    """
    found = [
        (path, (made.term, made.epoch))
        for path in _files(log, fold)
        if (made := file_origin(log.layout.route, path.rpartition("/")[2]))
    ]
    # Read after the listing: a driver that still runs has put a record before it published.
    log.advance(fold)
    for path, (term, epoch) in found:
        if (term, epoch) > (fold.term, fold.last_epoch):
            raise LedgerMismatchError(
                f"the ledger is older than its table: it ends at term {fold.term}, epoch "
                f"{fold.last_epoch}, and there is a file of term {term}, epoch {epoch}",
                where=path,
                hint="going on would write those rows again. Restore all of _sluiceway as it was "
                "when the file was written; a file that was copied from elsewhere, move away",
            ).with_report(
                {"file": path, "ledger": f"{fold.term}-{fold.last_epoch}"},
                (
                    f"sluiceway verify JOB --route {log.layout.route}",
                    f"sluiceway ledger show JOB --route {log.layout.route}",
                ),
            )


def _files(log: LedgerLog, fold: Fold) -> Iterator[str]:
    """What lies where rows of lost records would be, the likeliest places first."""
    yield from _files_in(log, f"{log.layout.root}/dirty")
    root = log.layout.table_root
    known = {_path(root, state.location): state for state in fold.partitions.values()}
    # No row went to what is sealed since, lost records included.
    new = (
        path
        for path in _new_folders(log, known)
        if fold.sealed_above(path[len(root) + 1 :]) is None
    )
    for folder in islice(new, _MOST_NEW):
        # Others may have put it there, and it may not be ours to read.
        with suppress(StorageRefusedError):
            yield from _files_in(log, folder)
    since = fold.next_seq - RECENT_RECORDS
    latest = sorted(known, key=lambda path: -known[path].last_seq)
    recent = [path for path in latest if known[path].last_seq >= since]
    older = latest[len(recent) :]
    for folder in (*recent[:_MOST_RECENT], *older[:_MOST_KNOWN]):
        yield from _files_in(log, folder)


def _files_in(log: LedgerLog, folder: str) -> Iterator[str]:
    for status in log.storage.list(folder):
        if not status.is_dir:
            yield status.path


def _new_folders(log: LedgerLog, known: Mapping[str, PartitionState]) -> Iterator[str]:
    """Folders that the ledger does not know, beside those that it does, the greatest names first.

    Of a ledger without partitions it is all there is.
    """
    root = log.layout.table_root
    if root not in known:
        yield root
    parents = {path.rpartition("/")[0] for path in known if path != root} | {root}
    above = {parent for parent in parents for parent in _ancestors(parent, root)}
    for parent in sorted(parents, reverse=True):
        for path in _below(log, parent):
            if path not in known and path not in above:
                yield from _tree(log, path)


def _ancestors(path: str, root: str) -> Iterator[str]:
    while len(path) > len(root):
        yield path
        path = path.rpartition("/")[0]


def _tree(log: LedgerLog, folder: str) -> Iterator[str]:
    yield folder
    with suppress(StorageRefusedError):
        for path in _below(log, folder):
            yield from _tree(log, path)


def _below(log: LedgerLog, folder: str) -> list[str]:
    below = [status.path for status in log.storage.list(folder) if status.is_dir]
    hidden = ("_", ".")
    return [path for path in reversed(below) if not path.rpartition("/")[2].startswith(hidden)]


def _path(root: str, folder: str) -> str:
    return f"{root}/{folder}" if folder else root
