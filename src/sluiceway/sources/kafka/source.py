"""Kafka as a source: its client and its readers, opened from a connection's options."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from sluiceway.errors import KerberosRefusedError
from sluiceway.host.kerberos import log_in, login_of, without_login
from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader
from sluiceway.sources.kafka.settings import check_properties, wants_kerberos


def logged_in(options: Mapping[str, str]) -> dict[str, str]:
    """A connection's options for the library; after a login, where they ask for one.

    Called before a client is made, on the driver and in tasks.

    Raises:
        KerberosRefusedError: The library was built without, or the realm refuses.
        KerberosUnavailableError: No KDC answers.
    """
    properties = without_login(options)
    if wants_kerberos(properties):
        if not _is_built_in():
            raise KerberosRefusedError(
                "the confluent-kafka that is installed here was built without Kerberos (GSSAPI), "
                "as pip's own is",
                hint="build it on librdkafka with libsasl2, on driver and workers: "
                'docs/guides/clusters-and-stores.md, "Kafka with Kerberos", has the commands',
            )
        login = login_of(options)
        if login is not None:
            log_in(login)
    return properties


@cache
def _is_built_in() -> bool:
    """Ask the library, which refuses a feature that it was built without."""
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 - slow to import

    try:
        Consumer({"group.id": "none", "builtin.features": "sasl_gssapi"}).close()
    except KafkaException:
        return False
    return True


BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
"""The one option that is no client property of the user's: the brokers."""


class KafkaSource(Source):
    """Options are librdkafka's; `bootstrap.servers` comes from the connection's own key.

    The library is imported by who opens something: a job file is checked without it.
    """

    servers_option = BOOTSTRAP_SERVERS

    def check(self, options: Mapping[str, str]) -> None:
        """See `Source.check`."""
        check_properties(_properties(without_login(options)))

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        from sluiceway.sources.kafka.client import KafkaSourceClient  # noqa: PLC0415

        options = logged_in(options)
        return KafkaSourceClient(
            options[BOOTSTRAP_SERVERS], _properties(options), request_timeout_s
        )

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`."""
        from sluiceway.sources.kafka.consumer_cache import process_cache  # noqa: PLC0415
        from sluiceway.sources.kafka.reader import KafkaSplitReader  # noqa: PLC0415

        options = logged_in(options)
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
