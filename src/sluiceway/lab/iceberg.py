"""A REST catalog of Iceberg: the test server of Iceberg itself, its tables in SQLite."""

from dataclasses import dataclass
from pathlib import Path

from sluiceway.host.http import read_url
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.jars import PinnedJar, ensure_jars, jars_folder, pinned_jars, spark_jars_folder
from sluiceway.lab.server import (
    QUICK_JVM_FLAGS,
    LabServer,
    ServerSite,
    accepts_connections,
    server_environment,
)
from sluiceway.lab.state import make_private_folder
from sluiceway.lab.support import LOOPBACK, OnProgress

ICEBERG_CATALOG = "iceberg"
_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class IcebergEndpoint:
    """How to reach the lab's catalog.

    Attributes:
        uri: `http://host:port`.
        warehouse: Folder of its tables.
    """

    uri: str
    warehouse: Path


def iceberg_endpoint(site: ServerSite) -> IcebergEndpoint:
    """The endpoint of the catalog at a site."""
    port = site.ports[ICEBERG_CATALOG]
    return IcebergEndpoint(f"http://{LOOPBACK}:{port}", site.folder / "warehouse")


class IcebergCatalogServer(LabServer):
    """The REST catalog of the lab.

    Args:
        cache: Folder for the downloaded jars.
    """

    name = ICEBERG_CATALOG
    title = "Iceberg REST catalog 1.11.0"
    listeners = (ICEBERG_CATALOG,)
    grace_s = 10.0

    def __init__(self, cache: Path) -> None:
        self._pins: tuple[PinnedJar, ...] = pinned_jars("iceberg_jars.json")
        self._jars = jars_folder(cache, "iceberg-rest-1.11.0", self._pins)

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Download the jars if the cache does not have them, and check their hashes."""
        ensure_jars(self._jars, self._pins, java=java, on_progress=on_progress)

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Make its folders."""
        del java
        for name in ("warehouse", "tmp"):
            make_private_folder(site.folder / name)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The catalog's main class, with all settings in its environment."""
        command = [
            *(str(java.executable), "-Xmx256m", *QUICK_JVM_FLAGS),
            f"-Djava.io.tmpdir={site.folder / 'tmp'}",
            *("-cp", f"{self._jars}/*:{spark_jars_folder()}/*"),
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]
        environment = {
            **server_environment(java),
            "CATALOG_REST_PORT": str(site.ports[ICEBERG_CATALOG]),
            "CATALOG_WAREHOUSE": f"file://{site.folder / 'warehouse'}",
            "CATALOG_URI": f"jdbc:sqlite:{site.folder / 'catalog.db'}",
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        }
        return Launch(command, site.folder, environment)

    def answers(self, site: ServerSite) -> bool:
        """Whether it returns its settings, which clients read first."""
        port = site.ports[ICEBERG_CATALOG]
        if not accepts_connections(port):
            return False
        try:
            return bool(read_url(f"http://{LOOPBACK}:{port}/v1/config", _WAIT_S))
        except OSError:
            return False
