"""Readiness of a route that reads a table: its hours follow those of that table.

The rows of a topic show its progress. The ledger of a table shows the hours that it has announced,
and its watermark at the last record that this route has read. No clock closes an hour.
"""

from collections.abc import Callable, Iterable, Mapping

from sluiceway.errors import TableMismatchError
from sluiceway.eventtime.readiness import DuePrefixes
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.data_parts import SourceName, WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionKey, SourceState
from sluiceway.ledger.folding.fold_watermark import ALL_IDLE
from sluiceway.ledger.partition_records import ReadyCause
from sluiceway.ledger.records import RangeRecord
from sluiceway.observe.log import Log
from sluiceway.route.route_readiness import RouteReadiness, with_ranges
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import Inheritance, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.record_queue import RecordQueue

Inherit = Callable[[Mapping[SourcePartition, int]], Inheritance | None]
"""As `SourceClient.inheritance`."""
_NOTHING = Inheritance(None, ())


class InheritedReadiness(RouteReadiness):
    """Of one route while its driver lives. Used by one thread at a time.

    Args:
        rule: Rule of the route; its times do not decide what is complete.
        record_queue: Where prefixes are closed.
        fold: As START has found it.
        log: Log for unusual events.
        inherit: Asks the source.
    """

    def __init__(
        self, rule: ReadyRule, record_queue: RecordQueue, fold: Fold, log: Log, inherit: Inherit
    ) -> None:
        self._inherit = inherit
        super().__init__(rule, record_queue, fold, log)

    def mark(
        self, fold: Fold, view: SourceView, ranges: Iterable[RangeRecord] = ()
    ) -> WatermarkRecord:
        """The watermark of the last record of the table that is read with these ranges.

        Rows that the table has left out count for its own watermark and not here. Where it is
        ahead of all rows that have come, it is taken over by a record without rows.
        """
        ranges = tuple(ranges)
        before = fold.watermark
        read_at_us = max(view.read_at_us, before.read_at_us or 0)
        sources = with_ranges(fold, ranges, read_at_us)
        found = self._found(sources).watermark_us
        times = [known.max_event_time_us for known in sources.values()]
        own = max((min(time, read_at_us) for time in times if time is not None), default=None)
        moved = any(span.rows for span in ranges)
        plain = WatermarkRecord(BigInt(read_at_us))
        if found is None or own is None:
            return plain
        if before.us is None and self._record_queue.owes_closing(fold):
            # What was closed without a watermark names no bound, which one would ask for.
            return plain
        us = min(found, own) if moved else found
        ahead = us > own
        if (before.us is not None and us <= before.us) or (ahead and us >= read_at_us):
            return plain
        names = tuple(
            SourceName(*key) for key in sources if not moved and fold.sources[key].idle is not ahead
        )
        return WatermarkRecord(
            BigInt(read_at_us),
            us=BigInt(us),
            by=ALL_IDLE if ahead else "",
            idle=names if ahead else (),
            woken=() if ahead else names,
        )

    def idle_mark(self, fold: Fold, view: SourceView) -> WatermarkRecord | None:
        """The watermark of the table, where something is closed although no row was read."""
        if not self.inherits_due(fold):
            return None
        mark = self.mark(fold, view)
        return None if mark.us is None else mark

    def close_due(self, fold: Fold) -> None:
        """Close what the table had announced before the rows that come next."""
        self._see(fold)
        due = self._due(fold)
        if due is not None:
            self._close(due)

    def inherits_due(self, fold: Fold) -> bool:
        """See `RouteReadiness.inherits_due`."""
        self._see(fold)
        return self._due(fold) is not None

    def cause(self, fold: Fold, prefix: str) -> ReadyCause | None:
        """The newest announcement of the table that is passed."""
        passed = self._found(fold.sources).ready
        found = next((each for each in reversed(passed) if each.prefix == prefix), None)
        return None if found is None else ReadyCause(found.ledger, found.prefix, found.version)

    def _due(self, fold: Fold) -> DuePrefixes | None:
        prefixes = [each.prefix for each in self._found(fold.sources).ready]
        unlike = next((each for each in prefixes if self.periods.of(each) is None), None)
        if unlike is not None:
            names = "/".join(name for name, _ in self.rule.columns)
            raise TableMismatchError(
                f"the table that is read announces {unlike}, this one has the time columns {names}",
                where="ready",
                hint="partition both tables by the same leading times, or remove `ready`",
            )
        return self._book.due_announced(prefixes, fold.watermark.us)

    def _found(self, sources: Mapping[PartitionKey, SourceState]) -> Inheritance:
        ends = {
            SourcePartition(*key): known.end for key, known in sources.items() if not known.retired
        }
        return self._inherit(ends) or _NOTHING
