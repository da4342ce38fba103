"""A metastore that talks TLS, with a certificate for the loopback address."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import MetastoreUnavailableError
from sluiceway.host.java import find_java
from sluiceway.lab.metastore import HadoopSide, MetastoreServer
from sluiceway.lab.server import ServerSite
from sluiceway.lab.support import LOOPBACK, pick_free_ports
from tools.keytool import STORE_PASSWORD, Keytool
from tools.route_faults import wait_until


@dataclass(frozen=True, slots=True)
class EncryptedMetastore:
    """Its address, and what a client needs to know it.

    Attributes:
        uri: `thrift://host:port`.
        authority: PEM file of the authority that has signed its certificate.
        stranger: PEM file of another.
    """

    uri: str
    authority: Path
    stranger: Path


@contextmanager
def encrypted_metastore(folder: Path) -> Iterator[EncryptedMetastore]:
    """A metastore that is up in the block and gone after it.

    Args:
        folder: For its data, keys and certificates; does not exist. Its warehouse is next to it.
    """
    java = find_java()
    settings = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(folder / "metastore.p12"),
        "hive.metastore.keystore.password": STORE_PASSWORD,
    }
    server = MetastoreServer(lambda: HadoopSide(settings))
    site = ServerSite(folder, dict(zip(server.listeners, pick_free_ports(1), strict=True)))
    folder.mkdir()
    keytool = Keytool(java, folder)
    keytool.authority("authority")
    keytool.authority("stranger")
    keytool.signed("metastore", "authority")
    server.prepare(site, java)
    launch = server.launch(site, java)
    found = EncryptedMetastore(
        f"thrift://{LOOPBACK}:{site.ports['metastore']}",
        folder / "authority.pem",
        folder / "stranger.pem",
    )
    with (folder / "metastore.log").open("wb") as log:
        process = subprocess.Popen(
            launch.command, cwd=launch.folder, env=launch.environment, stdout=log, stderr=log
        )
        try:
            wait_until(lambda: _answers(found))
            yield found
        finally:
            process.kill()
            process.wait()


def _answers(of: EncryptedMetastore) -> bool:
    client = MetastoreClient(of.uri, 10.0, {"tls": "true", "ca_file": os.fspath(of.authority)})
    try:
        return client.database_location("default") is not None
    except MetastoreUnavailableError:
        return False
    finally:
        client.close()
