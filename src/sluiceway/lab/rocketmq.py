"""RocketMQ: a name server and two brokers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sluiceway.errors import SourceUnavailableError
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.jars import ensure_jars, jars_folder, pinned_jars
from sluiceway.lab.server import (
    OPENED_TO_JVMS,
    QUICK_JVM_FLAGS,
    LabServer,
    ServerSite,
    accepts_connections,
    server_environment,
)
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOOPBACK, OnProgress
from sluiceway.sources.rocketmq.brokers import Brokers
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.routes import MASTER

NAME_SERVER = "rocketmq"
BROKERS = ("broker-a", "broker-b")
CLUSTER = "lab"
_VERSION = "5.5.0"
_ASK_TIMEOUT_S = 3.0
_EXPORTED = ("jdk.internal.ref", "sun.nio.ch")
OPENED_TO_SERVERS = (
    *OPENED_TO_JVMS,
    *(f"--add-exports=java.base/{name}=ALL-UNNAMED" for name in _EXPORTED),
)
"""JVM options for these servers, which use Java's internal packages."""
_NAME_SERVER_SETTINGS = """\
listenPort={port}
bindAddress={host}
kvConfigPath={folder}/kv.json
"""
BROKER_STORE = """\
storePathRootDir={folder}/data
storePathCommitLog={folder}/data/commitlog
mappedFileSizeCommitLog=33554432
mappedFileSizeConsumeQueue=600000
maxHashSlotNum=50000
maxIndexNum=200000
fileReservedTime=87600
diskMaxUsedSpaceRatio=95
timerWheelEnable=false
autoCreateTopicEnable=false
"""
"""Settings of a broker's store: small files, no retention by age, so a test decides what goes."""

_BROKER_SETTINGS = """\
brokerClusterName={cluster}
brokerName={name}
brokerId=0
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
namesrvAddr={host}:{name_server_port}
brokerIP1={host}
bindAddress={host}
listenPort={port}
fastListenPort={fast_port}
haListenPort={ha_port}
autoCreateSubscriptionGroup=true
brokerHeartbeatInterval=500
registerNameServerPeriod=10000
"""


@dataclass(frozen=True, slots=True)
class RocketMqEndpoint:
    """How to reach the lab's RocketMQ.

    Attributes:
        name_server: `host:port`.
        brokers: Address `host:port` of each broker, by name.
        jars: Folder of its jars, with its own clients and tools.
    """

    name_server: str
    brokers: Mapping[str, str]
    jars: Path


NameServerSite = Callable[[], ServerSite]
"""Address of the name server, with its present port."""


class _RocketMqServer(LabServer):
    """Common part of name server and brokers.

    Args:
        cache: Folder for the downloaded jars.
    """

    def __init__(self, cache: Path) -> None:
        self._pins = pinned_jars("rocketmq_jars.json")
        self.jars = jars_folder(cache, f"rocketmq-{_VERSION}", self._pins)

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Download the jars if the cache does not have them, and check their hashes."""
        ensure_jars(self.jars, self._pins, java=java, on_progress=on_progress)

    def _command(self, site: ServerSite, java: JavaHome, heap: str, main: str) -> list[str]:
        return [
            *(str(java.executable), heap, "-XX:MaxDirectMemorySize=512m", *QUICK_JVM_FLAGS),
            *OPENED_TO_SERVERS,
            f"-Djava.io.tmpdir={site.folder / 'tmp'}",
            f"-Drocketmq.home.dir={site.folder}",
            # Its log files and ids go below the user's home.
            f"-Duser.home={site.folder}",
            *("-cp", f"{self.jars}/*", main, "-c", "server.conf"),
        ]


class RocketMqNameServer(_RocketMqServer):
    """The name server of the lab."""

    name = NAME_SERVER
    title = f"RocketMQ name server {_VERSION}"
    listeners = (NAME_SERVER,)
    grace_s = 10.0

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings."""
        del java
        make_private_folder(site.folder / "tmp")
        settings = _NAME_SERVER_SETTINGS.format(
            host=LOOPBACK, port=site.ports[NAME_SERVER], folder=site.folder
        )
        write_private_file(site.folder / "server.conf", settings)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The name server's main class."""
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        return Launch(
            self._command(site, java, "-Xmx128m", main), site.folder, server_environment(java)
        )

    def answers(self, site: ServerSite) -> bool:
        """Whether it lists its brokers."""
        return registered_brokers(site) is not None


class _RocketMqBroker(_RocketMqServer):
    """A broker: a master without a replica.

    Args:
        cache: Folder for the downloaded jars.
        name_server: Returns the address of the name server; called before each start.
    """

    grace_s = 20.0

    def __init__(self, cache: Path, name_server: NameServerSite) -> None:
        super().__init__(cache)
        self._name_server = name_server

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings."""
        del java
        make_private_folder(site.folder / "tmp")
        port, fast_port, ha_port = (site.ports[each] for each in self.listeners)
        settings = (_BROKER_SETTINGS + BROKER_STORE).format(
            cluster=CLUSTER,
            name=self.name,
            host=LOOPBACK,
            name_server_port=self._name_server().ports[NAME_SERVER],
            port=port,
            fast_port=fast_port,
            ha_port=ha_port,
            folder=site.folder,
        )
        write_private_file(site.folder / "server.conf", settings)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The broker's main class."""
        main = "org.apache.rocketmq.broker.BrokerStartup"
        return Launch(
            self._command(site, java, "-Xmx384m", main), site.folder, server_environment(java)
        )

    def answers(self, site: ServerSite) -> bool:
        """Whether it listens, and is registered at the name server with its port."""
        port = site.ports[self.name]
        if not accepts_connections(port):
            return False
        known = registered_brokers(self._name_server()) or {}
        return known.get(self.name) == f"{LOOPBACK}:{port}"


class RocketMqBrokerA(_RocketMqBroker):
    """The lab's first broker."""

    name: ClassVar[str] = BROKERS[0]
    title = f"RocketMQ broker a {_VERSION}"
    listeners = (BROKERS[0], "broker-a_fast", "broker-a_ha")


class RocketMqBrokerB(_RocketMqBroker):
    """The lab's second broker."""

    name: ClassVar[str] = BROKERS[1]
    title = f"RocketMQ broker b {_VERSION}"
    listeners = (BROKERS[1], "broker-b_fast", "broker-b_ha")


def registered_brokers(name_server: ServerSite) -> dict[str, str] | None:
    """Addresses of the masters that the name server knows, by broker; None without an answer."""
    address = f"{LOOPBACK}:{name_server.ports[NAME_SERVER]}"
    brokers = Brokers(read_options({"name_servers": address}), _ASK_TIMEOUT_S)
    try:
        found = brokers.registered()
    except SourceUnavailableError:
        return None
    finally:
        brokers.close()
    return {
        name: place.addresses[MASTER] for name, place in found.items() if MASTER in place.addresses
    }
