"""The order of announcements, where an epoch brings rows of an hour before the first closed one."""

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.sealing import NEVER_CLOSED


def open_before_first(fold: FoldState, periods: PrefixPeriods) -> list[Period]:
    """Times that are open and end before one that was closed first; announced before it.

    Closing begins with the first time with rows. An epoch that was in flight then may bring rows
    of earlier ones, which are in time: they are closed later, or with it, and announced first.
    Nothing joins once something is closed in the ledger, as rows of later epochs are late.

    Args:
        fold: What is closed in it was closed by its driver before.
        periods: Of the table.
    """
    if any(slot != NEVER_CLOSED for slot in fold.sealed.values()):
        # What was closed first is announced long ago, and so is all that came before it.
        return []
    began = min((each.closed_seq for each in fold.closed.values()), default=None)
    if began is None:
        return []
    names = (name for name, each in fold.closed.items() if each.closed_seq == began)
    last = max((each for name in names if (each := periods.of(name)) is not None), default=None)
    open_names = (
        name
        for name, state in fold.partitions.items()
        if state.first_seq < began and not state.expired and fold.closed_above(name) is None
    )
    found = {each for name in open_names if (each := periods.of(name)) is not None}
    return sorted(each for each in found if last is not None and each < last)
