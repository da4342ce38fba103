"""Logins with Kerberos at brokers: by librdkafka, where it was built with that."""

from collections.abc import Mapping
from functools import cache

from sluiceway.errors import KerberosRefusedError
from sluiceway.host.kerberos import log_in, login_of, without_login
from sluiceway.sources.kafka.settings import wants_kerberos


def logged_in(options: Mapping[str, str]) -> dict[str, str]:
    """A connection's options for the library; behind a login, where they ask for one.

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
