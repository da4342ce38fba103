"""RocketMQ of a release of its own: with logins, TLS or a replica, next to the lab's."""

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.rocketmq import BROKER_STORE, OPENED_TO_SERVERS
from sluiceway.lab.server import QUICK_JVM_FLAGS, accepts_connections, server_environment
from sluiceway.lab.support import LOOPBACK, pick_free_ports
from tools.rocketmq_writer import RocketMqWriter

_HERE = Path(__file__).resolve().parent
_PINS = {
    "4.9.7": _HERE / "rocketmq_497_jars.json",
    "5.5.0": _HERE.parents[1] / "src" / "sluiceway" / "lab" / "rocketmq_jars.json",
}
# Release 5 wants it for TLS alone, and the lab has none.
_TLS_PINS = _HERE / "rocketmq_tls_jars.json"
RELEASES: Final = tuple(_PINS)
MASTER: Final = 0
BROKER: Final = "broker-a"
ACCESS_KEY, SECRET_KEY = "sluiceway", "s3cret-of-tests"
_PATIENCE_S = 120.0
_BROKER_MAIN = "org.apache.rocketmq.broker.BrokerStartup"
_LOGBACK = """\
<configuration><root level="WARN"/></configuration>
"""
_BROKER = """\
brokerClusterName=lab
brokerName={name}
brokerId={number}
brokerRole={role}
slaveReadEnable=true
flushDiskType=ASYNC_FLUSH
namesrvAddr={host}:{name_server}
brokerIP1={host}
brokerIP2={host}
listenPort={port}
fastListenPort={fast}
haListenPort={ha}
"""
_TLS = """\
tls.test.mode.enable=false
tls.server.need.client.auth=none
tls.server.keyPath={key}
tls.server.certPath={certificate}
tls.server.authClient=false
tls.client.authServer=false
"""
_USER = json.dumps({"username": ACCESS_KEY, "password": SECRET_KEY})
_KEYS = json.dumps({"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY})
_LOGINS_5 = f"""\
authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={_USER}
innerClientAuthenticationCredentials={_KEYS}
"""
_ACCOUNTS_4 = f"""\
accounts:
- accessKey: {ACCESS_KEY}
  secretKey: {SECRET_KEY}
  admin: true
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""


@dataclass(slots=True)
class RocketMqRelease:
    """A name server and a broker, perhaps with a replica. A context; ends what it has started.

    Attributes:
        version: One of `RELEASES`.
        folder: Of its own.
        logins: Requests have to be signed.
        replica: The broker has one.
        certificate: PEM files of certificate and key; with them brokers take TLS alone.
    """

    version: str
    folder: Path
    logins: bool = False
    replica: bool = False
    certificate: tuple[Path, Path] | None = None
    _jars: str = field(init=False)
    _ports: list[int] = field(init=False)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> "RocketMqRelease":
        folders = [_ensured(f"rocketmq-{self.version}", _PINS[self.version])]
        if self.certificate is not None:
            folders.append(_ensured("rocketmq-tls", _TLS_PINS))
        self._jars = ":".join(f"{folder}/*" for folder in folders)
        self._ports = pick_free_ports(7)
        try:
            self._start_name_server()
            for number in range(2 if self.replica else 1):
                self._start_broker(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self._end(name)

    @property
    def name_server(self) -> str:
        return f"{LOOPBACK}:{self._ports[0]}"

    def address(self, number: int = MASTER) -> str:
        """Of the broker with this id; 1 is the replica."""
        return f"{LOOPBACK}:{self._ports[1 + 3 * number]}"

    def options(self) -> dict[str, str]:
        """Of a connection to it."""
        found = {"name_servers": self.name_server}
        if self.logins:
            found |= {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        if self.certificate is not None:
            found |= {"tls": "true", "ca_file": str(self.certificate[0])}
        return found

    def writer(self) -> RocketMqWriter:
        """A producer of it, with its login and over TLS where it has to be."""
        return RocketMqWriter(
            self.name_server,
            login=(ACCESS_KEY, SECRET_KEY) if self.logins else None,
            ca_file=None if self.certificate is None else self.certificate[0],
        )

    def kill_master(self) -> None:
        """SIGKILL the master; its replica goes on."""
        self._end(f"broker-{MASTER}")

    def start_master(self) -> None:
        """Start the master that was killed, with what it had."""
        self._launch(f"broker-{MASTER}", _BROKER_MAIN, self._tls_mode)
        self._wait_for(self._ports[1])

    @property
    def _tls_mode(self) -> str:
        return "permissive" if self.certificate is None else "enforcing"

    def _start_name_server(self) -> None:
        home = self._home("namesrv")
        (home / "server.conf").write_text(f"listenPort={self._ports[0]}\n")
        self._launch("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", "permissive")
        self._wait_for(self._ports[0])

    def _start_broker(self, number: int) -> None:
        name = f"broker-{number}"
        home = self._home(name)
        port, fast, ha = self._ports[1 + 3 * number : 4 + 3 * number]
        text = (_BROKER + BROKER_STORE).format(
            name=BROKER,
            number=number,
            role="ASYNC_MASTER" if number == MASTER else "SLAVE",
            host=LOOPBACK,
            name_server=self._ports[0],
            port=port,
            fast=fast,
            ha=ha,
            folder=home,
        )
        if self.logins and self.version.startswith("4"):
            text += "aclEnable=true\n"
            (home / "conf" / "plain_acl.yml").write_text(_ACCOUNTS_4)
        elif self.logins:
            text += _LOGINS_5
        (home / "server.conf").write_text(text)
        self._launch(name, _BROKER_MAIN, self._tls_mode)
        self._wait_for(port)

    def _home(self, name: str) -> Path:
        home = self.folder / name
        (home / "conf").mkdir(parents=True)
        for of in ("namesrv", "broker"):
            (home / "conf" / f"logback_{of}.xml").write_text(_LOGBACK)
        return home

    def _launch(self, name: str, main: str, tls_mode: str) -> None:
        home, java = self.folder / name, find_java()
        encryption: list[str] = []
        if self.certificate is not None:
            certificate, key = self.certificate
            path = home / "tls.properties"
            path.write_text(_TLS.format(key=key, certificate=certificate))
            encryption = [f"-Dtls.server.mode={tls_mode}", f"-Dtls.config.file={path}"]
        command = [
            *(str(java.executable), "-Xmx256m", "-XX:MaxDirectMemorySize=256m", *QUICK_JVM_FLAGS),
            *OPENED_TO_SERVERS,
            *(f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", *encryption),
            *("-cp", self._jars, main, "-c", str(home / "server.conf")),
        ]
        with (home / "server.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, cwd=home, env=server_environment(java), stdout=log, stderr=log
            )

    def _wait_for(self, port: int) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while not accepts_connections(port):
            self._check(until_s, f"port {port}")
            time.sleep(0.1)

    def _check(self, until_s: float, what: str) -> None:
        for name, process in self._running.items():
            if process.poll() is not None or time.monotonic() > until_s:
                log = (self.folder / name / "server.log").read_text(errors="replace")
                raise AssertionError(f"{what} does not come; {name} says:\n{log[-3000:]}")

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()


def _ensured(label: str, pins: Path) -> Path:
    """The cache's folder of pinned jars, which is filled when it is not there."""
    found = tuple(PinnedJar(**each) for each in json.loads(pins.read_text())["jars"])
    folder = jars_folder(default_cache_folder(os.environ), label, found)
    ensure_jars(folder, found, java=find_java(), on_progress=lambda _: None)
    return folder
