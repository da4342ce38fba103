"""Rows that came for a closed time: how many are in the late place, and how many in the table.

The ledger's state has their sum. Most routes have late rows of one kind only, so the totals
suffice. Otherwise the log is read from the first of these times on.
"""

from collections import Counter
from collections.abc import Mapping

from sluiceway.ledger.dirty_files import late_sources
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.layout import late_folder
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import prefixes


def rows_aside(log: LedgerLog, fold: Fold) -> Mapping[str, int]:
    """Closed prefix -> its rows in the late place; prefixes without such rows are left out.

    Args:
        log: The ledger.
        fold: The fold of the whole ledger.

    Raises:
        LedgerCorruptError: A record is damaged.
        StorageUnavailableError: The store failed.
    """
    late = {name: each for name, each in fold.closed.items() if each.late_rows}
    if not late or not (fold.late_rows.side or fold.lanes.counts.late):
        return {}
    if not (fold.late_rows.reopen or fold.lanes.counts.written or fold.lanes.late.read):
        return {name: each.late_rows for name, each in late.items()}
    ledger = "" if fold.first_fence is None else fold.first_fence.ledger
    lying: dict[str, tuple[list[str], int]] = {}
    first = min(each.closed_seq for each in late.values())
    for record, _ in log.records(first):
        if record.seq >= fold.next_seq:
            break
        for source, file in late_sources(ledger, record).items():
            above = prefixes(late_folder(file.final))
            # As in the ledger's own sum: rows that came before the time was closed do not count.
            closed = [
                name for name in above if name in late and record.seq >= late[name].closed_seq
            ]
            lying[str(source)] = closed, int(file.rows)
        if isinstance(record.body, LaneDataRecord):
            for span in record.body.ranges:
                lying.pop(span.source, None)
    found: Counter[str] = Counter()
    for closed, rows in lying.values():
        found.update(dict.fromkeys(closed, rows))
    return found
