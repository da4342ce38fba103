"""A table of ours as a source: its client and its readers, opened from a connection's options."""

from collections.abc import Mapping, Sequence

from sluiceway.chains.client import TableClient
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.reader import PrefixReader, TableReader
from sluiceway.chains.unit_client import UnitClient
from sluiceway.chains.units import UNITS, UnitRule
from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader


class TableSource(Source):
    """Options are those of `UpstreamOptions`, as texts."""

    servers_option = "metastore"

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        del request_timeout_s
        if UNITS in options:
            return UnitClient(UpstreamOptions.of(options), UnitRule.of(options[UNITS]))
        return TableClient(UpstreamOptions.of(options))

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`. What was read of the ledger is kept for the next task."""
        del owner
        upstream = UpstreamOptions.of(options)
        if upstream.as_of:
            return PrefixReader(splits, upstream)
        return TableReader(splits, upstream)
