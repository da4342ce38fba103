"""Keys, certificates and authorities for servers of tests, made by Java's own tool."""

import subprocess
from pathlib import Path
from typing import Final

from sluiceway.host.java import JavaHome
from sluiceway.lab.support import LOOPBACK

STORE_PASSWORD: Final = "of-stores-only-52ab"  # noqa: S105 - opens nothing but tests' own stores

# Each call is a JVM that lives for a second: the second compiler takes more than it gives.
_QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")


class Keytool:
    """Java's own tool for keys, which is there wherever the servers run."""

    def __init__(self, java: JavaHome, folder: Path) -> None:
        self._program = java.path / "bin" / "keytool"
        self._folder = folder

    def authority(self, name: str) -> None:
        """Make an authority, `name.p12`, and its certificate, `name.pem`."""
        self._make_key(name, "bc:critical=ca:true")
        pem = self._run("-exportcert", "-rfc", *self._store(name), "-alias", name)
        (self._folder / f"{name}.pem").write_bytes(pem)

    def trust(self, name: str, authority: str) -> None:
        """Make a store that trusts an authority."""
        self._import(name, authority, f"{authority}.pem")

    def signed(self, name: str, authority: str) -> None:
        """Make a key in `name.p12` with a certificate that an authority has signed."""
        address = f"san=ip:{LOOPBACK}"
        self._make_key(name, address)
        request = self._run("-certreq", *self._store(name), "-alias", name)
        by = (*self._store(authority), "-alias", authority)
        answer = self._run("-gencert", "-rfc", *by, "-ext", address, given=request)
        (self._folder / f"{name}.pem").write_bytes(answer)
        self._import(name, authority, f"{authority}.pem")
        self._import(name, name, f"{name}.pem")

    def _make_key(self, name: str, extension: str) -> None:
        kind = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2")
        of = ("-alias", name, "-dname", f"CN={name}", "-ext", extension)
        self._run("-genkeypair", *self._store(name), *kind, *of)

    def _import(self, store: str, alias: str, pem: str) -> None:
        self._run("-importcert", "-noprompt", *self._store(store), "-alias", alias, "-file", pem)

    def _store(self, name: str) -> tuple[str, ...]:
        of = ("-keystore", f"{name}.p12", "-storetype", "PKCS12")
        return (*of, "-storepass", STORE_PASSWORD)

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            [self._program, *_QUICK, *arguments],
            cwd=self._folder,
            input=given,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (arguments[0], done.stdout + done.stderr)
        return done.stdout
