"""Options of librdkafka that are the product's to set, not a job file's; each with the reason."""

from collections.abc import Mapping
from typing import Final

_OFFSETS: Final = "offsets are kept in the table's ledger only"
_ISOLATION: Final = "rows of open and aborted transactions must never be read"
_CODE: Final = "it would run code inside the workers"
_LOGIN: Final = "the job's block `kerberos` logs in, and renews tickets"
_FED: Final = "rows that are fed to a topic are sent once, and kept by all its replicas"
_EVENTS: Final = "which events reach this product is its own affair"
_ADDRESS: Final = "the brokers' addresses have a field of their own"

OWN_KAFKA_OPTIONS: Final[Mapping[str, str]] = {
    "acks": _FED,
    "allow.auto.create.topics": "a mistyped topic must be reported, not created",
    "api.version.request": "by the oldest protocol records have no times and no headers",
    "auto.commit.enable": _OFFSETS,
    "auto.commit.interval.ms": _OFFSETS,
    "auto.offset.reset": "an offset that is gone must stop the route, not move it",
    "bootstrap.servers": _ADDRESS,
    "broker.version.fallback": "by the oldest protocol records have no times and no headers",
    "delivery.report.only.error": _FED,
    "delivery.timeout.ms": _FED,
    "enable.auto.commit": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "enable.gapless.guarantee": _FED,
    "enable.idempotence": _FED,
    "enabled_events": _EVENTS,
    "enable.partition.eof": "this event marks the end of a range",
    "group.id": "no group is joined; the name for lag tools has a field of its own",
    "group.instance.id": "no group is joined",
    "group.protocol": "no group is joined",
    "internal.termination.signal": "signals of the process are the driver's",
    "isolation.level": _ISOLATION,
    "log.queue": _EVENTS,
    "max.in.flight": _FED,
    "max.in.flight.requests.per.connection": _FED,
    "message.send.max.retries": _FED,
    "message.timeout.ms": _FED,
    "metadata.broker.list": _ADDRESS,
    "offset.store.method": _OFFSETS,
    "offset.store.path": _OFFSETS,
    "offset.store.sync.interval.ms": _OFFSETS,
    "plugin.library.paths": _CODE,
    "queuing.strategy": _FED,
    "request.required.acks": _FED,
    "retries": _FED,
    "sasl.kerberos.keytab": _LOGIN,
    "sasl.kerberos.kinit.cmd": _CODE,
    "sasl.kerberos.min.time.before.relogin": _LOGIN,
    "sasl.kerberos.principal": _LOGIN,
    "ssl.engine.id": _CODE,
    "ssl.engine.location": _CODE,
    "test.mock.num.brokers": "it would replace the brokers by a mock",
    "topic.blacklist": "topics that are there would not be found",
    "transaction.timeout.ms": _FED,
    "transactional.id": "nothing is produced",
    **dict.fromkeys(
        (
            "background_event_cb",
            "closesocket_cb",
            "connect_cb",
            "consume_cb",
            "default.topic.config",
            "dr_cb",
            "dr_msg_cb",
            "error_cb",
            "interceptors",
            "log_cb",
            "logger",
            "msg_order_cmp",
            "oauth_cb",
            "oauthbearer_token_refresh_cb",
            "offset_commit_cb",
            "on_commit",
            "on_delivery",
            "opaque",
            "open_cb",
            "partitioner_cb",
            "rebalance_cb",
            "resolve_cb",
            "socket_cb",
            "ssl.certificate.verify_cb",
            "ssl_ca",
            "ssl_certificate",
            "ssl_key",
            "stats_cb",
            "throttle_cb",
        ),
        "it is not a plain setting",
    ),
}
"""By name, with the reason."""
