"""Runs real servers as plain processes, for the demo and for tests."""

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome, find_java
from sluiceway.host.process import is_alive
from sluiceway.lab import daemon
from sluiceway.lab.hdfs import (
    NAME_NODE,
    DataNodeServer,
    HdfsEndpoint,
    NameNodeServer,
    hdfs_endpoint,
)
from sluiceway.lab.iceberg import (
    ICEBERG_CATALOG,
    IcebergCatalogServer,
    IcebergEndpoint,
    iceberg_endpoint,
)
from sluiceway.lab.jars import default_cache_folder, jars_folder, pinned_jars
from sluiceway.lab.kafka import SECURED, KafkaServer
from sluiceway.lab.kerberos import KDC, KdcServer, Realm
from sluiceway.lab.metastore import WAREHOUSE_FOLDER, HadoopSide, MetastoreServer
from sluiceway.lab.rocketmq import (
    BROKERS,
    NAME_SERVER,
    RocketMqBrokerA,
    RocketMqBrokerB,
    RocketMqEndpoint,
    RocketMqNameServer,
)
from sluiceway.lab.s3 import S3Endpoint, S3Server, s3_endpoint
from sluiceway.lab.server import LabServer, ServerSite
from sluiceway.lab.state import (
    LabState,
    exclusive,
    load_state,
    make_private_folder,
    remove_state,
    save_state,
)
from sluiceway.lab.support import (
    LOOPBACK,
    LabProgress,
    OnProgress,
    ignore_progress,
    is_free,
    pick_free_ports,
)
from sluiceway.lab.yarn import (
    RESOURCE_MANAGER,
    NodeManagerA,
    NodeManagerB,
    ResourceManagerServer,
    YarnEndpoint,
    yarn_endpoint,
)

_LOGS_FOLDER = "logs"
_START_TIMEOUT_S = 180.0
_POLL_S = 0.05
_PORT_ATTEMPTS = 3


