"""Kafka as a source: its client and its readers, opened from a connection's options."""

from collections.abc import Mapping, Sequence
from typing import Final

from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader
from sluiceway.sources.kafka.settings import check_properties

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
"""The one option that is no client property of the user's: the brokers."""


class KafkaSource(Source):
    """Options are librdkafka's; `bootstrap.servers` comes from the connection's own key.

    The library is imported by who opens something: a job file is checked without it.
    """

    servers_option = BOOTSTRAP_SERVERS

    def check(self, options: Mapping[str, str]) -> None:
        """See `Source.check`."""
        check_properties(_properties(options))

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        from sluiceway.sources.kafka.client import KafkaSourceClient  # noqa: PLC0415

        return KafkaSourceClient(
            options[BOOTSTRAP_SERVERS], _properties(options), request_timeout_s
        )

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`."""
        from sluiceway.sources.kafka.consumer_cache import process_cache  # noqa: PLC0415
        from sluiceway.sources.kafka.reader import KafkaSplitReader  # noqa: PLC0415

        before = process_cache().reuse_counts().reused
        reader = KafkaSplitReader(
            splits,
            bootstrap_servers=options[BOOTSTRAP_SERVERS],
            properties=_properties(options),
            owner=owner,
        )
        reader.reused = process_cache().reuse_counts().reused > before
        return reader


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name != BOOTSTRAP_SERVERS}
