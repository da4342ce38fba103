"""What a person should look at in a route whose state alone says that all is well."""

from sluiceway.audit.format_times import span
from sluiceway.config.config import RouteConfig
from sluiceway.route.status import RouteState, RouteStatus

MOST_DIRTY = 0.01
"""Greatest share of dirty rows among the newest ones that nobody need look at."""

JUDGED_ROWS = 100
"""The share of fewer rows than this is told, and makes nothing unwell; as in `dirty.max_rate`."""

_STILL_S = 600
_EPOCHS = 3
_AT_REST = (RouteState.STOPPED, RouteState.NOT_STARTED)


def dirty_share(status: RouteStatus) -> str:
    """That many of the rows of the last commits are dirty; empty when few are, or none is open."""
    read, dirty = _newest_rows(status)
    if status.rows_dirty_open == 0 or dirty <= MOST_DIRTY * read:
        return ""
    return f"{dirty:,} of the last {read:,} rows are dirty; `sluiceway dirty list JOB` says why"


def is_too_dirty(status: RouteStatus) -> bool:
    """Whether that share is no accident of few rows: then the route is not well."""
    return bool(dirty_share(status)) and _newest_rows(status)[0] >= JUDGED_ROWS


def _newest_rows(status: RouteStatus) -> tuple[int, int]:
    """Of the last commits: rows that were read, and of these the dirty ones."""
    epochs = status.epochs
    return sum(each.rows_read for each in epochs), sum(each.rows_dirty for each in epochs)


def waiting_rows(status: RouteStatus, config: RouteConfig, now_ms: int) -> str:
    """That records wait and nothing is done about them; empty when none does, or they are read.

    Args:
        status: Of the route.
        config: Of the route.
        now_ms: The clock.
    """
    if not status.lag_records:
        return ""
    age_ms = status.lag_at_least_ms if status.lag_ms is None else status.lag_ms
    oldest = "" if age_ms is None else f", the oldest for at least {span(1000 * age_ms)}"
    wait = f"{status.lag_records:,} records wait{oldest}"
    if status.state in _AT_REST:
        return f"{wait}, and no driver runs"
    quiet_s = _since_s(now_ms, status.last_commit_ms, status.since_ms)
    if status.state is RouteState.RUNNING and quiet_s > max(_STILL_S, _EPOCHS * config.interval_s):
        return f"{wait}, and nothing was committed for {span(int(1e6 * quiet_s))}"
    return ""


def slow_start(status: RouteStatus, now_ms: int) -> str:
    """That a route has been starting for long; empty when it has not."""
    starting_s = _since_s(now_ms, status.since_ms)
    if status.state is not RouteState.STARTING or starting_s <= _STILL_S:
        return ""
    return f"it has been starting for {span(int(1e6 * starting_s))}"


def _since_s(now_ms: int, *moments: int | None) -> float:
    """Since the last of these; 0 when none is known."""
    last_ms = max((each for each in moments if each is not None), default=now_ms)
    return (now_ms - last_ms) / 1000
