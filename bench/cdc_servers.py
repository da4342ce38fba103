"""MariaDB and Debezium as plain processes: what `bench.e2e_cdc` reads changes from.

MariaDB is the system's own (`apt install mariadb-server`); Debezium's connector, Kafka Connect and
Iceberg's runtime for Spark come from Maven Central by `mvn`, once, into the cache.
"""

import os
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

DEBEZIUM = "io.debezium:debezium-connector-mariadb:3.5.0.Final:tar.gz:plugin"
CONNECT = (
    "org.apache.kafka:connect-runtime:4.1.1",
    "org.apache.kafka:connect-json:4.1.1",
    "org.apache.kafka:connect-api:4.1.1",
    "org.slf4j:slf4j-simple:1.7.36",
)
SPARK_JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0:jar",
    "org.xerial:sqlite-jdbc:3.50.3.0:jar",
)
PREFIX, DATABASE = "cdc", "shop"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_START_S = 120.0


class ServerFailedError(Exception):
    """A server could not be had, or did not start."""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def fetch(cache: Path) -> Path:
    """Have the jars in a folder of the cache: `plugins`, `connect`, `spark`.

    Raises:
        ServerFailedError: `mvn` is not installed, or failed.
    """
    home = cache / "cdc-3.5.0"
    if (home / "whole").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    (home / "plugins").mkdir(parents=True)
    _maven(_COPY, f"-Dartifact={DEBEZIUM}", f"-DoutputDirectory={home}")
    for archive in home.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(home / "plugins", filter="data")
    for jar in SPARK_JARS:
        _maven(_COPY, f"-Dartifact={jar}", f"-DoutputDirectory={home / 'spark'}")
    copy_with_dependencies(CONNECT, home / "connect")
    (home / "whole").touch()
    return home


def copy_with_dependencies(wanted: Sequence[str], folder: Path) -> None:
    """Have jars in a folder, and all that they need when they run.

    Args:
        wanted: Each as `group:artifact:version`.
        folder: Is made; a description for Maven is written beside it.

    Raises:
        ServerFailedError: `mvn` is not installed, or failed.
    """
    listed = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId>"
        f"<version>{v}</version></dependency>"
        for g, a, v in (each.split(":") for each in wanted)
    )
    folder.mkdir(parents=True)
    description = folder.with_name(f"{folder.name}.xml")
    description.write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>bench</groupId><artifactId>connect</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{listed}</dependencies></project>"
    )
    _maven(
        *("-f", str(description), "dependency:copy-dependencies"),
        *(f"-DoutputDirectory={folder}", "-DincludeScope=runtime"),
    )


def _maven(*arguments: str) -> None:
    try:
        command = ["mvn", "-q", "-B", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ServerFailedError("install Maven: apt install maven") from error
    if done.returncode != 0:
        raise ServerFailedError(f"{' '.join(command)}:\n{done.stdout[-2000:]}")


class MariaDb:
    """A database with its log of changes, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.socket = folder / "s.sock"
        self.port = free_port()
        if shutil.which("mariadbd") is None:
            raise ServerFailedError("install MariaDB: apt install mariadb-server")
        user = "mysql" if os.geteuid() == 0 else os.environ["USER"]
        if os.geteuid() == 0:
            shutil.chown(folder, "mysql", "mysql")
        subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", f"--datadir={folder}/data"),
                *(f"--user={user}", "--auth-root-authentication-method=normal"),
                "--skip-test-db",
            ],
            check=True,
            capture_output=True,
        )
        command = [
            *("mariadbd", "--no-defaults", f"--user={user}", f"--datadir={folder}/data"),
            *(f"--socket={self.socket}", "--bind-address=127.0.0.1", f"--port={self.port}"),
            *("--server-id=1", "--log-bin=binlog", "--binlog-format=ROW"),
            *("--binlog-row-image=FULL", "--innodb-buffer-pool-size=32M"),
            *("--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--sql-mode="),
        ]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        until_s = time.monotonic() + _START_S
        while True:
            try:
                self.run("SELECT 1")
            except subprocess.CalledProcessError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.2)
            else:
                return

    def client(self) -> list[str]:
        """A client's command, which takes SQL from standard input."""
        return [
            *("mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root"),
            *("--batch", "--raw", "--skip-column-names", "--default-character-set=utf8mb4"),
        ]

    def run(self, sql: str) -> list[str]:
        """Run SQL; the lines that it answers."""
        done = subprocess.run(self.client(), input=sql.encode(), capture_output=True, check=True)
        return done.stdout.decode().splitlines()

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(60)


class Connect:
    """Kafka Connect with Debezium's connector; may be killed and started again."""

    def __init__(self, folder: Path, home: Path, database: MariaDb, brokers: str) -> None:
        self._folder, self._home = folder, home
        folder.mkdir()
        (folder / "worker.properties").write_text(
            f"bootstrap.servers={brokers}\n"
            "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
            "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
            "key.converter.schemas.enable=true\nvalue.converter.schemas.enable=true\n"
            f"offset.storage.file.filename={folder}/offsets\noffset.flush.interval.ms=2000\n"
            f"plugin.path={home}/plugins\nlisteners=http://127.0.0.1:{free_port()}\n"
        )
        (folder / "maria.properties").write_text(
            "name=maria\nconnector.class=io.debezium.connector.mariadb.MariaDbConnector\n"
            f"database.hostname=127.0.0.1\ndatabase.port={database.port}\ndatabase.user=root\n"
            "database.password=\ndatabase.server.id=5401\ndatabase.ssl.mode=disable\n"
            f"topic.prefix={PREFIX}\ndatabase.include.list={DATABASE}\n"
            f"schema.history.internal.kafka.bootstrap.servers={brokers}\n"
            f"schema.history.internal.kafka.topic={PREFIX}.history\n"
            "decimal.handling.mode=precise\nbigint.unsigned.handling.mode=precise\n"
            "skipped.operations=none\n"
            "topic.creation.default.partitions=2\ntopic.creation.default.replication.factor=1\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it goes on where it has noted that it was, and repeats what it has not."""
        command = [
            *("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{self._home}/connect/*"),
            "org.apache.kafka.connect.cli.ConnectStandalone",
            *("worker.properties", "maria.properties"),
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def wait_until_it_streams(self) -> None:
        """Wait until it has noted a place of the log: killed before, it tells all rows again.

        Raises:
            ServerFailedError: It does not come to it.
        """
        offsets = self._folder / "offsets"
        until_s = time.monotonic() + _START_S
        while True:
            noted = offsets.read_bytes() if offsets.exists() else b""
            if b'"pos"' in noted and b'"snapshot"' not in noted:
                return
            if time.monotonic() > until_s:
                raise ServerFailedError(f"Debezium is still at its snapshot:\n{self.log()}")
            time.sleep(0.5)

    def kill(self) -> None:
        """End it as a power cut would. Safe to repeat."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
        self._process = None

    def log(self) -> str:
        """The end of what it has written."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]
