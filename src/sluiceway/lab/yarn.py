"""YARN: a resource manager and two node managers, from the same jar as the lab's HDFS."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sluiceway.host.http import read_url
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.hdfs import HadoopServer, HdfsEndpoint, hadoop_xml
from sluiceway.lab.jars import ensure_jars, jars_folder, pinned_jars
from sluiceway.lab.kerberos import Realm
from sluiceway.lab.server import ServerSite, accepts_connections, server_environment
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOOPBACK, OnProgress

RESOURCE_MANAGER = "resourcemanager"
NODE_MANAGERS = ("nodemanager-a", "nodemanager-b")
AM_ATTEMPTS = 4
"""How often YARN starts an application's master, the first time included."""
_NODE_MEMORY_MIB = 3072
_NODE_CORES = 4
_ASK_TIMEOUT_S = 3.0
_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
    "yarn.scheduler.capacity.resource-calculator": (
        "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator"
    ),
}


@dataclass(frozen=True, slots=True)
class YarnEndpoint:
    """How to reach the lab's YARN.

    Attributes:
        config_dir: Folder of core-site.xml, hdfs-site.xml and yarn-site.xml for clients.
        web: `host:port` of the resource manager's pages and REST.
    """

    config_dir: Path
    web: str


HdfsSite = Callable[[], HdfsEndpoint]
ManagerSite = Callable[[], ServerSite]
"""Address of the resource manager, with its present ports."""


def yarn_endpoint(site: ServerSite) -> YarnEndpoint:
    """The endpoint of the resource manager at a site."""
    return YarnEndpoint(site.folder / "conf", f"{LOOPBACK}:{site.ports['resourcemanager_web']}")


def _addresses(ports: dict[str, int]) -> dict[str, str]:
    names = {
        "address": RESOURCE_MANAGER,
        "scheduler.address": "resourcemanager_scheduler",
        "resource-tracker.address": "resourcemanager_tracker",
        "admin.address": "resourcemanager_admin",
        "webapp.address": "resourcemanager_web",
    }
    return {
        "yarn.resourcemanager.hostname": LOOPBACK,
        **{
            f"yarn.resourcemanager.{key}": f"{LOOPBACK}:{ports[name]}"
            for key, name in names.items()
        },
    }


class _YarnServer(HadoopServer):
    """Common part of the daemons of YARN.

    Args:
        cache: Folder for the downloaded jars.
        hdfs: Returns the address of the name node; called before each start.
        realm: Realm in which users log in; None where they need not.
    """

    grace_s = 10.0

    def __init__(self, cache: Path, hdfs: HdfsSite, realm: Realm | None = None) -> None:
        super().__init__(cache, realm)
        self._hdfs = hdfs
        self._more_pins = pinned_jars("yarn_jars.json")
        self._more_jars = jars_folder(cache, "yarn-3.4.2", self._more_pins)

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Download the jars that the cache does not have, and check their hashes."""
        super().fetch(java, on_progress)
        ensure_jars(self._more_jars, self._more_pins, java=java, on_progress=on_progress)

    def _settings(self) -> dict[str, str]:
        """Settings of all daemons and clients for yarn-site.xml."""
        realm = self._realm
        if realm is None:
            return {}
        keytab, user = str(realm.keytab("yarn")), realm.service("yarn")
        return {
            "yarn.resourcemanager.principal": user,
            "yarn.resourcemanager.keytab": keytab,
            "yarn.nodemanager.principal": user,
            "yarn.nodemanager.keytab": keytab,
            # An application may run for longer than any delegation token.
            "yarn.resourcemanager.proxy-user-privileges.enabled": "true",
        }

    def _class_path(self) -> list[str]:
        return [f"{self._more_jars}/*", *super()._class_path()]


class ResourceManagerServer(_YarnServer):
    """The resource manager of the lab."""

    name = RESOURCE_MANAGER
    title = "YARN resource manager 3.4.2"
    listeners = (
        *(RESOURCE_MANAGER, "resourcemanager_scheduler", "resourcemanager_tracker"),
        *("resourcemanager_admin", "resourcemanager_web"),
    )

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings, which its clients read too."""
        del java
        make_private_folder(site.folder / "tmp")
        conf = site.folder / "conf"
        self._write_settings(site, self._hdfs().uri, {})
        settings = {
            **_addresses(dict(site.ports)),
            **self._settings(),
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": str(_NODE_MEMORY_MIB),
            "yarn.resourcemanager.am.max-attempts": str(AM_ATTEMPTS),
            # A dead node is noticed within seconds.
            "yarn.nm.liveness-monitor.expiry-interval-ms": "10000",
            "yarn.resourcemanager.nm.liveness-monitor.interval-ms": "1000",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
            # Applications outlive a restart of the resource manager.
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"
            ),
            "yarn.resourcemanager.fs.state-store.uri": f"file://{site.folder / 'recovery'}",
            "hadoop.http.staticuser.user": "root",
        }
        write_private_file(conf / "yarn-site.xml", hadoop_xml(settings))
        write_private_file(conf / "capacity-scheduler.xml", hadoop_xml(_QUEUES))

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The resource manager's main class."""
        main = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
        return Launch(self._command(site, java, main), site.folder, server_environment(java))

    def answers(self, site: ServerSite) -> bool:
        """Whether it lists its nodes."""
        return accepts_connections(site.ports[RESOURCE_MANAGER]) and _nodes(site) is not None