class ServerState(StrEnum):
    """State of a server of the lab."""

    RUNNING = "running"
    SILENT = "silent"
    DEAD = "dead"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class LabEndpoints:
    """Addresses of the lab's servers.

    Attributes:
        bootstrap_servers: Address of the broker: `host:port`.
        metastore_uri: `thrift://host:port`; empty in a lab without one.
        warehouse: Absolute folder under which the metastore puts tables.
        s3: Endpoint of the S3 server; None in a lab without one.
        hdfs: Endpoint of HDFS; None in a lab without it.
        rocketmq: Endpoint of RocketMQ; None in a lab without it.
        iceberg: Endpoint of the catalog of lake tables; None in a lab without one.
        yarn: Endpoint of YARN; None in a lab without it.
        realm: Kerberos realm; None in a lab without one.
        secured_servers: Address of the broker's listener with Kerberos: `host:port`; empty without.
    """

    bootstrap_servers: str
    metastore_uri: str
    warehouse: Path
    s3: S3Endpoint | None = None
    hdfs: HdfsEndpoint | None = None
    rocketmq: RocketMqEndpoint | None = None
    iceberg: IcebergEndpoint | None = None
    yarn: YarnEndpoint | None = None
    realm: Realm | None = None
    secured_servers: str = ""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of one server now.

    Attributes:
        name: `kafka` or `metastore`.
        title: Product and release.
        state: RUNNING answers requests; SILENT runs, and does not; DEAD ended by itself;
            STOPPED was ended on purpose or never started.
        pid: Pid of the last process; None when stopped.
        port: Where clients connect; None before the first start.
        log_file: Absolute path of the log.
        log_end: Last lines of the log when DEAD or SILENT, else empty.
    """

    name: str
    title: str
    state: ServerState
    pid: int | None
    port: int | None
    log_file: Path
    log_end: str


class StoreServer(StrEnum):
    """Optional servers of a lab: a store or catalog of tables, another queue, or a cluster."""

    S3 = "s3"
    HDFS = "hdfs"
    ICEBERG = "iceberg"
    ROCKETMQ = "rocketmq"
    YARN = "yarn"
    KERBEROS = "kerberos"


class PortTakenError(UnhealthyEnvironmentError):
    """Another program listens on the port of a server that should start."""


class Lab:
    """A broker and a metastore in a folder of their own.

    The servers outlive this object and the process: another `Lab` of the same folder finds them
    again. Calls that change the lab wait for each other, also between processes.

    Args:
        folder: Folder of settings, data, logs and the warehouse; `up` creates it.
        cache: Folder of downloads; None takes `default_cache_folder`.
        stores: Further servers; those of an earlier `up` run in any case.
        metastore: Whether there is a metastore; without it `LabEndpoints.metastore_uri` is empty.
    """

    def __init__(
        self,
        folder: Path,
        *,
        cache: Path | None = None,
        stores: Iterable[StoreServer] = (),
        metastore: bool = True,
    ) -> None:
        self.folder = folder.absolute()
        cache = cache or default_cache_folder(os.environ)
        self._s3_jars = pinned_jars("s3_jars.json")
        self._s3_jars_folder = jars_folder(cache, "s3a-3.4.2", self._s3_jars)
        known = {*stores, *self._known_stores()}
        realm = self._realm = Realm(self.folder / KDC) if StoreServer.KERBEROS in known else None
        servers: list[LabServer] = [KafkaServer(cache, realm)]
        if metastore:
            servers.insert(0, MetastoreServer(self._hadoop_side, realm))
        if realm is not None:
            # The others log in when they start.
            servers.insert(0, KdcServer())
        if StoreServer.YARN in known:
            # Applications are submitted with files in HDFS.
            known.add(StoreServer.HDFS)
        if StoreServer.S3 in known:
            servers.insert(0, S3Server(cache))
        if StoreServer.HDFS in known:
            servers += [NameNodeServer(cache, realm), DataNodeServer(cache, self._hdfs, realm)]
        if StoreServer.YARN in known:
            servers.append(ResourceManagerServer(cache, self._hdfs, realm))
            for kind in (NodeManagerA, NodeManagerB):
                servers.append(kind(cache, self._hdfs, self._manager, realm))
        if StoreServer.ROCKETMQ in known:
            names = RocketMqNameServer(cache)
            self._rocketmq_jars = names.jars
            servers.append(names)
            servers += [kind(cache, self._names) for kind in (RocketMqBrokerA, RocketMqBrokerB)]
        if StoreServer.ICEBERG in known:
            servers.append(IcebergCatalogServer(cache))
        self._servers: dict[str, LabServer] = {server.name: server for server in servers}

    def up(self, on_progress: OnProgress = ignore_progress) -> LabEndpoints:
        """Start every server that does not run, and wait until all answer. Safe to repeat.

        Data of an earlier `up` in the same folder is kept. The ports are the same unless another
        program has taken one meanwhile. When it fails or is interrupted, the servers that this call
        started are ended.

        Args:
            on_progress: Called with each step.

        Raises:
            UnhealthyEnvironmentError: There is no suitable Java, jars are missing, or a server does
                not start; says why, with the end of its log.
        """
        self._refuse_foreign_folder()
        with exclusive(self.folder):
            for name in (_LOGS_FOLDER, WAREHOUSE_FOLDER, *self._servers):
                make_private_folder(self.folder / name)
            listeners = {name for each in self._servers.values() for name in each.listeners}
            if not listeners <= self._state().ports.keys():
                # A metastore reads about a store only at its start, and so do all servers about a
                # realm.
                new_realm = self._realm is not None and KDC not in self._state().servers
                self._stop(self._servers if new_realm else ["metastore"])
            self._start(self._missing(), on_progress)
            return self.endpoints()

    def down(self, *, remove_data: bool = False) -> None:
        """End the servers of this folder, and nothing else. Safe to repeat.

        Args:
            remove_data: Whether to remove the lab's topics, tables and logs too.

        Raises:
            UnhealthyEnvironmentError: A server does not end, or the state cannot be read.
        """
        if load_state(self.folder) is None:
            return
        with exclusive(self.folder):
            self._stop(self._servers)
            if remove_data:
                self._remove_data()

    def status(self) -> tuple[ServerStatus, ...]:
        """Check the state of every server; takes up to a few seconds when one hangs.

        Raises:
            UnhealthyEnvironmentError: The state cannot be read.
        """
        state = load_state(self.folder) or LabState()
        return tuple(self._server_status(name, state) for name in self._servers)

    def endpoints(self) -> LabEndpoints:
        """Addresses of the servers, running or not.

        Raises:
            UnhealthyEnvironmentError: There was no `up` in this folder yet.
        """
        state = self._state()
        if not {"kafka", "metastore"} & self._servers.keys() <= state.ports.keys():
            raise UnhealthyEnvironmentError(
                "the lab was never up in this folder",
                where=str(self.folder),
                hint=f"start it: `sluiceway lab up --dir {shlex.quote(str(self.folder))}`",
            )
        return LabEndpoints(
            bootstrap_servers=f"{LOOPBACK}:{state.ports['kafka']}",
            metastore_uri=f"thrift://{LOOPBACK}:{state.ports['metastore']}"
            if "metastore" in self._servers
            else "",
            warehouse=self.folder / WAREHOUSE_FOLDER,
            s3=s3_endpoint(self._site("s3")) if "s3" in self._servers else None,
            hdfs=self._hdfs() if NAME_NODE in self._servers else None,
            rocketmq=self._rocketmq() if NAME_SERVER in self._servers else None,
            iceberg=iceberg_endpoint(self._site(ICEBERG_CATALOG))
            if ICEBERG_CATALOG in self._servers
            else None,
            yarn=yarn_endpoint(self._manager()) if RESOURCE_MANAGER in self._servers else None,
            realm=self._realm,
            secured_servers="" if self._realm is None else f"localhost:{state.ports[SECURED]}",
        )

    def start_server(self, name: str) -> None:
        """Start one server on its old port and wait until it answers; a running one stays.

        Args:
            name: `kafka` or `metastore`.

        Raises:
            UnhealthyEnvironmentError: It does not start; says why, with the end of its log.
        """
        self.endpoints()  # refuses a folder without a lab
        with exclusive(self.folder):
            if not self._runs(name):
                self._start_on_known_ports([name], ignore_progress)

    def stop_server(self, name: str) -> None:
        """End one server gracefully; its port and data stay. Safe to repeat.

        Args:
            name: `kafka` or `metastore`.

        Raises:
            UnhealthyEnvironmentError: It does not end.
        """
        self.endpoints()  # refuses a folder without a lab
        with exclusive(self.folder):
            self._stop([name])

    def kill_server(self, name: str) -> None:
        """End one server as a crash would; `status` then shows it as dead.

        Args:
            name: `kafka` or `metastore`.

        Raises:
            UnhealthyEnvironmentError: It survives, or was never started.
        """
        identity = self._state().servers.get(name)
        if identity is None:
            raise UnhealthyEnvironmentError(f"{name} was not started", where=str(self.folder))
        daemon.kill(identity)

    def log_file(self, name: str) -> Path:
        """The log of one server; it continues over restarts."""
        return self.folder / _LOGS_FOLDER / f"{name}.log"

    def s3_jars(self) -> Path:
        """Folder of the jars with which Hadoop's client, in Spark too, reaches the lab's S3."""
        return self._s3_jars_folder

    def _known_stores(self) -> Iterator[StoreServer]:
        ports = self._state().ports
        if "s3" in ports:
            yield StoreServer.S3
        if NAME_NODE in ports:
            yield StoreServer.HDFS
        if NAME_SERVER in ports:
            yield StoreServer.ROCKETMQ
        if ICEBERG_CATALOG in ports:
            yield StoreServer.ICEBERG
        if RESOURCE_MANAGER in ports:
            yield StoreServer.YARN
        if "kdc" in ports:
            yield StoreServer.KERBEROS

    def _hadoop_side(self) -> HadoopSide:
        if "s3" not in self._servers:
            return HadoopSide()
        settings = s3_endpoint(self._site("s3")).hadoop_settings()
        return HadoopSide(settings, self._s3_jars_folder, self._s3_jars)

    def _hdfs(self) -> HdfsEndpoint:
        return hdfs_endpoint(self._site(NAME_NODE), self._realm)

    def _manager(self) -> ServerSite:
        return self._site(RESOURCE_MANAGER)

    def _names(self) -> ServerSite:
        return self._site(NAME_SERVER)

    def _rocketmq(self) -> RocketMqEndpoint:
        address = f"{LOOPBACK}:{self._names().ports[NAME_SERVER]}"
        ports = {name: self._site(name).ports[name] for name in BROKERS}
        brokers = {name: f"{LOOPBACK}:{port}" for name, port in ports.items()}
        return RocketMqEndpoint(address, brokers, self._rocketmq_jars)

    def _state(self) -> LabState:
        return load_state(self.folder) or LabState()

    def _missing(self) -> list[str]:
        return [name for name in self._servers if not self._runs(name)]

    def _runs(self, name: str) -> bool:
        identity = self._state().servers.get(name)
        if identity is None:
            return False
        alive = is_alive(identity)
        # Started in another container or before a reboot: its pid means nothing here.
        return self._servers[name].answers(self._site(name)) if alive is None else alive

    def _refuse_foreign_folder(self) -> None:
        if load_state(self.folder) is not None or not self.folder.exists():
            return
        own = {_LOGS_FOLDER, WAREHOUSE_FOLDER, *self._servers, ".lock"}
        foreign = sorted(path.name for path in self.folder.iterdir() if path.name not in own)
        if foreign:
            raise UnhealthyEnvironmentError(
                f"the folder is not a lab, and not empty: it holds {foreign[0]}",
                where=str(self.folder),
                hint="take another folder with --dir",
            )

    def _start(self, names: list[str], on_progress: OnProgress) -> None:
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            self._choose_ports(names)
            try:
                self._start_on_known_ports(names, on_progress)
            except PortTakenError:
                if not attempts_left:
                    raise
            else:
                return

    def _choose_ports(self, names: Iterable[str]) -> None:
        state = self._state()
        listeners = [listener for name in names for listener in self._servers[name].listeners]
        unfit = [
            listener
            for listener in listeners
            if listener not in state.ports or not is_free(state.ports[listener])
        ]
        ports = {**state.ports, **dict(zip(unfit, pick_free_ports(len(unfit)), strict=True))}
        save_state(self.folder, LabState(ports=ports, servers=state.servers))

    def _start_on_known_ports(self, names: list[str], on_progress: OnProgress) -> None:
        """Start servers in parallel; in the end all of them answer, or none is left."""
        if not names:
            return
        java = find_java()
        if java.passed_over:
            on_progress(LabProgress(f"{java.passed_over}; used is Java {java}"))
        with ExitStack() as undo:
            for name in names:
                undo.callback(self._stop, [name])
                self._launch(name, java, on_progress)
            self._wait_until_ready(names, on_progress)
            undo.pop_all()

    def _launch(self, name: str, java: JavaHome, on_progress: OnProgress) -> None:
        server = self._servers[name]
        site = self._site(name)
        for listener, port in site.ports.items():
            if not is_free(port):
                raise PortTakenError(f"port {port} of {listener} is taken by another program")
        server.fetch(java, on_progress)
        again = " again: it had ended" if name in self._state().servers else ""
        on_progress(LabProgress(f"starting {server.title}{again}"))
        server.prepare(site, java)
        daemon.start_detached(
            server.launch(site, java),
            self.log_file(name),
            record=lambda process: save_state(
                self.folder, self._state().with_server(name, process)
            ),
        )

    def _wait_until_ready(self, names: list[str], on_progress: OnProgress) -> None:
        waiting = list(names)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while waiting:
            for name in list(waiting):
                if not self._runs(name):
                    raise self._failed_start(name, "ended before it answered")
                if self._servers[name].answers(self._site(name)):
                    on_progress(LabProgress(f"{self._servers[name].title} answers"))
                    waiting.remove(name)
                elif time.monotonic() > deadline:
                    raise self._failed_start(name, f"was silent for {_START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)

    def _failed_start(self, name: str, what: str) -> UnhealthyEnvironmentError:
        taken = any(not is_free(port) for port in self._site(name).ports.values())
        kind = PortTakenError if taken and not self._runs(name) else UnhealthyEnvironmentError
        return kind(
            f"{self._servers[name].title} {what}; the end of its log:\n"
            f"{daemon.log_tail(self.log_file(name))}",
            where=str(self.log_file(name)),
        )

    def _stop(self, names: Iterable[str]) -> None:
        for name in names:
            identity = self._state().servers.get(name)
            if identity is None:
                continue
            if is_alive(identity) is None and self._runs(name):
                raise UnhealthyEnvironmentError(
                    f"{name} was started on host {identity.host}, in another boot or container, "
                    "and runs there",
                    hint="end it there: "
                    f"`sluiceway lab down --dir {shlex.quote(str(self.folder))}`",
                )
            daemon.stop(identity, grace_s=self._servers[name].grace_s)
            save_state(self.folder, self._state().without_server(name))

    def _remove_data(self) -> None:
        for name in (_LOGS_FOLDER, WAREHOUSE_FOLDER, *self._servers):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        remove_state(self.folder)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _site(self, name: str) -> ServerSite:
        state = self._state()
        ports = {listener: state.ports[listener] for listener in self._servers[name].listeners}
        return ServerSite(self.folder / name, ports)

    def _server_status(self, name: str, state: LabState) -> ServerStatus:
        server = self._servers[name]
        identity = state.servers.get(name)
        if identity is None:
            condition = ServerState.STOPPED
        elif not self._runs(name):
            condition = ServerState.DEAD
        elif server.answers(self._site(name)):
            condition = ServerState.RUNNING
        else:
            condition = ServerState.SILENT
        wants_log = condition in {ServerState.DEAD, ServerState.SILENT}
        return ServerStatus(
            name=name,
            title=server.title,
            state=condition,
            pid=identity.pid if identity else None,
            port=state.ports.get(server.listeners[0]),
            log_file=self.log_file(name),
            log_end=daemon.log_tail(self.log_file(name)) if wants_log else "",
        )
