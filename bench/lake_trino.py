"""Trino as a reader of lake tables: one server with Iceberg's connector, asked over HTTP.

Its archive is pinned as the jars are and comes once into the cache of the labs. It needs a Java
of its own, 24 or newer; where there is none it is not run, and whoever asks says so.
"""

import json
import os
import re
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bench.lake_readers import ANSWER_S, ReaderFailedError
from sluiceway.host.java import USUAL_FOLDERS, find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.support import LOOPBACK, ignore_progress, pick_free_ports

LEAST_JAVA = 24
_PINS = Path(__file__).with_name("trino_tarball.json")
_KEPT = ("lib/", "plugin/iceberg/")
_STARTED = "SERVER STARTED"
_START_S = 240.0
_POLL_S = 0.2
_CALL_S = 60.0
_FLAGS = (
    "-Xmx1g",
    "--add-modules=jdk.incubator.vector",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djdk.attach.allowAttachSelf=true",
)


def new_java() -> Path | None:
    """A Java that Trino runs on, by what its own `release` file says; None without one."""
    folders = [Path(each).expanduser() for each in USUAL_FOLDERS]
    for home in (each for folder in folders for each in Path("/").glob(str(folder)[1:])):
        release = home / "release"
        told = release.read_text() if release.is_file() else ""
        version = re.search(r'JAVA_VERSION="([0-9]+)', told)
        if version is not None and int(version[1]) >= LEAST_JAVA:
            return home / "bin" / "java"
    return None


def trino_home() -> Path:
    """Trino's folder in the cache: its own jars and those of Iceberg's connector.

    Raises:
        UnhealthyEnvironmentError: It cannot be downloaded, or is not what was pinned.
    """
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_PINS.read_text())["jars"])
    folder = jars_folder(default_cache_folder(os.environ), "trino-476", pins)
    ensure_jars(folder, pins, java=find_java(), on_progress=ignore_progress)
    home = folder / "server"
    if not home.exists():
        scratch = folder / f"server.{os.getpid()}"
        with tarfile.open(folder / pins[0].file_name) as archive:
            top = archive.next()
            root = "" if top is None else top.name.partition("/")[0]
            wanted = tuple(f"{root}/{each}" for each in _KEPT)
            members = [each for each in archive if each.name.startswith(wanted)]
            archive.extractall(scratch, members, filter="data")
        if not home.exists():
            (scratch / root).rename(home)
    return home


class Trino:
    """A server that knows one catalog, `lake`, until it is closed.

    Args:
        java: As `new_java` has found it.
        catalog: Settings of Iceberg's catalog, as Trino names them.
        folder: For its configuration, data and log.
    """

    def __init__(self, java: Path, catalog: Mapping[str, str], folder: Path) -> None:
        self._log = folder / "trino.log"
        (port,) = pick_free_ports(1)
        self._uri = f"http://{LOOPBACK}:{port}"
        home = trino_home()
        self._configure(folder, home, port, catalog)
        command = [str(java), *_FLAGS, "-Dnode.environment=bench", "-Dnode.id=bench1"]
        command += [f"-Dnode.data-dir={folder / 'data'}", f"-Dconfig={folder / 'config'}"]
        command += ["-cp", f"{home / 'lib'}/*", "io.trino.server.TrinoServer"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @staticmethod
    def _configure(folder: Path, home: Path, port: int, catalog: Mapping[str, str]) -> None:
        for each in ("catalogs", "data"):
            (folder / each).mkdir(parents=True)
        settings = {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://{LOOPBACK}:{port}",
            "query.max-memory": "640MB",
            "query.max-memory-per-node": "640MB",
            "memory.heap-headroom-per-node": "128MB",
            "plugin.dir": str(home / "plugin"),
            "catalog.config-dir": str(folder / "catalogs"),
        }
        lake = {"connector.name": "iceberg", "fs.hadoop.enabled": "true", **catalog}
        for path, told in (("config", settings), ("catalogs/lake.properties", lake)):
            lines = "".join(f"{key}={value}\n" for key, value in told.items())
            (folder / path).write_text(lines)

    def __enter__(self) -> Self:
        began_s = time.monotonic()
        while _STARTED not in self._log.read_text(errors="replace"):
            ended = self._process.poll() is not None
            if ended or time.monotonic() - began_s > _START_S:
                self.__exit__()
                raise ReaderFailedError(f"Trino does not start: {self._tail()}")
            time.sleep(_POLL_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, sql: str) -> list[list[int]]:
        """Rows of whole numbers; tables are in the catalog `lake`.

        Raises:
            ReaderFailedError: It failed; holds what it said.
        """
        began_s, rows = time.monotonic(), list[list[int]]()
        told = self._call(f"{self._uri}/v1/statement", sql.encode())
        while True:
            rows += told.get("data", [])
            if "error" in told:
                raise ReaderFailedError(f"Trino: {told['error'].get('message')}")
            following = told.get("nextUri")
            if following is None:
                return rows
            if time.monotonic() - began_s > ANSWER_S:
                raise ReaderFailedError(f"Trino has no answer after {ANSWER_S:.0f} s")
            told = self._call(following)

    def _call(self, uri: str, body: bytes | None = None) -> dict[str, Any]:
        asked = urllib.request.Request(  # noqa: S310 - our own server
            uri, data=body, headers={"X-Trino-User": "bench"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=_CALL_S) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read())
        except (OSError, urllib.error.URLError) as error:
            raise ReaderFailedError(f"Trino: {error}: {self._tail()}") from error
        return found

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