class _NodeManagerServer(_YarnServer):
    """A node manager of the lab, which runs applications' containers.

    Args:
        cache: Folder for the downloaded jars.
        hdfs: Returns the address of the name node.
        manager: Returns the address of the resource manager; called before each start.
        realm: Realm in which users log in; None where they need not.
    """

    title = "YARN node manager 3.4.2"

    def __init__(
        self, cache: Path, hdfs: HdfsSite, manager: ManagerSite, realm: Realm | None = None
    ) -> None:
        super().__init__(cache, hdfs, realm)
        self._manager = manager

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings."""
        del java
        make_private_folder(site.folder / "tmp")
        conf = site.folder / "conf"
        self._write_settings(site, self._hdfs().uri, {})
        settings = {
            **_addresses(dict(self._manager().ports)),
            **self._settings(),
            "yarn.nodemanager.address": f"{LOOPBACK}:{site.ports[self.name]}",
            "yarn.nodemanager.localizer.address": f"{LOOPBACK}:{site.ports[self._port('loc')]}",
            "yarn.nodemanager.webapp.address": f"{LOOPBACK}:{site.ports[self._port('web')]}",
            "yarn.nodemanager.resource.memory-mb": str(_NODE_MEMORY_MIB),
            "yarn.nodemanager.resource.cpu-vcores": str(_NODE_CORES),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": str(site.folder / "local"),
            "yarn.nodemanager.log-dirs": str(site.folder / "containers"),
            "yarn.nodemanager.delete.debug-delay-sec": "600",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,LANG,TZ",
            # A laptop's disk is usually nearly full.
            "yarn.nodemanager.disk-health-checker.enable": "false",
        }
        write_private_file(conf / "yarn-site.xml", hadoop_xml(settings))

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The node manager's main class; its containers find only the system's programs."""
        main = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
        environment = {**server_environment(java), "PATH": "/usr/bin:/bin"}
        return Launch(self._command(site, java, main), site.folder, environment)

    def answers(self, site: ServerSite) -> bool:
        """Whether the resource manager can use it."""
        own = f":{site.ports[self.name]}"
        nodes = _nodes(self._manager()) if accepts_connections(site.ports[self.name]) else None
        return any(_id(node).endswith(own) and node["state"] == "RUNNING" for node in nodes or ())

    def _port(self, what: str) -> str:
        return f"{self.name}_{what}"


class NodeManagerA(_NodeManagerServer):
    """The first one."""

    name: ClassVar[str] = NODE_MANAGERS[0]
    listeners = (NODE_MANAGERS[0], f"{NODE_MANAGERS[0]}_loc", f"{NODE_MANAGERS[0]}_web")


class NodeManagerB(_NodeManagerServer):
    """The second one."""

    name: ClassVar[str] = NODE_MANAGERS[1]
    listeners = (NODE_MANAGERS[1], f"{NODE_MANAGERS[1]}_loc", f"{NODE_MANAGERS[1]}_web")


def _id(node: dict[str, Any]) -> str:
    # With Spark's jars on its class path the server writes its internal field names.
    return str(node.get("id") or node["nodeId"])


def _nodes(manager: ServerSite) -> list[dict[str, Any]] | None:
    """Nodes that the resource manager knows; None when it does not answer."""
    url = f"http://{yarn_endpoint(manager).web}/ws/v1/cluster/nodes"
    try:
        found = json.loads(read_url(url, _ASK_TIMEOUT_S))
    except (OSError, ValueError):
        return None
    nodes = found.get("nodes")
    if isinstance(nodes, dict):
        nodes = nodes.get("node")
    # Some releases return a single item, or none, not as a list.
    return [nodes] if isinstance(nodes, dict) else list(nodes or ())
