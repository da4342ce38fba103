"""How far a copy was read along, and where the first row begins that the table may lack."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.sources.contract import SourceBatch
from sluiceway.sources.origins import OriginHeaders

MOST_PENDING: Final = 10_000
"""More rows that wait are joined."""

_OWN_ROW: Final = 1 << 63


@dataclass(slots=True)
class FollowedCopy:
    """How far one copy was read along.

    Attributes:
        origin: Its log in the other room; `end` is the newest committed end that is known.
        topic_id: Id of the topic that was read.
        begun: Where reading began.
        next: First offset that was not read.
        whole: Whether no row can be missing before `begun` that the table lacks; None while no
            row was read.
        first_origin: Origin of the first copy; None before one.
        own_first: Whether a row of this room's own came before it.
        broken: Why an origin cannot be read; empty while all can.
        copied: Offset of the log after the last row that has a copy; 0 before one.
        to_end: Whether rows are read although they cannot change the place.
        pending: Rows that the table lacks: offset, and an origin that is at least its own. Only
            rows with a greater origin than all before them are kept.
    """

    origin: OriginLog
    topic_id: str
    begun: int
    next: int
    whole: bool | None
    first_origin: int | None = None
    own_first: bool = False
    broken: str = ""
    copied: int = 0
    to_end: bool = False
    pending: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def place(self) -> int:
        """First offset whose row may be missing in the table."""
        return self.pending[0][0] if self.pending else self.next

    @property
    def blocked(self) -> bool:
        """Whether the place stays where it is, whatever is read."""
        rows = self.pending
        waits = bool(rows) and rows[0][1] == _OWN_ROW and self.first_origin is not None
        return (waits and not self.to_end) or bool(self.broken)

    def commit(self, end: int) -> None:
        """The table has all rows of the log below `end`."""
        while self.pending and self.pending[0][1] < end:
            self.pending.popleft()

    def add(self, offset: int, origin: int | None) -> None:
        """A row of the copy; None is a row of this room's own, which no table has."""
        if origin is None:
            self.own_first = self.own_first or self.first_origin is None
        else:
            self.copied = max(self.copied, origin + 1)
            if self.first_origin is None:
                self.first_origin = origin
                if self.whole is None:
                    self.whole = origin <= self.origin.end
        value = _OWN_ROW if origin is None else origin
        greatest = self.pending[-1][1] if self.pending else int(self.origin.end) - 1
        if value <= greatest:
            return
        self.pending.append((offset, value))
        if len(self.pending) > MOST_PENDING:
            self._thin()

    def add_batch(self, batch: SourceBatch) -> None:
        """Rows of one fetch, in order. An origin that cannot be read ends the following."""
        headers = OriginHeaders(self.origin)
        rows = zip(batch.offsets, batch.headers(), batch.timestamps_ms(), strict=True)
        for offset, of_row, time_ms in rows:
            if self.blocked:
                return
            try:
                origin = headers.offset(of_row, None if time_ms is None else int(time_ms))
            except OffsetsLostError as error:
                self.broken = f"offset {int(offset)}: {error.message}"
                return
            self.add(int(offset), origin)

    def _thin(self) -> None:
        """Keep every other row, with the origin of the one after it: the place rises later."""
        rows = list(self.pending)
        joined = [(rows[n][0], rows[min(n + 1, len(rows) - 1)][1]) for n in range(0, len(rows), 2)]
        self.pending = deque(joined)
