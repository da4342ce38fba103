"""What the driver asks of a table whose units a route computes: whether it is still the same one.

The table has one source partition, which names it in the ledger and never has an offset. Units are
read and computed elsewhere (`upkeep.recomputing`).
"""

import threading
import time
from collections.abc import Mapping, Sequence

from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.unit_tables import open_unit_table
from sluiceway.chains.units import UnitRule
from sluiceway.errors import (
    MetastoreUnavailableError,
    SourceUnavailableError,
    StorageUnavailableError,
    TableNotFoundError,
    TopicNotFoundError,
)
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)

_CHECK_S = 30.0


class UnitClient(SourceClient):
    """Of one table. Any thread may call.

    Args:
        options: How the upstream table is reached.
        rule: What the route computes of it.
    """

    def __init__(self, options: UpstreamOptions, rule: UnitRule) -> None:
        self._options = options
        self._rule = rule
        self._partition = SourcePartition(options.topic, 0)
        self._identity: SourceIdentity | None = None
        self._next_check_s = 0.0
        self._lock = threading.Lock()

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`.

        Raises:
            SourceUnavailableError: The table, or its ledger, is not there yet.
            TopicNotFoundError: It was there, and was dropped.
            TableMismatchError: It has no such units.
        """
        if not topics:
            return ()
        unknown = next((topic for topic in topics if topic != self._options.topic), None)
        if unknown is not None:
            raise TopicNotFoundError("no such table is read", where=unknown)
        with self._lock:
            if self._identity is None or time.monotonic() >= self._next_check_s:
                self._identity = self._found()
                self._next_check_s = time.monotonic() + _CHECK_S
            return (DiscoveredPartition(self._partition, self._identity, None),)

    def list_topics(self) -> tuple[str, ...]:
        """See `SourceClient.list_topics`."""
        return (self._options.topic,)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`: no row is read by its place."""
        return {one: LogBounds(0, 0, 0) for one in partitions if one == self._partition}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`."""
        del timestamp_ms
        return {one: 0 for one in partitions if one == self._partition}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.committed`: a table has no groups."""
        del group, partitions
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See `SourceClient.report`: who reads the units keeps a lease."""

    def close(self) -> None:
        """See `SourceClient.close`."""

    def _found(self) -> SourceIdentity:
        try:
            return open_unit_table(self._options, self._rule).identity
        except TableNotFoundError as error:
            if self._identity is None:
                raise SourceUnavailableError(
                    "the table does not exist yet; it is looked for again",
                    where=self._options.topic,
                    hint="run the job that fills it",
                ) from error
            raise TopicNotFoundError(
                "the table that this route reads was dropped",
                where=self._options.topic,
                hint="units that were computed are safe in the route's own table",
            ) from error
        except (StorageUnavailableError, MetastoreUnavailableError) as error:
            raise SourceUnavailableError(
                error.message, where=error.where, hint=error.hint
            ) from error
