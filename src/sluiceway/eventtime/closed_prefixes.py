"""Which partitions are closed: rows reach them by the late policy only (commit rules 6, 17)."""

from collections.abc import Iterable

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods


class ClosedPrefixes:
    """The prefixes that were closed when an epoch was planned. Used by one thread.

    Closing names prefixes from the first one with rows on. Every prefix that ends before a closed
    one is closed too, named or not. The watermark has passed it, and it could only be announced
    after later prefixes.

    Args:
        periods: Periods of the table's leading time columns.
        closed: Prefixes that are closed.
    """

    def __init__(self, periods: PrefixPeriods, closed: Iterable[str]) -> None:
        self._periods = periods
        self._closed = frozenset(closed)
        self._last = self._latest()

    def holds(self, partition: str) -> bool:
        """Whether a partition is closed.

        Args:
            partition: Folder relative to the table, with at least the leading time columns.
        """
        prefix = "/".join(partition.split("/")[: self._periods.depth])
        if prefix in self._closed:
            return True
        period = self._periods.of(partition)
        return period is not None and self._last is not None and period <= self._last

    def _latest(self) -> Period | None:
        if self._periods.sorts_as_text:
            # Years of hours may be closed: few of them are parsed.
            ordered = (self._periods.of(prefix) for prefix in sorted(self._closed, reverse=True))
            return next((each for each in ordered if each is not None), None)
        known = (self._periods.of(prefix) for prefix in self._closed)
        return max((each for each in known if each is not None), default=None)
