"""librdkafka's settings: what the protocol needs, and which of the user's would break it."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sluiceway.errors import JobFileError
from sluiceway.sources.kafka.own_options import OWN_KAFKA_OPTIONS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

# librdkafka writes to stderr unless it is given a logger. It would report a broker that is away
# many times a second, and the product's log says it once; who wants it adds a handler.
LIBRARY_LOG: Final = logging.getLogger("sluiceway.sources.kafka.librdkafka")
LIBRARY_LOG.addHandler(logging.NullHandler())
LIBRARY_LOG.propagate = False

QUEUED_KBYTES: Final = "queued.max.messages.kbytes"

# Needed by the API and never used: partitions are assigned, no group is joined.
_UNUSED_GROUP: Final = "sluiceway-assign-only"

REFUSED: Final = OWN_KAFKA_OPTIONS

_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_GSSAPI: Final = "GSSAPI"


def wants_kerberos(properties: Mapping[str, str]) -> bool:
    """Whether a login with Kerberos is asked for: by name, or by SASL without a mechanism."""
    named = [properties[name] for name in _MECHANISMS if name in properties]
    if named:
        return _GSSAPI in named[0].upper()
    return properties.get("security.protocol", "").lower().startswith("sasl_")


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse client properties that would break the protocol. Called before any connection.

    Args:
        properties: librdkafka's names and values, as the user wrote them.

    Raises:
        JobFileError: Names every refused property and why.
    """
    refused = sorted(name for name in properties if name in REFUSED)
    if refused:
        reasons = "; ".join(f"{name}: {REFUSED[name]}" for name in refused)
        raise JobFileError(
            f"Kafka properties that this product sets itself ({reasons})",
            hint="remove them",
        )


def wrong_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties whose name or value librdkafka does not know. Needs no network.

    Called when a job file is checked. What depends on several properties or on files, such as a
    login or a certificate, is found when a client is made.

    Args:
        properties: librdkafka's names and values; refused ones are left out.

    Returns:
        The problems, by name.
    """
    wrong: dict[str, str] = {}
    names = properties.keys() - REFUSED.keys()
    if not names:
        return wrong
    # Most job files name none, and the library takes a tenth of a second to import.
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    for name in names:
        # Without brokers the client has no peer to talk to.
        settings = {"group.id": _UNUSED_GROUP, "logger": LIBRARY_LOG, name: properties[name]}
        try:
            Consumer(settings).close()
        except KafkaException as failure:
            text = failure.args[0].str()
            if "No such configuration property" in text:
                wrong[name] = f"expected an option of librdkafka, got `{name}`"
            elif "configuration property" in text:
                # The library's own words may hold the value, and that a secret.
                wrong[name] = f"expected a value that librdkafka takes for `{name}`, got another"
    return wrong


def admin_settings(
    bootstrap_servers: str, properties: Mapping[str, str], on_error: "Callable[[KafkaError], None]"
) -> dict[str, Any]:
    """Settings of the driver's client: the user's, then ours."""
    return {**properties, **_own_tickets(properties)} | {
        # The library takes it for a producer, and those create topics by asking for them.
        "allow.auto.create.topics": False,
        "bootstrap.servers": bootstrap_servers,
        "logger": LIBRARY_LOG,
        "error_cb": on_error,
    }


def consumer_settings(
    bootstrap_servers: str, properties: Mapping[str, str], on_error: "Callable[[KafkaError], None]"
) -> dict[str, Any]:
    """Settings of a task's consumer: defaults, then the user's, then what must not change."""
    return {**_TUNING, **properties, **_own_tickets(properties), **_PROTOCOL} | {
        "bootstrap.servers": bootstrap_servers,
        "logger": LIBRARY_LOG,
        "error_cb": on_error,
    }


def feed_settings(
    bootstrap_servers: str, properties: Mapping[str, str], on_error: "Callable[[KafkaError], None]"
) -> dict[str, Any]:
    """Settings of a producer that sends in transactions. Called by what feeds a topic.

    Options that only consumers have are passed over by the library.
    """
    return {**properties, **_own_tickets(properties), **_FEED} | {
        "bootstrap.servers": bootstrap_servers,
        "logger": LIBRARY_LOG,
        "error_cb": on_error,
    }


def _own_tickets(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Keeps the library from running `kinit` by itself, which it does for every client."""
    return _TICKETS if wants_kerberos(properties) else {}


_TICKETS: Final[Mapping[str, str]] = {
    "sasl.kerberos.kinit.cmd": "true",
    "sasl.kerberos.min.time.before.relogin": "0",
}

_PROTOCOL: Final[Mapping[str, str | bool]] = {
    "group.id": _UNUSED_GROUP,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}

_FEED: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "zstd",
    # What the brokers take is the topic's choice; the client is not in the way.
    "message.max.bytes": 104_857_600,
}

_TUNING: Final[Mapping[str, str | int | bool]] = {
    # A full queue is checked again after this pause; the default of a second stalls a reader.
    "fetch.queue.backoff.ms": 5,
    # How long an idle broker keeps a question; one with rows answers at once. A consumer that
    # gets other partitions waits for the answer under way.
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    # Memory of one consumer: this, and one response more.
    QUEUED_KBYTES: 32_768,
    "queued.min.messages": 50_000,
    # First request per partition; a larger record makes the library ask for more by itself, up
    # to fetch.max.bytes. Requests of 2 MiB cost the least CPU per record.
    "fetch.message.max.bytes": 2_097_152,
    # Brokers check a batch when it is appended, and nothing does on the way from their disks to
    # here. `python -m bench.crc_cost` measures what it costs; a user may set it to false.
    "check.crcs": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,
}
