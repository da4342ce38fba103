"""A ledger that is older than its table: restored from a backup, or begun anew (commit rule 21).

Its driver would read again what the table has already. Published files tell by their names of
which term and epoch they are, and a record is in the log before its files have their final names.
"""

import re
from collections.abc import Iterator
from itertools import islice

from sluiceway.errors import LedgerMismatchError
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.log import LedgerLog

RECENT_RECORDS = 100
"""Partitions that these last records touched are looked into, and new ones beside them."""

_MOST_FOLDERS = 200


def refuse_older_ledger(log: LedgerLog, fold: Fold) -> None:
    """Look for files that the log does not know. Called at START, before fencing.

    Args:
        log: Of the route.
        fold: Of the log; brought up to the tail.

    Raises:
        LedgerMismatchError: There is one; names it.
        StorageUnavailableError: The store failed.
    """
    name = re.compile(rf"{re.escape(log.layout.route)}-(\d+)-(\d+)-\d+-[0-9a-f]{{32}}\..+")
    found = [
        (path, (int(made[1]), int(made[2])))
        for path in _files(log, fold)
        if (made := name.fullmatch(path.rpartition("/")[2]))
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
                "when the file was written, or move files of later terms and epochs away",
            ).with_report(
                {"file": path, "ledger": f"{fold.term}-{fold.last_epoch}"},
                ("sluiceway verify JOB", "sluiceway ledger show JOB"),
            )


def _files(log: LedgerLog, fold: Fold) -> Iterator[str]:
    for folder in islice(_folders(log, fold), _MOST_FOLDERS):
        for status in log.storage.list(folder):
            if not status.is_dir:
                yield status.path


def _folders(log: LedgerLog, fold: Fold) -> Iterator[str]:
    """Recent partitions first, then what stands beside them, the greatest names first."""
    root = log.layout.table_root
    if fold.next_seq == 0:
        yield from _tree(log, root)
        return
    since = fold.next_seq - RECENT_RECORDS
    recent = [state.folder for state in fold.partitions.values() if state.last_seq >= since]
    known = {f"{root}/{folder}" if folder else root for folder in fold.partitions}
    for folder in recent:
        yield f"{root}/{folder}" if folder else root
    parents = {f"{root}/{folder}".rpartition("/")[0] for folder in recent if folder}
    for parent in sorted(parents | {root}, reverse=True):
        for path in _below(log, parent):
            if path not in known:
                yield from _tree(log, path)


def _tree(log: LedgerLog, folder: str) -> Iterator[str]:
    yield folder
    for path in _below(log, folder):
        yield from _tree(log, path)


def _below(log: LedgerLog, folder: str) -> list[str]:
    below = [status.path for status in log.storage.list(folder) if status.is_dir]
    hidden = ("_", ".")
    return [path for path in reversed(below) if not path.rpartition("/")[2].startswith(hidden)]
