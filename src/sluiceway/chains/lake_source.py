"""An Iceberg table of others as a source, opened from a connection's options."""

from collections.abc import Mapping, Sequence

from sluiceway.chains.lake_client import LakeClient
from sluiceway.chains.lake_reader import LakeReader
from sluiceway.chains.lake_upstream import PLACE, LakeUpstream
from sluiceway.chains.unit_client import UnitClient
from sluiceway.chains.units import UNITS, UnitRule
from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader


class LakeSource(Source):
    """Options are those of `LakeUpstream`, as texts."""

    servers_option = PLACE

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        if UNITS in options:
            return UnitClient(LakeUpstream.of(options), UnitRule.of(options[UNITS]))
        return LakeClient(LakeUpstream.of(options), request_timeout_s)

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`."""
        del owner
        return LakeReader(splits, LakeUpstream.of(options))
