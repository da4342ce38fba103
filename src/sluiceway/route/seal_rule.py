"""What a route still needs of times that its ledger could seal (`ledger.sealing`)."""

from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.followers.ready_effects import ReadyEffects
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.sealing import MaySeal
from sluiceway.worker.plan import LatePolicy, LateRule


@dataclass(frozen=True, slots=True)
class RouteSealing:
    """Says what may be sealed by a route's job file (`ledger.sealing.SealChoice`).

    Attributes:
        ready: What it announces; None for nothing.
        late: What becomes of late rows.
        retention: How long partitions are kept; None for ever.
        told_below: Slot below which all receivers know of all announcements.
    """

    ready: ReadyRule | None
    late: LateRule
    retention: RetentionRule | None
    told_below: Callable[[], int | None]

    def __call__(self, fold: FoldState) -> MaySeal:
        """What may be sealed of this fold."""
        periods = None if self.ready is None else self.ready.periods()
        found = () if periods is None else map(periods.of, fold.closed)
        latest = max((each for each in found if each is not None), default=None)
        reopen_us = self._reopen_us(fold)
        told_below = self.told_below()

        def may_seal(name: str) -> bool:
            if self.retention is not None and fold.below(name):
                # Whoever lets go of it has to know what there is.
                return False
            closed = fold.closed.get(name)
            if closed is None:
                # Times that are announced are closed first.
                return self.ready is None or not fold.below(name)
            if told_below is not None and closed.ready_seq >= told_below:
                return False
            return _is_over(periods, name, latest, reopen_us)

        return may_seal

    def _reopen_us(self, fold: FoldState) -> int | None:
        """Rows before it do not reopen what is closed; None when none is bound by its age."""
        if self.late.policy is not LatePolicy.REOPEN or self.late.window_us is None:
            return None
        times = [known.max_event_time_us for known in fold.sources.values() if not known.retired]
        seen = [each for each in times if each is not None]
        return min(seen) - self.late.window_us if seen else None


def route_sealing(config: RouteConfig, ready: ReadyEffects | None) -> RouteSealing:
    """What a route's job file seals, given the targets that get its driver's announcements."""
    return RouteSealing(
        config.ready,
        config.late,
        config.retention,
        lambda: None if ready is None else ready.unannounced_from,
    )


def _is_over(
    periods: PrefixPeriods | None, name: str, latest: Period | None, reopen_us: int | None
) -> bool:
    """Whether a closed prefix is no use any more for closing others, nor takes late rows."""
    if periods is None:
        return False
    period = periods.of(name)
    if period is None:
        return True
    # What ends before the latest one is closed by it (`eventtime.closed_prefixes`).
    before = latest is not None and period < latest
    return before and (reopen_us is None or period.end_us <= reopen_us)
