"""Brokers that want a login: SCRAM, PLAIN, a token, a certificate; and one that goes by rules."""

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sluiceway.host.java import JavaHome, find_java
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.kafka import KafkaServer
from sluiceway.lab.server import ServerSite
from sluiceway.lab.support import LOOPBACK, pick_free_ports
from tools.keytool import STORE_PASSWORD, Keytool
from tools.route_faults import wait_until

USER: Final = "reader"
PASSWORD: Final = "of-this-test-only-7c1f"  # noqa: S105 - opens nothing but this broker
_JAAS: Final = {
    "login": "listener.name.sasl_ssl",
    "module": "sasl.jaas.config=org.apache.kafka.common.security",
    "claim": "unsecuredLoginStringClaim_sub",
}
_GUARDED = """\
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
inter.broker.listener.name=PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
ssl.keystore.location={folder}/broker.p12
ssl.keystore.type=PKCS12
ssl.keystore.password={store_password}
ssl.truststore.location={folder}/trusted.p12
ssl.truststore.type=PKCS12
ssl.truststore.password={store_password}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
{login}.plain.{module}.plain.PlainLoginModule required user_{user}="{password}";
{login}.scram-sha-512.{module}.scram.ScramLoginModule required;
{login}.oauthbearer.{module}.oauthbearer.OAuthBearerLoginModule required {claim}="{user}";
"""


_RULED: Final = """\
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
"""


@dataclass(frozen=True, slots=True)
class GuardedBroker:
    """Its addresses, and what a client needs to know it.

    Attributes:
        plain: Where no login is needed; for those who fill topics.
        sasl: Wants a login, over TLS.
        tls: Wants a certificate.
        authority: PEM file of the authority that has signed its certificate.
        certificate: PKCS12 file of a client, with its key.
        foreign: The same, of an authority that the broker does not trust.
    """

    plain: str
    sasl: str
    tls: str
    authority: Path
    certificate: Path
    foreign: Path

    def login(self, mechanism: str, password: str = PASSWORD) -> Mapping[str, str]:
        """Client properties of a login by name and password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }

    def token(self) -> Mapping[str, str]:
        """Client properties of a login by a token."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={USER}",
            "ssl.ca.location": str(self.authority),
        }

    def by_certificate(self, certificate: Path | None = None) -> Mapping[str, str]:
        """Client properties of a login by a certificate."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.keystore.location": str(certificate or self.certificate),
            "ssl.keystore.password": STORE_PASSWORD,
        }

    def hide(self, topic: str) -> None:
        """Take from who logs in the right to see a topic."""
        hidden = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{USER}",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.DENY,
        )
        admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
        admin.create_acls([hidden])[hidden].result(30.0)


@contextmanager
def guarded_broker(folder: Path) -> Iterator[GuardedBroker]:
    """A broker that is up in the block and gone after it.

    Args:
        folder: For its data, keys and certificates; does not exist.
    """
    folder.mkdir()
    _make_certificates(folder, find_java())
    with _serving(folder, ("sasl", "tls"), _guard) as site:
        plain, sasl, tls = (f"{LOOPBACK}:{site.ports[name]}" for name in ("kafka", "sasl", "tls"))
        certificates = (folder / "authority.pem", folder / "client.p12", folder / "foreign.p12")
        _add_user(plain)
        yield GuardedBroker(plain, sasl, tls, *certificates)


@contextmanager
def _serving(
    folder: Path, listeners: Sequence[str], guard: Callable[[Path, ServerSite], None]
) -> Iterator[ServerSite]:
    """A broker with more listeners; `guard` changes its settings."""
    java = find_java()
    kafka = KafkaServer(default_cache_folder(os.environ))
    kafka.fetch(java, lambda _: None)
    ports = pick_free_ports(2 + len(listeners))
    site = ServerSite(folder, dict(zip((*kafka.listeners, *listeners), ports, strict=True)))
    kafka.prepare(site, java)
    guard(folder / "server.properties", site)
    launch = kafka.launch(site, java)
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            launch.command, cwd=launch.folder, env=launch.environment, stdout=log, stderr=log
        )
        try:
            wait_until(lambda: kafka.answers(site))
            yield site
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class RuledBroker:
    """A broker that allows a user what a rule allows, and nothing else.

    Attributes:
        plain: For a super user.
        sasl: Wants a login by name and password.
    """

    plain: str
    sasl: str

    @staticmethod
    def login(user: str) -> Mapping[str, str]:
        """Client properties of a user."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }

    def allow(self, rules: Iterable[AclBinding]) -> None:
        """Add rules; returns when they hold."""
        wanted, admin = list(rules), self._admin()
        for answer in admin.create_acls(wanted).values():
            answer.result(30.0)
        wait_until(lambda: set(map(str, wanted)) <= set(map(str, self._rules())))

    def forbid(self, rules: Iterable[AclBinding]) -> None:
        """Remove rules; returns when they are gone."""
        wanted, admin = set(map(str, rules)), self._admin()
        filters = [_filter(rule) for rule in self._rules() if str(rule) in wanted]
        for answer in admin.delete_acls(filters).values():
            answer.result(30.0)
        wait_until(lambda: wanted.isdisjoint(map(str, self._rules())))

    def _rules(self) -> list[AclBinding]:
        every = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        admin = self._admin()
        return list(admin.describe_acls(every).result(30.0))

    def _admin(self) -> AdminClient:
        # Keep it while an answer is due: without it the library gives up.
        return AdminClient({"bootstrap.servers": self.plain, "log_level": 0})


def _filter(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        *(rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host),
        *(rule.operation, rule.permission_type),
    )


@contextmanager
def ruled_broker(folder: Path, users: Sequence[str]) -> Iterator[RuledBroker]:
    """A broker that is up in the block and gone after it.

    Args:
        folder: For its data; does not exist.
        users: Who may log in.
    """

    def guard(settings: Path, site: ServerSite) -> None:
        listener = f"SASL_PLAINTEXT://{LOOPBACK}:{site.ports['sasl']}"
        text = re.sub(r"(?m)^(listeners=.*)$", rf"\1,{listener}", settings.read_text())
        known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
        settings.write_text(text + _RULED.format(users=known))

    folder.mkdir()
    with _serving(folder, ("sasl",), guard) as site:
        yield RuledBroker(*(f"{LOOPBACK}:{site.ports[name]}" for name in ("kafka", "sasl")))


def _guard(settings: Path, site: ServerSite) -> None:
    listeners = f"SASL_SSL://{LOOPBACK}:{site.ports['sasl']},SSL://{LOOPBACK}:{site.ports['tls']}"
    text = re.sub(r"(?m)^(listeners=.*)$", rf"\1,{listeners}", settings.read_text())
    settings.write_text(
        text
        + _GUARDED.format(
            folder=site.folder,
            store_password=STORE_PASSWORD,
            **_JAAS,
            user=USER,
            password=PASSWORD,
        )
    )


def _add_user(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([change])[USER].result(30.0)


def _make_certificates(folder: Path, java: JavaHome) -> None:
    """An authority that the broker trusts and one that it does not; a certificate of each."""
    keytool = Keytool(java, folder)
    keytool.authority("authority")
    keytool.authority("stranger")
    keytool.trust("trusted", "authority")
    keytool.signed("broker", "authority")
    keytool.signed("client", "authority")
    keytool.signed("foreign", "stranger")
