"""Carries an expiry out: one request, one look, then the files that nothing names any more."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.errors import SluicewayError
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.expiry import (
    LEAST_KEPT,
    Expiry,
    Unnamed,
    due_expiry,
    expire_request,
    unnamed_files,
)
from sluiceway.sinks.iceberg.lake_table import HashOf, LakeTable, TableLook
from sluiceway.sinks.iceberg.old_metadata import remove_old_metadata
from sluiceway.sinks.iceberg.publisher import LakePlace

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Expired:
    """What has gone.

    Attributes:
        snapshots: How many.
        tags: How many, whose own age was over.
        data_files: How many files of rows and deletes.
        metadata_files: How many manifests and lists.
        left: Why nothing has gone; empty when it has, or when nothing was due.
    """

    snapshots: int = 0
    tags: int = 0
    data_files: int = 0
    metadata_files: int = 0
    left: str = ""


class LakeExpiry:
    """Of one table. One thread at a time; safe beside publishers, compactions and its like.

    Args:
        table: By a catalog object of its own.
        place: Where its files lie.
        hash_of: Of the ledger's records.
        events: To tell a person.
        least: How many of the newest snapshots always stay.
    """

    def __init__(
        self,
        table: LakeTable,
        place: LakePlace,
        hash_of: HashOf,
        events: Log,
        *,
        least: int = LEAST_KEPT,
    ) -> None:
        self._least = least
        self._table = table
        self._place = place
        self._hash_of = hash_of
        self._events = events

    def due(self, keep_s: float) -> tuple[TableLook, Expiry]:
        """What would go now. Changes nothing.

        Raises:
            TableHistoryError: The table was rolled back or replaced.
            TableMismatchError: It was dropped, or dropped and created again.
            MetastoreUnavailableError: The catalog does not answer.
        """
        look = self._table.read(self._hash_of)
        if look.through is None:
            return look, Expiry((), ())
        now_ms, keep_ms = int(time.time() * 1000), int(keep_s * 1000)
        metadata = look.table.metadata
        return look, due_expiry(
            metadata, look.through, now_ms=now_ms, keep_ms=keep_ms, least=self._least
        )

    def expire(self, keep_s: float, over: Callable[[], bool] = lambda: False) -> Expired:
        """Take old snapshots out of the table, then remove what only they have named.

        A process that dies in between leaves orphans, and so does one that is asked to end.
        Raises as `due`.

        Args:
            keep_s: For how long snapshots stay; the newest hundred always do.
            over: Whether to end as soon as it can; asked before each file.
        """
        said = ""
        for _ in range(_TRIES):
            if over():
                return Expired(left="it was asked to end")
            look, expiry = self.due(keep_s)
            if not expiry.snapshots and not expiry.tags:
                return Expired()
            said = self._table.send(look.table, expire_request(look.table.metadata, expiry))
            after = self._table.read(self._hash_of)
            metadata = after.table.metadata
            # Whoever has taken them out: files of theirs may be removed.
            left = {each.snapshot_id for each in metadata.snapshots}
            if left.isdisjoint(expiry.snapshots) and metadata.refs.keys().isdisjoint(expiry.tags):
                break
        else:
            return Expired(left=f"the catalog did not take it: {said}")
        reach("lake.expired", self._table.where)
        try:
            unnamed = unnamed_files(look.table, after.table, expiry, over)
        except Exception as error:  # noqa: BLE001 - any store's error: orphans stay
            self._events.warning("garbage_left", path=self._table.where, error=str(error))
            unnamed = Unnamed((), ())
        data, metadata_files = self._remove(after, unnamed, over)
        if not over():
            remove_old_metadata(look.table, after.table, self._events)
        done = Expired(len(expiry.snapshots), len(expiry.tags), data, metadata_files)
        self._events.info(
            "lake_expired",
            table=self._table.where,
            snapshots=done.snapshots,
            tags=done.tags,
            data_files=done.data_files,
        )
        return done

    def _remove(
        self, after: TableLook, unnamed: Unnamed, over: Callable[[], bool]
    ) -> tuple[int, int]:
        """Remove files below the table's location; what stays is an orphan, never an error.

        Returns:
            How many of both kinds it has come to.
        """
        place = self._place
        for number, uri in enumerate(unnamed.data):
            if over():
                return number, 0
            if not uri.startswith(f"{place.uri}/"):
                continue
            try:
                place.storage.remove(f"{place.root}{uri.removeprefix(place.uri)}")
            except SluicewayError as error:
                self._events.info("garbage_left", path=uri, error=str(error))
        for number, location in enumerate(unnamed.metadata):
            if over():
                return len(unnamed.data), number
            try:
                after.table.io.delete(location)
            except Exception as error:  # noqa: BLE001 - any store's error: an orphan stays
                self._events.info("garbage_left", path=location, error=str(error))
        return len(unnamed.data), len(unnamed.metadata)
