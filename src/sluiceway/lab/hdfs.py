"""HDFS: a name node and a data node, from one jar and pyspark's jars."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from hdfs_native import Client, WriteOptions

from sluiceway.host.java import JavaHome
from sluiceway.host.kerberos import log_in
from sluiceway.lab.daemon import Launch
from sluiceway.lab.jars import PinnedJar, ensure_jars, jars_folder, pinned_jars, spark_jars_folder
from sluiceway.lab.kerberos import Realm, java_flags
from sluiceway.lab.server import (
    OPENED_TO_JVMS,
    QUICK_JVM_FLAGS,
    LabServer,
    ServerSite,
    accepts_connections,
    format_data,
    server_environment,
)
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOG4J_SETTINGS, LOOPBACK, OnProgress

NAME_NODE = "namenode"
DATA_NODE = "datanode"
TOKEN_LIFE_S = 120
TOKEN_LONGEST_LIFE_S = 180
"""Longest life of a delegation token of the lab's name node, renewed or not."""
_QUICK = {"dfs.client.failover.max.attempts": "1", "dfs.client.failover.sleep.base.millis": "100"}


@dataclass(frozen=True, slots=True)
class HdfsEndpoint:
    """How to reach the lab's HDFS.

    Attributes:
        uri: `hdfs://host:port`.
        config_dir: Folder of core-site.xml and hdfs-site.xml for clients.
        realm: Realm of its users; None where no login is needed.
    """

    uri: str
    config_dir: Path
    realm: Realm | None = None

    def client(self, settings: Mapping[str, str] | None = None) -> Client:
        """A client of it; logs this process in where that is needed."""
        if self.realm is not None:
            log_in(self.realm.login)
        return Client(self.uri, dict(settings or {}), str(self.config_dir))

    def copy(self, location: str, folder: Path) -> None:
        """Copy the files below a location into a folder of this machine, as plain files.

        An existing file of the same length is not copied again.
        """
        client, top = self.client(), location.removeprefix(self.uri)
        for status in client.list_status(top, recursive=True):
            target = folder / status.path.removeprefix(f"{top}/")
            if status.isdir:
                target.mkdir(parents=True, exist_ok=True)
                continue
            if target.is_file() and target.stat().st_size == status.length:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(client.read(status.path).read())


NameNodeSite = Callable[[], HdfsEndpoint]
"""Address of the name node, with its present port."""


def hdfs_endpoint(site: ServerSite, realm: Realm | None = None) -> HdfsEndpoint:
    """The endpoint of the name node at a site."""
    uri = f"hdfs://{LOOPBACK}:{site.ports[NAME_NODE]}"
    return HdfsEndpoint(uri, site.folder / "conf", realm)


class HadoopServer(LabServer):
    """Common part of the daemons of HDFS and YARN.

    Args:
        cache: Folder for the downloaded jar.
        realm: Realm in which users log in; None where they need not.
    """

    def __init__(self, cache: Path, realm: Realm | None = None) -> None:
        self._realm = realm
        self._pins: tuple[PinnedJar, ...] = pinned_jars("hdfs_jars.json")
        self._jars = jars_folder(cache, "hdfs-3.4.2", self._pins)

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Download the jar if the cache does not have it, and check its hash."""
        ensure_jars(self._jars, self._pins, java=java, on_progress=on_progress)

    def _write_settings(self, site: ServerSite, uri: str, settings: Mapping[str, str]) -> None:
        realm = self._realm
        ours = {} if realm is None else _secured(realm)
        common = {} if realm is None else realm.hadoop_settings()
        write_hadoop_settings(site.folder / "conf", uri, {**settings, **ours}, common)

    def _class_path(self) -> list[str]:
        return [f"{self._jars}/*", f"{spark_jars_folder()}/*"]

    def _command(self, site: ServerSite, java: JavaHome, *main: str) -> list[str]:
        return [
            *(str(java.executable), "-Xmx256m", *QUICK_JVM_FLAGS, *OPENED_TO_JVMS),
            *java_flags(self._realm),
            f"-Djava.io.tmpdir={site.folder / 'tmp'}",
            f"-Dhadoop.log.dir={site.folder}",
            *("-cp", ":".join(["conf", *self._class_path()]), *main),
        ]


class NameNodeServer(HadoopServer):
    """The name node of the lab."""

    name = NAME_NODE
    title = "HDFS name node 3.4.2"
    listeners = (NAME_NODE, "namenode_http")
    grace_s = 10.0

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings; format its folder the first time."""
        make_private_folder(site.folder / "tmp")
        settings = {
            "dfs.namenode.http-address": f"{LOOPBACK}:{site.ports['namenode_http']}",
            "dfs.namenode.name.dir": f"file://{site.folder / 'data'}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.fs-limits.min-block-size": "1024",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A dead data node is noticed within seconds.
            "dfs.namenode.heartbeat.recheck-interval": "2000",
            "dfs.heartbeat.interval": "1",
            # Delegation tokens expire within minutes, as the client's tickets do.
            "dfs.namenode.delegation.token.renew-interval": str(TOKEN_LIFE_S * 1000),
            "dfs.namenode.delegation.token.max-lifetime": str(TOKEN_LONGEST_LIFE_S * 1000),
        }
        self._write_settings(site, hdfs_endpoint(site).uri, settings)
        if not (site.folder / "data" / "current").is_dir():
            main = "org.apache.hadoop.hdfs.server.namenode.NameNode"
            format_data(site, self._command(site, java, main, "-format", "-nonInteractive"), java)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The name node's main class."""
        command = self._command(site, java, "org.apache.hadoop.hdfs.server.namenode.NameNode")
        return Launch(command, site.folder, server_environment(java))

    def answers(self, site: ServerSite) -> bool:
        """Whether it describes its root folder."""
        if not accepts_connections(site.ports[NAME_NODE]):
            return False
        try:
            root = hdfs_endpoint(site, self._realm).client(_QUICK).get_file_info("/")
        except (OSError, RuntimeError):
            return False
        return bool(root.isdir)


