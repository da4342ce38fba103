"""A standalone Spark cluster on this machine: a master, and workers with an executor each."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyspark

from sluiceway.host.java import find_java
from sluiceway.host.process import ProcessIdentity, identity_of, is_alive
from sluiceway.lab.demo import process_tree
from sluiceway.lab.server import QUICK_JVM_FLAGS
from sluiceway.lab.support import LOOPBACK, pick_free_ports

PATIENCE_S = 120.0
_GRACE_S = 15.0
_POLL_S = 0.1
_DEPLOY = "org.apache.spark.deploy"
_LEADS = "I have been elected leader"
_REGISTERED = "Successfully registered with master"
_EXECUTOR = b"executor.CoarseGrainedExecutorBackend"

_Process = subprocess.Popen[bytes]


class ClusterError(Exception):
    """The cluster does not come up; says where its log is."""


@dataclass(slots=True)
class SparkCluster:
    """A cluster that runs.

    Attributes:
        url: `spark://host:port`.
        folder: Of its logs and the workers' own files.
        cores: Of each worker.
        memory_mib: Of each worker.
        path: PATH of the workers; None is this process's own.
        host: Address of the master and of workers that are nowhere else.
        workers: Pids of the workers, which begin the executors.
    """

    url: str
    folder: Path
    cores: int
    memory_mib: int
    path: str | None
    stack: ExitStack
    host: str = LOOPBACK
    workers: list[int] = field(default_factory=list)

    def executors(self, worker: int | None = None) -> list[ProcessIdentity]:
        """The executors' JVMs that the workers, or one of them, have now."""
        parents = self.workers if worker is None else [worker]
        found = [pid for parent in parents for pid in process_tree(parent)]
        known = [identity_of(pid) for pid in found if _EXECUTOR in _command_of(pid)]
        return [one for one in known if one is not None]

    def add_workers(self, count: int, *, prefix: Sequence[str] = (), host: str = "") -> None:
        """Start further workers, side by side, and wait until the master knows them.

        Args:
            count: How many.
            prefix: Begins their commands, to have them elsewhere.
            host: Their address there.
        """
        begun = []
        for _ in range(count):
            number = len(self.workers)
            own = self.folder / f"worker-{number}"
            own.mkdir()
            port, web_port = pick_free_ports(2)
            arguments = [
                *("--host", host or self.host, "--cores", str(self.cores)),
                *("--memory", f"{self.memory_mib}M"),
                *("--port", str(port), "--webui-port", str(web_port)),
                *("--work-dir", str(own), self.url),
            ]
            log = own / "log"
            daemon = _daemon("worker.Worker", arguments, log, self.path, prefix)
            worker = self.stack.enter_context(daemon)
            self.workers.append(worker.pid)
            begun.append((worker, log))
        for worker, log in begun:
            _wait(partial(_has_said, log, _REGISTERED), worker, log)

    def kill_worker(self, worker: int) -> None:
        """SIGKILL one with all that it has started: as when a machine dies."""
        for one in [identity_of(pid) for pid in (worker, *process_tree(worker))]:
            if one is not None:
                _kill(one)


@contextmanager
def spark_cluster(
    folder: Path,
    *,
    workers: int = 2,
    memory_mib: int = 1024,
    cores: int = 1,
    path: str | None = None,
    host: str = LOOPBACK,
) -> Iterator[SparkCluster]:
    """Start a master and workers; end them, and what they began, by their pids.

    Args:
        folder: Made; for logs and the workers' own files.
        workers: A job gets an executor on each.
        memory_mib: Of each worker.
        cores: Of each worker.
        path: PATH of the workers.
        host: Address of this machine that master and workers listen on.

    Raises:
        ClusterError: It does not come up.
    """
    folder.mkdir(parents=True)
    port, web_port = pick_free_ports(2)
    url = f"spark://{host}:{port}"
    log = folder / "master.log"
    with ExitStack() as stack:
        arguments = ["--host", host, "--port", str(port), "--webui-port", str(web_port)]
        master = stack.enter_context(_daemon("master.Master", arguments, log))
        # It says so of any address, not of the loopback's alone.
        _wait(partial(_has_said, log, _LEADS), master, log)
        cluster = SparkCluster(url, folder, cores, memory_mib, path, stack, host)
        cluster.add_workers(workers)
        yield cluster


@contextmanager
def _daemon(
    name: str,
    arguments: Sequence[str],
    log: Path,
    path: str | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[_Process]:
    home, java = Path(pyspark.__file__).parent, find_java()
    command = [
        *(*prefix, str(java.executable), *QUICK_JVM_FLAGS, "-Xmx256m", "-cp", f"{home}/jars/*"),
        # Java does not look at TMPDIR.
        *(f"-Djava.io.tmpdir={log.parent}", f"{_DEPLOY}.{name}", *arguments),
    ]
    # Spark's own scripts set these; without the last one a worker looks for a build of Spark.
    spark = {"SPARK_HOME": str(home), "JAVA_HOME": str(java.path), "SPARK_SCALA_VERSION": "2.13"}
    if path is not None:
        spark["PATH"] = path
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, env=os.environ | spark, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: _Process) -> None:
    """A worker that is asked to end ends its executor; whatever is left after that is killed."""
    family = [found for pid in process_tree(process.pid) if (found := identity_of(pid)) is not None]
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    give_up_at = time.monotonic() + _GRACE_S
    while (left := [one for one in family if is_alive(one)]) and time.monotonic() < give_up_at:
        time.sleep(_POLL_S)
    for one in left:
        _kill(one)
    process.kill()
    process.wait()


def _command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _kill(one: ProcessIdentity) -> None:
    with suppress(ProcessLookupError):
        os.kill(one.pid, signal.SIGKILL)


def _has_said(log: Path, text: str) -> bool:
    return text in log.read_text(errors="replace")


def _wait(is_done: Callable[[], bool], process: _Process, log: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() >= give_up_at or process.poll() is not None:
            raise ClusterError(
                f"the cluster does not come up, see {log}:\n{log.read_text()[-2000:]}"
            )
        time.sleep(_POLL_S)


@contextmanager
def lonely_cluster(folder: Path, workers: Path) -> Iterator[SparkCluster]:
    """A cluster whose workers find no ticket, no realm, and nothing of the driver's.

    Args:
        folder: Made; for logs and the workers' own files.
        workers: Exists; their folder for what is temporary.
    """
    lonely = {
        "KRB5CCNAME": f"FILE:{workers}/no-ticket",
        "KRB5_CONFIG": f"{workers}/no-realm",
        "TMPDIR": str(workers),
    }
    before = {name: os.environ.get(name) for name in lonely}

    def restore() -> None:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})

    os.environ.update(lonely)
    try:
        with spark_cluster(folder) as cluster:
            # The driver has what it had.
            restore()
            yield cluster
    finally:
        restore()
