"""A name service of two name nodes with shared edits, and one data node: plain processes.

Nothing decides which name node is active but the test: there is no ZooKeeper here.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hdfs_native import Client, WriteOptions

from sluiceway.host.java import find_java
from sluiceway.lab.hdfs import write_hadoop_settings
from sluiceway.lab.jars import default_cache_folder, jars_folder, pinned_jars, spark_jars_folder
from sluiceway.lab.server import OPENED_TO_JVMS, QUICK_JVM_FLAGS, accepts_connections
from sluiceway.lab.support import LOOPBACK, pick_free_ports

SERVICE = "pair"
FIRST, SECOND = "nn1", "nn2"
_UP_S = 120.0
_HDFS = "org.apache.hadoop.hdfs"
_NAME_NODE = f"{_HDFS}.server.namenode.NameNode"


class TwoNameNodes:
    """The service; one of its name nodes is active at a time.

    Args:
        folder: Does not exist yet.
    """

    uri = f"hdfs://{SERVICE}"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()
        self.ports = dict(zip((FIRST, SECOND), pick_free_ports(2), strict=True))
        http = dict(zip((FIRST, SECOND), pick_free_ports(2), strict=True))
        data, ipc, page = pick_free_ports(3)
        shared = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": f"{FIRST},{SECOND}",
            f"dfs.client.failover.proxy.provider.{SERVICE}": (
                f"{_HDFS}.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
            "dfs.namenode.shared.edits.dir": f"file://{folder}/shared",
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.ha.tail-edits.period": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": "1",
            "dfs.datanode.data.dir": f"file://{folder}/blocks",
            "dfs.datanode.address": f"{LOOPBACK}:{data}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{ipc}",
            "dfs.datanode.http.address": f"{LOOPBACK}:{page}",
            "dfs.datanode.hostname": "localhost",
        }
        for name in (FIRST, SECOND):
            shared[f"dfs.namenode.rpc-address.{SERVICE}.{name}"] = f"{LOOPBACK}:{self.ports[name]}"
            shared[f"dfs.namenode.http-address.{SERVICE}.{name}"] = f"{LOOPBACK}:{http[name]}"
        self.config_dir = folder / "conf"
        self._write(self.config_dir, shared)
        for name in (FIRST, SECOND):
            own = {"dfs.ha.namenode.id": name, "dfs.namenode.name.dir": f"file://{folder}/{name}"}
            self._write(folder / f"conf-{name}", {**shared, **own})

    def _write(self, folder: Path, settings: Mapping[str, str]) -> None:
        common = {"hadoop.tmp.dir": str(self._folder / "temporary")}
        write_hadoop_settings(folder, self.uri, settings, common)

    def start(self) -> None:
        """Format both, start all; the first is active."""
        self._run(FIRST, _NAME_NODE, "-format", "-nonInteractive", "-force")
        self._start(FIRST, _NAME_NODE)
        self._until(lambda: accepts_connections(self.ports[FIRST]), "first name node")
        self.make_active(FIRST)
        self._run(SECOND, _NAME_NODE, "-bootstrapStandby", "-nonInteractive")
        self._start(SECOND, _NAME_NODE)
        self._start("", f"{_HDFS}.server.datanode.DataNode")
        self._until(self._takes_files, "data node")
        self._until(lambda: accepts_connections(self.ports[SECOND]), "second name node")

    def make_active(self, name: str) -> None:
        """Make a name node the active one, whatever the other one is."""
        admin = (f"{_HDFS}.tools.DFSHAAdmin", "-transitionToActive", "--forceactive", name)
        self._run("", *admin)

    def kill(self, name: str) -> None:
        """End a name node at once."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        """End all that runs."""
        for name in list(self._running):
            self.kill(name)

    def client(self) -> Client:
        """A client of the service."""
        return Client(self.uri, {}, str(self.config_dir))

    def _takes_files(self) -> bool:
        try:
            with self.client().create("/.up", WriteOptions(overwrite=True)) as stream:
                stream.write(b"up")
        except (OSError, RuntimeError):
            return False
        return True

    def _command(self, name: str, *main: str) -> list[str]:
        config = self._folder / f"conf-{name}" if name else self.config_dir
        cache = default_cache_folder(os.environ)
        jars = jars_folder(cache, "hdfs-3.4.2", pinned_jars("hdfs_jars.json"))
        classes = f"{config}:{jars}/*:{spark_jars_folder()}/*"
        java = str(find_java().executable)
        return [java, "-Xmx256m", *QUICK_JVM_FLAGS, *OPENED_TO_JVMS, "-cp", classes, *main]

    def _run(self, name: str, *main: str) -> None:
        done = subprocess.run(
            self._command(name, *main),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_UP_S,
            check=False,
        )
        assert done.returncode == 0, f"{main}: {done.stdout[-500:]}{done.stderr[-1500:]}"

    def _start(self, name: str, *main: str) -> None:
        with (self._folder / f"{name or 'datanode'}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                self._command(name, *main),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + _UP_S
        while not ready():
            for name, process in self._running.items():
                assert process.poll() is None, f"{name or 'data node'} has ended"
            assert time.monotonic() < end_s, f"{what} does not come up"
            time.sleep(0.2)


@contextmanager
def two_name_nodes(folder: Path) -> Iterator[TwoNameNodes]:
    """Start them; they end with the block."""
    service = TwoNameNodes(folder)
    with ExitStack() as cleanup:
        cleanup.callback(service.end)
        service.start()
        yield service
