"""RocketMQ as a source: its client and its readers, opened from a connection's options."""

from collections.abc import Mapping, Sequence

from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader
from sluiceway.sources.rocketmq.client import RocketMqSourceClient
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.reader import RocketMqSplitReader


class RocketMqSource(Source):
    """Options are the keys of the job file's block, as texts; see `options.RocketMqOptions`."""

    text_keys = True
    servers_option = "name_servers"

    def check(self, options: Mapping[str, str]) -> None:
        """See `Source.check`."""
        read_options(options)

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        return RocketMqSourceClient(read_options(options), request_timeout_s)

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`. Connections are opened again for each task."""
        del owner
        return RocketMqSplitReader(splits, read_options(options))