class DataNodeServer(HadoopServer):
    """The data node of the lab.

    Args:
        cache: Folder for the downloaded jar.
        name_node: Returns the address of the name node; called before each start.
    """

    name = DATA_NODE
    title = "HDFS data node 3.4.2"
    listeners = (DATA_NODE, "datanode_ipc", "datanode_http")
    grace_s = 10.0

    def __init__(self, cache: Path, name_node: NameNodeSite, realm: Realm | None = None) -> None:
        super().__init__(cache, realm)
        self._name_node = name_node

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings."""
        del java
        make_private_folder(site.folder / "tmp")
        settings = {
            "dfs.datanode.data.dir": f"file://{site.folder / 'data'}",
            "dfs.datanode.address": f"{LOOPBACK}:{site.ports[DATA_NODE]}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{site.ports['datanode_ipc']}",
            "dfs.datanode.http.address": f"{LOOPBACK}:{site.ports['datanode_http']}",
            "dfs.datanode.hostname": "localhost",
            "dfs.heartbeat.interval": "1",
        }
        self._write_settings(site, self._name_node().uri, settings)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The data node's main class."""
        command = self._command(site, java, "org.apache.hadoop.hdfs.server.datanode.DataNode")
        return Launch(command, site.folder, server_environment(java))

    def answers(self, site: ServerSite) -> bool:
        """Whether a file can be written: it listens for some time before it accepts one."""
        if not accepts_connections(site.ports[DATA_NODE]):
            return False
        try:
            client = self._name_node().client(_QUICK)
            with client.create("/.lab", WriteOptions(overwrite=True)) as stream:
                stream.write(b"up")
        except (OSError, RuntimeError):
            return False
        return True


def _secured(realm: Realm) -> dict[str, str]:
    """Settings of both daemons for hdfs-site.xml, some of which clients need."""
    keytab, user = str(realm.keytab("hdfs")), realm.service("hdfs")
    return {
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.kerberos.principal": user,
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.kerberos.principal": user,
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": realm.service("HTTP"),
        "dfs.web.authentication.kerberos.keytab": keytab,
        "dfs.data.transfer.protection": "privacy",
        # With SASL a data node needs no port below 1024; without HTTPS it accepts that only this
        # way.
        "ignore.secure.ports.for.testing": "true",
    }


def write_hadoop_settings(
    folder: Path, uri: str, settings: Mapping[str, str], common: Mapping[str, str] | None = None
) -> None:
    """Write core-site.xml, hdfs-site.xml and the settings of the log.

    Args:
        folder: Folder of these files.
        uri: URI of the name node.
        settings: Settings for hdfs-site.xml.
        common: Settings for core-site.xml, in addition to the address.
    """
    make_private_folder(folder)
    core = {"fs.defaultFS": uri, **(common or {})}
    write_private_file(folder / "core-site.xml", hadoop_xml(core))
    write_private_file(folder / "hdfs-site.xml", hadoop_xml({"dfs.replication": "1", **settings}))
    write_private_file(folder / "log4j2.properties", LOG4J_SETTINGS)


def hadoop_xml(settings: Mapping[str, str]) -> str:
    """Settings in the form of Hadoop's programs."""
    properties = "\n".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}\n</configuration>\n'
