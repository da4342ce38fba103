"""A realm of a test's own: a KDC alone, and logins in processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sluiceway.host.java import JavaHome
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.lab.kerberos import REALM, KdcServer, Realm
from sluiceway.lab.server import ServerSite, accepts_connections
from sluiceway.lab.support import ignore_progress, pick_free_ports
from tools.route_faults import wait_until

_NO_JAVA = JavaHome(Path("/nowhere"), 0, "none")
# Logs in, stays for some seconds, and prints what it was answered.
_PROGRAM = """
import json, os, stat, sys, time
from sluiceway.errors import SluicewayError
from sluiceway.host.kerberos import KerberosLogin, log_in, observe_tickets
told = []
observe_tickets(lambda event, fields: told.append([event, time.time()]))
login, seconds = KerberosLogin(*json.loads(sys.argv[1])), float(sys.argv[2])
found = {"told": told, "error": "", "exit_code": 0, "mode": "", "cache": ""}
try:
    cache = log_in(login)
    found |= {"mode": oct(stat.S_IMODE(cache.stat().st_mode)), "cache": os.environ["KRB5CCNAME"]}
    time.sleep(seconds)
    if len(sys.argv) > 3:
        log_in(KerberosLogin(sys.argv[3], login.keytab, login.config))
except SluicewayError as error:
    found |= {"error": f"{error.code} {error}", "exit_code": error.exit_code}
print(json.dumps(found))
"""


@dataclass(slots=True)
class OwnRealm:
    """A running KDC, which tests end and start."""

    site: ServerSite
    realm: Realm
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def login(self) -> KerberosLogin:
        return self.realm.login

    def start(self) -> None:
        launch = KdcServer().launch(self.site, _NO_JAVA)
        with (self.site.folder / "kdc.log").open("ab") as log:
            self.process = subprocess.Popen(
                launch.command, cwd=launch.folder, env=launch.environment, stdout=log, stderr=log
            )
        wait_until(lambda: accepts_connections(self.site.ports["kdc"]))

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def admin(self, query: str) -> None:
        """Ask the database, as its administrator does."""
        environment = {
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
            "KRB5_CONFIG": str(self.realm.config),
            "KRB5_KDC_PROFILE": str(self.site.folder / "kdc.conf"),
        }
        subprocess.run(
            ["kadmin.local", "-r", REALM, "-q", query],
            env=environment,
            check=True,
            capture_output=True,
            timeout=600,
        )


@contextmanager
def own_realm(folder: Path) -> Iterator[OwnRealm]:
    """A KDC that is up in the block and gone after it."""
    server = KdcServer()
    server.fetch(_NO_JAVA, ignore_progress)
    folder.mkdir()
    site = ServerSite(folder, dict(zip(server.listeners, pick_free_ports(1), strict=True)))
    server.prepare(site, _NO_JAVA)
    found = OwnRealm(site, Realm(folder))
    found.start()
    try:
        yield found
    finally:
        found.stop()


def logged_in_process(
    login: KerberosLogin,
    temporary: Path,
    *,
    seconds: float = 0,
    also: str = "",
    environment: Mapping[str, str] | None = None,
) -> "subprocess.Popen[str]":
    """A process that logs in, and stays for some seconds; `outcome` waits for it."""
    given = json.dumps([login.principal, login.keytab, login.config])
    more = [also] if also else []
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, given, str(seconds), *more],
        env={**os.environ, "TMPDIR": str(temporary), **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
    )


def outcome(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What the process has printed."""
    said, _ = process.communicate(timeout=600)
    return dict(json.loads(said))


def without(login: KerberosLogin, **other: str) -> KerberosLogin:
    """The login with something else in it."""
    return replace(login, **other)
