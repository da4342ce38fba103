"""Which rows of the late place can be brought into their partitions, by the ledger alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluiceway.ledger.dirty_files import late_sources
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import LATE, LaneDataRecord, LaneRange
from sluiceway.ledger.layout import late_folder
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import is_below, prefixes
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.requests import MOST_RANGES, REQUEST_VERSION, LaneRequest


@dataclass(slots=True)
class LateFiles:
    """All files of late rows of a route's ledger, the oldest first."""

    log: LedgerLog
    fold: Fold = field(default_factory=Fold)
    files: dict[str, FileRecord] = field(default_factory=dict)

    @classmethod
    def read(cls, ledger: LedgerLog) -> "LateFiles":
        """Read the whole log; changes nothing.

        Raises:
            LedgerCorruptError: The log is damaged.
            StorageUnavailableError: The store failed.
        """
        found = cls(ledger)
        for record, raw in ledger.records():
            found.fold.apply(record, raw)
            first = found.fold.first_fence
            if first is not None:
                named = late_sources(first.ledger, record)
                found.files |= {str(source): file for source, file in named.items()}
        return found


@dataclass(frozen=True, slots=True)
class LateChoice:
    """Files of late rows that no lane has taken.

    Attributes:
        ranges: At most as many as a request holds; the oldest files.
        rows: How many rows these ranges hold; `partitions` has them by partition.
        sealed: Selected rows that have to stay: their time accepts no rows any more.
        dropped: Likewise, of partitions that their owner, or `retention`, has dropped.
        left_out: Whether the selection has more files than `ranges`.
    """

    ranges: tuple[LaneRange, ...]
    rows: int
    partitions: dict[str, int]
    sealed: int
    dropped: int
    left_out: bool

    def request(self, rows: LateFiles, operator: str, reason: str) -> LaneRequest:
        """The request for the driver."""
        first = rows.fold.first_fence
        ledger = first.ledger if first is not None else ""
        return LaneRequest(REQUEST_VERSION, ledger, LATE, operator, reason, self.ranges)


def choose_late(rows: LateFiles, wanted: Sequence[str] = ()) -> LateChoice:
    """The selected late rows, the oldest first.

    Args:
        rows: Late files of the route.
        wanted: Folders as `dt=20261120/hr=08`, and what lies below them; empty for all.
    """
    fold = rows.fold
    ranges: list[LaneRange] = []
    counts = Counter[str]()
    sealed = dropped = 0
    for source, file in rows.files.items():
        folder, number = late_folder(file.final), int(file.rows)
        meant = not wanted or any(name == folder or is_below(folder, name) for name in wanted)
        if not meant or fold.lanes.is_taken(source, 0, number):
            continue
        known = fold.partitions.get(folder)
        if fold.sealed_above(folder) is not None:
            sealed += number
        elif known is not None and known.expired:
            dropped += number
        else:
            ranges.append(LaneRange(source, BigInt(0), file.rows))
            if len(ranges) <= MOST_RANGES:
                counts[folder] += number
    left_out = len(ranges) > MOST_RANGES
    chosen = tuple(ranges[:MOST_RANGES])
    return LateChoice(chosen, counts.total(), dict(counts), sealed, dropped, left_out)


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
