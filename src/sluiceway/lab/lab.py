"""Runs real servers as plain processes, for the demo and for tests."""

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome, find_java
from sluiceway.host.process import is_alive
from sluiceway.lab import daemon
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.kafka import KafkaServer
from sluiceway.lab.metastore import WAREHOUSE_FOLDER, MetastoreServer
from sluiceway.lab.ports import LOOPBACK, is_free, pick_free_ports
from sluiceway.lab.progress import LabProgress, OnProgress, ignore_progress
from sluiceway.lab.server import LabServer, ServerSite
from sluiceway.lab.state import (
    LabState,
    exclusive,
    load_state,
    make_private_folder,
    remove_state,
    save_state,
)

_LOGS_FOLDER = "logs"
_START_TIMEOUT_S = 180.0
_POLL_S = 0.05
_PORT_ATTEMPTS = 3


class ServerState(StrEnum):
    """How a server of the lab is."""

    RUNNING = "running"
    SILENT = "silent"
    DEAD = "dead"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class LabEndpoints:
    """Where the lab's servers are found.

    Attributes:
        bootstrap_servers: Of the broker: `host:port`.
        metastore_uri: `thrift://host:port`.
        warehouse: Absolute folder under which the metastore puts tables.
    """

    bootstrap_servers: str
    metastore_uri: str
    warehouse: Path


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server, as it is now.

    Attributes:
        name: `kafka` or `metastore`.
        title: For a person: product and release.
        state: RUNNING answers requests; SILENT runs, and does not; DEAD ended by itself;
            STOPPED was ended on purpose or never started.
        pid: Of the last process; None when stopped.
        port: Where clients connect; None before the first start.
        log_file: Absolute.
        log_end: Last lines of the log when DEAD or SILENT, else empty.
    """

    name: str
    title: str
    state: ServerState
    pid: int | None
    port: int | None
    log_file: Path
    log_end: str


class PortTakenError(UnhealthyEnvironmentError):
    """Another program listens on the port of a server that is to be started."""


class Lab:
    """A broker and a metastore in a folder of their own.

    The servers outlive this object and the process: another `Lab` of the same folder finds
    them again. Calls that change the lab wait for each other, also between processes.

    Args:
        folder: Settings, data, logs and the warehouse; made by `up`.
        cache: Where downloads are kept; `default_cache_folder` when left out.
    """

    def __init__(self, folder: Path, *, cache: Path | None = None) -> None:
        self.folder = folder.absolute()
        servers = (
            MetastoreServer(),
            KafkaServer(cache or default_cache_folder(os.environ)),
        )
        self._servers: dict[str, LabServer] = {server.name: server for server in servers}

    def up(self, on_progress: OnProgress = ignore_progress) -> LabEndpoints:
        """Start every server that does not run, and wait until all answer. Safe to repeat.

        Data of an earlier `up` in the same folder is there again, and the ports are the same
        unless another program has taken one meanwhile. When it fails or is interrupted, the
        servers that this call started are ended.

        Args:
            on_progress: Told what goes on.

        Raises:
            UnhealthyEnvironmentError: No fit Java, no jars, or a server does not come up; says
                why, with the end of its log.
        """
        self._refuse_foreign_folder()
        with exclusive(self.folder):
            for name in (_LOGS_FOLDER, WAREHOUSE_FOLDER, *self._servers):
                make_private_folder(self.folder / name)
            self._start(self._missing(), on_progress)
            return self.endpoints()

    def down(self, *, remove_data: bool = False) -> None:
        """End the servers of this folder, and nothing else. Safe to repeat.

        Args:
            remove_data: Also remove what the lab made in its folder: topics, tables, logs.

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
        """Ask every server how it is; takes up to a few seconds when one hangs.

        Raises:
            UnhealthyEnvironmentError: The state cannot be read.
        """
        state = load_state(self.folder) or LabState()
        return tuple(self._server_status(name, state) for name in self._servers)

    def endpoints(self) -> LabEndpoints:
        """Where the servers are, running or not.

        Raises:
            UnhealthyEnvironmentError: There was no `up` in this folder yet.
        """
        state = self._state()
        if not {"kafka", "metastore"} <= state.ports.keys():
            raise UnhealthyEnvironmentError(
                "the lab was never up in this folder",
                where=str(self.folder),
                hint="start it: sluiceway lab up",
            )
        return LabEndpoints(
            bootstrap_servers=f"{LOOPBACK}:{state.ports['kafka']}",
            metastore_uri=f"thrift://{LOOPBACK}:{state.ports['metastore']}",
            warehouse=self.folder / WAREHOUSE_FOLDER,
        )

    def start_server(self, name: str) -> None:
        """Start one server on its old port and wait until it answers; no harm if it runs.

        Args:
            name: `kafka` or `metastore`.

        Raises:
            UnhealthyEnvironmentError: It does not come up; says why, with the end of its log.
        """
        self.endpoints()  # refuses a folder without a lab
        with exclusive(self.folder):
            if not self._runs(name):
                self._start_on_known_ports([name], ignore_progress)

    def stop_server(self, name: str) -> None:
        """End one server in good order; its port and data stay. Safe to repeat.

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
        """The log of one server; it goes on over restarts."""
        return self.folder / _LOGS_FOLDER / f"{name}.log"

    def _state(self) -> LabState:
        return load_state(self.folder) or LabState()

    def _missing(self) -> list[str]:
        return [name for name in self._servers if not self._runs(name)]

    def _runs(self, name: str) -> bool:
        identity = self._state().servers.get(name)
        if identity is None:
            return False
        alive = is_alive(identity)
        # Started in another container or before a reboot: its pid says nothing here.
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
            self._settle_ports(names)
            try:
                self._start_on_known_ports(names, on_progress)
            except PortTakenError:
                if not attempts_left:
                    raise
            else:
                return

    def _settle_ports(self, names: Iterable[str]) -> None:
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
        """Start servers side by side; all of them answer in the end, or none is left."""
        if not names:
            return
        java = find_java()
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
                    hint="end it there: sluiceway lab down",
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
