"""What a job file says of dirty rows, as its driver takes it."""

from dataclasses import replace

from sluiceway.config.dirty_limits import DirtyLimits
from sluiceway.config.side_topic_choice import side_topic
from sluiceway.errors import JobFileError
from sluiceway.sources.side_topics import SideTopic
from sluiceway.spec.dirty import DirtySpec
from sluiceway.spec.models import RouteSpec

_STORE = "dirty.store"


def dirty_topic(spec: RouteSpec) -> SideTopic | None:
    """The topic that is fed with dirty rows; None feeds none.

    Raises:
        JobFileError: The spec was not made by the loader, and names no Kafka connection.
    """
    store = spec.dirty.store
    if store is None or store.topic is None:
        return None
    return side_topic(spec, _STORE, store.topic, store.connection)


def dirty_table(spec: RouteSpec) -> str | None:
    """The table that is fed with dirty rows; None feeds none.

    Raises:
        JobFileError: The catalog is no metastore.
    """
    store = spec.dirty.store
    if store is None or store.table is None:
        return None
    if not spec.table_connection.catalog:
        raise JobFileError(
            "dirty rows go to a table of the route's own metastore, and its catalog is a plug-in",
            where=_STORE,
            hint="write `store: beside`",
        )
    return store.table


def dirty_limits(dirty: DirtySpec) -> DirtyLimits:
    """With how many dirty rows the route halts."""
    limits = DirtyLimits(
        rows=dirty.max_rows,
        reasons=tuple(sorted(dirty.reasons.items())),
        rows_window_ms=dirty.window_ms,
    )
    if dirty.max_rate is None:
        return limits
    return replace(
        limits,
        ratio=dirty.max_rate.ratio,
        ratio_window_ms=dirty.max_rate.window_ms,
        ratio_min_rows=dirty.max_rate.min_rows,
    )
