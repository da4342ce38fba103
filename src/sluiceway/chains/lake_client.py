"""The driver's view of an Iceberg table of others that a route reads."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from sluiceway.chains.client import OneTableClient, unavailable
from sluiceway.chains.lake_log import LakeLog
from sluiceway.chains.lake_upstream import FILE_ACCESS, METADATA, LakeUpstream
from sluiceway.errors import MetastoreUnavailableError, OffsetsLostError, TableMismatchError
from sluiceway.sinks.iceberg.catalog.catalog_pool import pooled_catalog
from sluiceway.sources.contract import (
    LAKE_CLUSTER,
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
    Split,
)

if TYPE_CHECKING:
    from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog


class LakeClient(OneTableClient):
    """Of one table. Any thread may call; one at a time asks the catalog.

    Args:
        options: How the table is reached.
        timeout_s: Longest wait for an answer of the catalog.
    """

    def __init__(self, options: LakeUpstream, timeout_s: float) -> None:
        super().__init__(options.topic)
        self._options = options
        self._timeout_s = timeout_s
        self._catalog: LakeCatalog | None = None
        self._table: Table | None = None
        self._is_fresh = False

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`: with the snapshot that a new route begins with.

        Raises:
            SourceUnavailableError: The catalog does not answer, or has no such table yet.
            TopicNotFoundError: It was there, and was dropped.
            TableMismatchError: It lacks a column that is read.
            NotInThisVersionError: It is of format version 1.
        """
        if not topics:
            return ()
        self._refuse_others(topics)
        with self._lock:
            table = self.table()
            self._is_fresh = True
            base = self._base(self._log(table))
        identity = SourceIdentity(LAKE_CLUSTER, str(table.metadata.table_uuid))
        return (DiscoveredPartition(self._partition, identity, None, base),)

    def _log(self, table: Table) -> LakeLog:
        return LakeLog(table.metadata, self._topic, passes_over=self._options.passes_over)

    def _base(self, log: LakeLog) -> int:
        """Sequence number of the snapshot that a new route begins with."""
        if self._options.start_ms < 0:
            return log.newest
        try:
            return log.before(self._options.start_ms)[0]
        except OffsetsLostError:
            # It ends a route that is new, when its start is asked for. Others have begun.
            return log.newest

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`: readers know which of the rows can still be read."""
        with self._lock:
            # Called right after `discover`, and by itself.
            table = self._table if self._is_fresh else None
            table = self.table() if table is None else table
            self._is_fresh = False
            log = self._log(table)
        here = LogBounds(
            0,
            log.end,
            log.end,
            removed_slot=log.removed,
            removals=log.removals,
            state_ids=log.ids,
        )
        return {one: here for one in partitions if one == self._partition}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`: the rows of the base have no time of their own.

        A route starts at the snapshot of its time; tools that ask for another one get the end.

        Raises:
            OffsetsLostError: The table's snapshots do not reach back to the start.
        """
        with self._lock:
            log = self._log(self.table())
            is_start = timestamp_ms == self._options.start_ms
            end = log.before(timestamp_ms)[1] if is_start else log.end
        return {one: end for one in partitions if one.topic == self._topic}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See `SourceClient.report`: nothing is written into tables of others."""

    def refuse_lost(self, split: Split) -> None:
        """See `SourceClient.refuse_lost`: rows may have gone with an expired snapshot."""
        with self._lock:
            self._log(self.table()).after(split)

    def reader_options(self) -> Mapping[str, str]:
        """See `SourceClient.reader_options`: the metadata file, and how files are read."""
        with self._lock:
            table = self.table() if self._table is None else self._table
            texts = {key: str(value) for key, value in table.io.properties.items()}
        return {METADATA: table.metadata_location, FILE_ACCESS: json.dumps(texts)}

    def close(self) -> None:
        """See `SourceClient.close`."""
        if self._catalog is not None:
            self._catalog.close()

    def table(self) -> Table:
        """The table as the catalog has it now.

        Raises:
            SourceUnavailableError: The catalog does not answer, or has no such table yet.
            TopicNotFoundError: It was there, and was dropped.
            TableMismatchError: It lacks a column that is read.
        """
        try:
            if self._catalog is None:
                self._catalog = pooled_catalog(dict(self._options.catalog), self._timeout_s)
            found = load_table(self._catalog, self._options.name)
        except MetastoreUnavailableError as error:
            raise unavailable(error) from error
        if found is None:
            raise self._dropped(was_read=self._table is not None)
        self._check_columns(found)
        self._table = found
        return found

    def _check_columns(self, table: Table) -> None:
        """A misspelt column would be null for ever."""
        held = [field.name for field in table.metadata.schema().fields]
        missing = sorted(set(self._options.columns) - {name.lower() for name in held})
        if missing:
            raise TableMismatchError(
                f"the table that is read has no column {', '.join(missing)}",
                where=self._topic,
                hint=f"its columns: {', '.join(held)}; correct name or path of the column",
            )


def load_table(catalog: "LakeCatalog", name: str) -> Table | None:
    """A table of a catalog, in whatever letter case it is written; None without one.

    Args:
        catalog: The catalog.
        name: `database.table`.

    Raises:
        MetastoreUnavailableError: The catalog does not answer.
    """
    found = catalog.load(_identifier(name))
    if found is None and (spelt := catalog.spelt_otherwise(_identifier(name))) is not None:
        found = catalog.load(_identifier(spelt))
    return found


def _identifier(name: str) -> "Identifier":
    database, _, table = name.rpartition(".")
    return database, table
