"""Wrong variants of what keeps a driver that was fenced from changing what has no fencing."""

import sys
import time
from collections.abc import Collection
from typing import Any

from sluiceway.followers import moved_partitions
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.ledger.driver_term import DriverTerm
from sluiceway.sinks.contract import DesiredPartition, TableSink


def held_for_ever(tenure: DriverTerm) -> None:
    """Only a put would meet the fence."""
    del tenure


def repair_then_look(applier: CatalogFollower, batch: list[DesiredPartition]) -> tuple[Any, ...]:
    """Old folders are judged by what the metastore shows after this driver's own repair."""
    parked = _APPLY_ALL(applier, batch)
    moved, now = applier._moved, time.monotonic()
    shown = applier._sink.shown([each.old.now for each in moved._waiting.values()]) or {}
    for each in moved._waiting.values():
        if moved_partitions._is_shown(each.old.now, shown):
            each.shown(now)
        else:
            each.shown_since = None
    return parked


_APPLY_ALL = CatalogFollower._apply_all


def all_again(
    moved: MovedPartitions, sink: TableSink, through: int, wanted: Collection[Any] = ()
) -> list[DesiredPartition]:
    """What has moved is put right without a look before."""
    del sink, through, wanted
    if moved.pause_s() != 0.0:
        return []
    moved._looked = time.monotonic()
    return [each.now for each in moved._watched.values()] + [
        each.old.now for each in moved._waiting.values()
    ]


def look_at_unpublished(
    moved: MovedPartitions, sink: TableSink, through: int, wanted: Collection[Any] = ()
) -> list[DesiredPartition]:
    """A look does not ask whether the files of a place have their names."""
    del through
    return _DUE(moved, sink, sys.maxsize, wanted)


_DUE = MovedPartitions.due
