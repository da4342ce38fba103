"""What a job file says of dirty rows, as its driver takes it."""

from dataclasses import replace

from sluiceway.config.dirty_limits import DirtyLimits
from sluiceway.errors import JobFileError
from sluiceway.spec.dirty import DirtySpec
from sluiceway.spec.models import RouteSpec

_STORE = "dirty.store"


def dirty_topic(spec: RouteSpec) -> str | None:
    """The topic that is fed with dirty rows; None feeds none.

    Raises:
        JobFileError: The source is no Kafka cluster.
    """
    store = spec.dirty.store
    if store is None or store.topic is None:
        return None
    if spec.source_connection.kafka is None:
        raise JobFileError(
            "dirty rows go to a topic of the source's own cluster, and the source is not Kafka",
            where=_STORE,
            hint="write `store: beside`",
        )
    return store.topic


def dirty_table(spec: RouteSpec, *, text_keys: bool) -> str | None:
    """The table that is fed with dirty rows; None feeds none.

    Args:
        spec: The route.
        text_keys: Whether keys of its source partitions are texts.

    Raises:
        JobFileError: The catalog is no metastore, or the source numbers no partitions.
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
    if text_keys:
        raise JobFileError(
            "a table of dirty rows keeps numbers of source partitions, and those of this source "
            "are texts",
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
