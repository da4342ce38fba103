"""A Kafka broker: one node that is broker and controller (KRaft)."""

import base64
import re
import uuid
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.jars import ensure_jars, jars_folder, pinned_jars
from sluiceway.lab.kerberos import Realm, java_flags
from sluiceway.lab.server import (
    QUICK_JVM_FLAGS,
    LabServer,
    ServerSite,
    accepts_connections,
    format_data,
    server_environment,
)
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOOPBACK, OnProgress

_ASK_TIMEOUT_S = 3.0
# Retention is off: a test decides itself when records go. The sizes are for a 128 MB heap; with the
# cleaner's defaults the broker does not start in it. After a crash a broker cannot register again
# before its old session is over, so that is short. An idle broker need not report twice a second
# that it is alive.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}{secured}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
log.retention.ms=-1
log.retention.bytes=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
metadata.max.idle.interval.ms=30000
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.io.buffer.size=65536
log.index.size.max.bytes=1048576
"""
# A second listener: the client that pip installs has no Kerberos.
_SECURED = """\
sasl.enabled.mechanisms=GSSAPI
sasl.kerberos.service.name=kafka
listener.name.secured.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule \
required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT
"""
SECURED = "kafka_secured"
"""Listener with a login, of a broker in a realm."""


class KafkaServer(LabServer):
    """The broker of the lab.

    Args:
        cache: Folder for the downloaded jars.
        realm: Realm in which users of its second listener log in; None without one.
    """

    name = "kafka"
    title = "Kafka 4.1.1"
    listeners: tuple[str, ...] = ("kafka", "kafka_controller")
    grace_s = 20.0

    def __init__(self, cache: Path, realm: Realm | None = None) -> None:
        self._realm = realm
        if realm is not None:
            self.listeners = (*self.listeners, SECURED)
        self._pins = pinned_jars("kafka_jars.json")
        self._jars = jars_folder(cache, "kafka-4.1.1", self._pins)

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Download the jars if the cache does not have them, and check their hashes."""
        ensure_jars(self._jars, self._pins, java=java, on_progress=on_progress)

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write `server.properties`; format the data folder the first time."""
        make_private_folder(site.folder / "tmp")
        settings = _SETTINGS.format(
            host=LOOPBACK,
            port=site.ports["kafka"],
            controller_port=site.ports["kafka_controller"],
            data=_escape(str(site.folder / "data")),
            secured="" if self._realm is None else f",SECURED://localhost:{site.ports[SECURED]}",
        )
        if self._realm is not None:
            keytab = _escape(str(self._realm.keytab("kafka")))
            settings += _SECURED.format(keytab=keytab, principal=self._realm.service("kafka"))
        write_private_file(site.folder / "server.properties", settings)
        if _cluster_id(site) is None:
            tool = ("kafka.tools.StorageTool", "format", "--ignore-formatted")
            arguments = (f"--cluster-id={_new_cluster_id()}", "--config=server.properties")
            format_data(site, self._command(site, java, *tool, *arguments), java)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The broker's main class on the cached jars."""
        command = self._command(site, java, "kafka.Kafka", "server.properties")
        return Launch(command, site.folder, server_environment(java))

    def answers(self, site: ServerSite) -> bool:
        """Whether the broker lists its topics, and is the one that was formatted here."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 - slow to import
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        port = site.ports["kafka"]
        if not accepts_connections(port):
            return False
        client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", "log_level": 0})
        try:
            metadata = client.list_topics(timeout=_ASK_TIMEOUT_S)
        except KafkaException:
            return False
        return bool(metadata.brokers) and metadata.cluster_id == _cluster_id(site)

    def _command(self, site: ServerSite, java: JavaHome, *main: str) -> list[str]:
        return [
            *(str(java.executable), "-Xmx128m", *QUICK_JVM_FLAGS),
            *java_flags(self._realm),
            f"-Djava.io.tmpdir={site.folder / 'tmp'}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            *("-cp", f"{self._jars}/*", *main),
        ]


def _new_cluster_id() -> str:
    """22 characters, in the form of the broker's tools."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _cluster_id(site: ServerSite) -> str | None:
    try:
        properties = (site.folder / "data" / "meta.properties").read_text()
    except FileNotFoundError:
        return None
    found = re.search(r"^cluster\.id=(\S+)$", properties, re.MULTILINE)
    return found[1] if found else None


def _escape(text: str) -> str:
    """Text as the value of a Java properties file."""
    return text.replace("\\", "\\\\")


def create_topic(bootstrap_servers: str, topic: str, partitions: int) -> bool:
    """Create a topic, with one replica for each partition. Safe to repeat.

    Returns:
        Whether it is new; False for an existing one, which stays unchanged.

    Raises:
        KafkaException: The broker does not answer or refuses the name.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    (created,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    try:
        created.result()
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True
