"""What the driver asks of a table whose units a route computes: whether it is still the same one.

The table has one source partition, which names it in the ledger and never has an offset. Units are
read and computed elsewhere (`upkeep.recomputing`).
"""

import time
from collections.abc import Mapping, Sequence

from sluiceway.chains.client import CHECK_S, OneTableClient, unavailable
from sluiceway.chains.open_units import UnitUpstream, open_unit_table
from sluiceway.chains.units import UnitRule
from sluiceway.errors import (
    MetastoreUnavailableError,
    StorageUnavailableError,
    TableNotFoundError,
)
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)


class UnitClient(OneTableClient):
    """Of one table. Any thread may call.

    Args:
        options: How the upstream table is reached.
        rule: What the route computes of it.
    """

    def __init__(self, options: UnitUpstream, rule: UnitRule) -> None:
        super().__init__(options.topic)
        self._options = options
        self._rule = rule
        self._identity: SourceIdentity | None = None

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`.

        Raises:
            SourceUnavailableError: The table, or its ledger, is not there yet.
            TopicNotFoundError: It was there, and was dropped.
            TableMismatchError: It has no such units.
        """
        if not topics:
            return ()
        self._refuse_others(topics)
        with self._lock:
            if self._identity is None or time.monotonic() >= self._next_check_s:
                self._identity = self._found()
                self._next_check_s = time.monotonic() + CHECK_S
            return (DiscoveredPartition(self._partition, self._identity, None),)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`: no row is read by its place."""
        return {one: LogBounds(0, 0, 0) for one in partitions if one == self._partition}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`."""
        del timestamp_ms
        return {one: 0 for one in partitions if one == self._partition}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See `SourceClient.report`: who reads the units keeps a lease."""

    def close(self) -> None:
        """See `SourceClient.close`."""

    def _found(self) -> SourceIdentity:
        try:
            return open_unit_table(self._options, self._rule).identity
        except TableNotFoundError as error:
            raise self._dropped(was_read=self._identity is not None) from error
        except (StorageUnavailableError, MetastoreUnavailableError) as error:
            raise unavailable(error) from error
