"""Connections to RocketMQ, as frozen values."""

from typing import Annotated, Literal

from pydantic import AfterValidator

from sluiceway.spec.block import Block
from sluiceway.spec.stores import AbsolutePath
from sluiceway.spec.values import Line, Secret, is_host_port, wrong


def _check_server(text: str) -> str:
    if not is_host_port(text):
        raise wrong("`host:port` of a name server", "write [host1:9876, host2:9876]")
    return text


def _check_servers(found: tuple[str, ...]) -> tuple[str, ...]:
    if not found:
        raise wrong("at least one name server", "write [host1:9876, host2:9876]")
    return found


NameServer = Annotated[str, AfterValidator(_check_server)]
NameServers = Annotated[tuple[NameServer, ...], AfterValidator(_check_servers)]


class RocketMqAcl(Block):
    """A login for brokers that demand signed requests.

    Attributes:
        access_key: Name of the login.
        secret_key: Signs the requests; it is never sent.
        security_token: Token of a temporary login; None for a permanent one.
    """

    access_key: Line
    secret_key: Secret
    security_token: Secret | None = None


class RocketMqTls(Block):
    """Encrypted connections.

    Attributes:
        ca_file: PEM file of the authorities to trust, on every worker; None takes the machine's.
        cert_file: PEM file of a certificate of our own, on every worker.
        key_file: PEM file of the key; None if `cert_file` has it.
        verify: Whether the driver checks the certificate of a server; brokers come with an unsigned
            one.
    """

    ca_file: AbsolutePath | None = None
    cert_file: AbsolutePath | None = None
    key_file: AbsolutePath | None = None
    verify: bool = True


class RocketMqConnection(Block):
    """How to reach a RocketMQ cluster, and what of its topics is read.

    Attributes:
        name_servers: Addresses of the name servers, `host:port` each; the driver asks any of them.
        acl: A login; None without.
        tls: Encryption; None without.
        tags: Tags that make a message a row, as `a || b`; None takes all.
        record_time: Which of a message's times is its record time: when the broker stored it, or
            when its producer made it.
    """

    name_servers: NameServers
    acl: RocketMqAcl | None = None
    tls: RocketMqTls | None = None
    tags: Line | None = None
    record_time: Literal["stored", "born"] = "stored"

    def options(self) -> dict[str, object]:
        """The same as flat options of the source; what is not given is left out."""
        found: dict[str, object] = {
            "name_servers": ",".join(self.name_servers),
            "tags": self.tags,
            "record_time": self.record_time,
        }
        if self.acl is not None:
            found |= {name: getattr(self.acl, name) for name in RocketMqAcl.model_fields}
        if self.tls is not None:
            found["tls"] = "true"
            found |= {name: getattr(self.tls, name) for name in RocketMqTls.model_fields}
        return {name: value for name, value in found.items() if value is not None}
