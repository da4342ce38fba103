"""A Kerberos realm: the KDC of Debian's packages, as a plain process with its own database."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.host.kerberos import KerberosLogin, log_in
from sluiceway.lab.daemon import Launch
from sluiceway.lab.server import LabServer, ServerSite, accepts_connections, server_environment
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOOPBACK, OnProgress

KDC = "kerberos"
REALM = "SLUICEWAY.LAB"
CLIENT = "etl"
TICKET_LIFE_S = 180
SERVICES = ("hdfs", "HTTP", "hive", "kafka", "yarn")
"""Services, each as `name/localhost`, with a keytab of its name."""

_COMMANDS = {
    "krb5kdc": "krb5-kdc",
    "kdb5_util": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "kinit": "krb5-user",
}
_SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin:/sbin:/usr/lib/mit/sbin"
_TOOL_TIMEOUT_S = 60.0
# Clock skew: a ticket that has expired would be accepted for so long.
_CLOCK_SKEW_S = 5
_CLIENT_SETTINGS = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
clockskew = {skew_s}
[realms]
{realm} = {{
  kdc = {host}:{port}
}}
[domain_realm]
localhost = {realm}
"""
_SERVER_SETTINGS = """\
[kdcdefaults]
kdc_listen = {host}:{port}
kdc_tcp_listen = {host}:{port}
[realms]
{realm} = {{
  database_name = {folder}/data/principal
  key_stash_file = {folder}/data/stash
  acl_file = {folder}/kadm5.acl
  max_life = 1d
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
}}
"""


@dataclass(frozen=True, slots=True)
class Realm:
    """The lab's realm, for its servers and clients.

    Attributes:
        folder: Folder of the KDC.
    """

    folder: Path

    @property
    def config(self) -> Path:
        """The file to use instead of /etc/krb5.conf."""
        return self.folder / "krb5.conf"

    @property
    def login(self) -> KerberosLogin:
        """Login of clients, with tickets of three minutes."""
        return KerberosLogin(f"{CLIENT}@{REALM}", str(self.keytab(CLIENT)), str(self.config))

    def keytab(self, name: str) -> Path:
        """The file with the key of a service or of the client."""
        return self.folder / "keytabs" / f"{name}.keytab"

    def service(self, name: str) -> str:
        """The principal of a service."""
        return f"{name}/localhost@{REALM}"

    def java_flags(self) -> tuple[str, ...]:
        """Flags of a JVM in the realm."""
        return (
            f"-Djava.security.krb5.conf={self.config}",
            "-Dsun.security.krb5.disableReferrals=true",
            "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
            "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        )

    def hadoop_settings(self) -> dict[str, str]:
        """Settings of Hadoop's servers and clients for core-site.xml."""
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "hadoop.rpc.protection": "privacy",
            "hadoop.proxyuser.hive.hosts": "*",
            "hadoop.proxyuser.hive.groups": "*",
            # So that the resource manager gets new tokens for an application that runs on.
            "hadoop.proxyuser.yarn.hosts": "*",
            "hadoop.proxyuser.yarn.groups": "*",
            # So that a table may lie anywhere: this is a lab.
            "hadoop.user.group.static.mapping.overrides": f"{CLIENT}=supergroup;hive=supergroup;"
            "hdfs=supergroup;yarn=supergroup",
        }


class KdcServer(LabServer):
    """The KDC of the lab; its principals and keytabs are made with its database."""

    name = KDC
    title = "MIT Kerberos KDC"
    listeners = ("kdc",)
    grace_s = 5.0

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Find the system's commands: they are not downloaded."""
        del java, on_progress
        missing = sorted({_COMMANDS[name] for name in _COMMANDS if _command(name) is None})
        if missing:
            raise UnhealthyEnvironmentError(
                f"the lab's Kerberos needs packages of the system: {', '.join(missing)}",
                hint="Debian and Ubuntu: apt-get install krb5-kdc krb5-admin-server krb5-user "
                "libkrb5-dev",
            )

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings; create database, principals and keytabs the first time."""
        del java
        realm = Realm(site.folder)
        values = {"realm": REALM, "host": LOOPBACK, "port": site.ports["kdc"]}
        write_private_file(realm.config, _CLIENT_SETTINGS.format(skew_s=_CLOCK_SKEW_S, **values))
        write_private_file(
            site.folder / "kdc.conf", _SERVER_SETTINGS.format(folder=site.folder, **values)
        )
        write_private_file(site.folder / "kadm5.acl", "")
        keytabs = [realm.keytab(name) for name in (CLIENT, *SERVICES)]
        if all(path.exists() for path in (*keytabs, site.folder / "keytabs" / "made")):
            return
        for folder in ("data", "keytabs"):
            shutil.rmtree(site.folder / folder, ignore_errors=True)
            make_private_folder(site.folder / folder)
        self._tool(site, "kdb5_util", "create", "-r", REALM, "-s", "-P", os.urandom(16).hex())
        self._add(site, CLIENT, realm.keytab(CLIENT), life_s=TICKET_LIFE_S)
        for service in SERVICES:
            self._add(site, realm.service(service), realm.keytab(service))
        # A server of HDFS has one keytab.
        self._export(site, realm.service("HTTP"), realm.keytab("hdfs"))
        write_private_file(site.folder / "keytabs" / "made", "")

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The KDC, in the foreground."""
        command = [_command("krb5kdc") or "krb5kdc", "-n", "-r", REALM]
        return Launch(command, site.folder, {**server_environment(java), **_variables(site)})

    def answers(self, site: ServerSite) -> bool:
        """Whether it gives a ticket."""
        if not accepts_connections(site.ports["kdc"]):
            return False
        try:
            log_in(Realm(site.folder).login)
        except SluicewayError:
            return False
        return True

    def _add(self, site: ServerSite, principal: str, keytab: Path, life_s: int = 0) -> None:
        life = ("-maxlife", f"{life_s} seconds") if life_s else ()
        self._admin(site, "add_principal", "-randkey", *life, principal)
        self._export(site, principal, keytab)

    def _export(self, site: ServerSite, principal: str, keytab: Path) -> None:
        self._admin(site, "ktadd", "-norandkey", "-k", str(keytab), principal)
        keytab.chmod(0o600)

    def _admin(self, site: ServerSite, *query: str) -> None:
        words = " ".join(f'"{word}"' if " " in word else word for word in query)
        self._tool(site, "kadmin.local", "-r", REALM, "-q", words)

    def _tool(self, site: ServerSite, name: str, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603
            [_command(name) or name, *arguments],
            env={"PATH": _path(), "LC_ALL": "C", **_variables(site)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TOOL_TIMEOUT_S,
        )
        # Only the words of `kadmin.local` show that a query has failed.
        failed = any(sign in done.stderr for sign in ("kadmin.local:", "add_principal:", "ktadd:"))
        if done.returncode != 0 or failed:
            raise UnhealthyEnvironmentError(
                f"the realm could not be made: {done.stderr.strip()}", where=str(site.folder)
            )


def _variables(site: ServerSite) -> Mapping[str, str]:
    realm = Realm(site.folder)
    return {"KRB5_CONFIG": str(realm.config), "KRB5_KDC_PROFILE": str(site.folder / "kdc.conf")}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}"


def _command(name: str) -> str | None:
    return shutil.which(name, path=_path())


def java_flags(realm: Realm | None) -> Sequence[str]:
    """Flags of a JVM in a lab with or without a realm."""
    return () if realm is None else realm.java_flags()
