"""Stores that the matrix runs on, and which failpoints belong to each."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from sluiceway.lab.lab import LabEndpoints, StoreServer
from sluiceway.observe.failpoint_names import POINTS
from tools.stores_under_test import HdfsUnderTest, S3UnderTest, StoreUnderTest


class Store(StrEnum):
    """Where the tables of the cells lie."""

    LOCAL = "local"
    S3 = "s3"
    HDFS = "hdfs"


# Met in the scene of keyed tables, which lie on local disks.
_KEYED = ("lake.load.", "lake.send.", "lake.placed", "lake.resolved")
_OWN = {Store.S3: "storage.s3.", Store.HDFS: "storage.hdfs."}


# Met in the scene of queues, which has RocketMQ in place of Kafka.
_QUEUES = "rocketmq."


def points_of(store: Store) -> tuple[str, ...]:
    """Points that a driver with a table on the store may meet: its own, and those of no store."""
    shared = (point for point in POINTS if not point.startswith(_QUEUES))
    return tuple(point for point in shared if _store_of(point) in (None, store))


def points_of_queues() -> tuple[str, ...]:
    """Points that a driver on RocketMQ may meet, with its table on a local disk."""
    mine = (point for point in POINTS if point.startswith(_QUEUES))
    return (*mine, *(each for each in points_of(Store.LOCAL) if not each.startswith("kafka.")))


def _store_of(point: str) -> Store | None:
    """Whose point it is; None for one that has nothing to do with a store."""
    own = (store for store, prefix in _OWN.items() if point.startswith(prefix))
    local = point.startswith(("storage.", *_KEYED))
    return next(own, Store.LOCAL if local else None)


def servers_of(store: Store) -> tuple[StoreServer, ...]:
    """What the lab needs for it."""
    return () if store is Store.LOCAL else (StoreServer(store.value),)


def opened(store: Store, endpoints: LabEndpoints) -> StoreUnderTest | None:
    """The store of a lab that is up; None for the local one.

    What a job needs of the environment is put there: drivers are begun from here.
    """
    found: StoreUnderTest | None = None
    if store is Store.S3 and endpoints.s3 is not None:
        found = S3UnderTest(endpoints.s3)
    elif store is Store.HDFS and endpoints.hdfs is not None:
        found = HdfsUnderTest(endpoints.hdfs)
    if found is not None:
        os.environ.update(found.environment())
    return found


def moved_onto(text: str, name: str, store: StoreUnderTest | None) -> str:
    """A job file with its table on the store."""
    if store is None:
        return text
    hms, hive = "  hms: {metastore:", f"name: {name}.t}}"
    assert (text.count(hms), text.count(hive)) == (1, 1), text
    text = text.replace(hms, f"{store.connection()}\n{hms}")
    return text.replace(
        hive, f'name: {name}.t, storage: lake, location: "{_location(store, name)}"}}'
    )


@contextmanager
def seen_locally(name: str, store: StoreUnderTest | None) -> Iterator[tuple[str, Path] | None]:
    """Where a cell's table lies, and the same files on this machine; None for a local one."""
    if store is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="sluiceway-cell-") as folder:
        location = _location(store, name)
        yield location, store.local_copy(location, Path(folder))


def _location(store: StoreUnderTest, name: str) -> str:
    return f"{store.root}/cells/{name}"
