"""The dirty files of a ledger, and which of them may be missing."""

from dataclasses import dataclass, field

from sluiceway.ledger.dirty_files import CommittedDirty, committed_dirty
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import PURGE, LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import Record


@dataclass(slots=True)
class NotedDirty:
    """One dirty file.

    Attributes:
        consumed: Rows that lanes have read once more or given up, and `purged` those given up.
    """

    committed: CommittedDirty
    consumed: int = 0
    purged: int = 0

    def may_be_gone(self, *, expires: bool) -> bool:
        """Whether no reader can ask for a row of it again, so that the driver removes the file.

        Args:
            expires: Whether dirty rows are kept for a limited time: then files of replayed rows go
                too.
        """
        whole = self.consumed == int(self.committed.file.rows)
        return whole and (self.purged > 0 or expires)


@dataclass(slots=True)
class DirtyFold:
    """Folds a ledger's records, in their order."""

    layout: LedgerLayout
    files: dict[str, NotedDirty] = field(default_factory=dict)

    def apply(self, fold: Fold, record: Record) -> None:
        """Fold one record, after `fold` has folded it."""
        first, body = fold.first_fence, record.body
        if first is None:
            return
        for found in committed_dirty(self.layout, first.ledger, record):
            self.files[str(found.source)] = NotedDirty(found)
        if isinstance(body, LaneDataRecord):
            gives_up = fold.lanes.lanes[body.lane].kind == PURGE
            for span in body.ranges:
                noted = self.files.get(span.source)
                if noted is not None:
                    noted.consumed += int(span.end - span.start)
                    noted.purged += int(span.end - span.start) * gives_up
