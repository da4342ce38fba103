"""What a job file says of late rows, as its driver takes it."""

from sluiceway.errors import JobFileError
from sluiceway.spec.event_time import DEFAULT_ARCHIVE_WINDOW_MS, UNLIMITED
from sluiceway.spec.models import RouteSpec
from sluiceway.worker.plan import IN_TIME_ALWAYS, LatePolicy, LateRule


def late_rule(spec: RouteSpec) -> LateRule:
    """Rows of any age are in time unless the job file says something of lateness or readiness."""
    rule = spec.event_time
    if rule is None:
        return IN_TIME_ALWAYS
    window_ms = rule.archive_window_ms
    if window_ms is None:
        asked = rule.asks_for_late or spec.ready is not None
        window_ms = DEFAULT_ARCHIVE_WINDOW_MS if asked else UNLIMITED
    return LateRule(
        # Records and metrics call it `side`.
        policy=LatePolicy.SIDE if rule.late in (None, "side_output") else LatePolicy(rule.late),
        window_us=None if isinstance(window_ms, str) else window_ms * 1000,
        out_of_orderness_us=rule.out_of_orderness_ms * 1000,
    )


def late_table(spec: RouteSpec) -> str | None:
    """The table over the late place, as the job file names it; None makes none.

    Raises:
        JobFileError: The catalog is no metastore.
    """
    rule = spec.event_time
    if rule is None or rule.late_table is None:
        return None
    if not spec.table_connection.catalog:
        raise JobFileError(
            "late rows are shown in the route's own metastore, and its catalog is a plug-in",
            where="event_time.late_table",
            hint="remove it; late rows are put aside all the same",
        )
    return rule.late_table
