"""A Hive Metastore 2.3: the one in pyspark's own jars, on embedded Derby."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluiceway.catalog.kerberos import SERVICE
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import MetastoreUnavailableError
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.hdfs import hadoop_xml
from sluiceway.lab.jars import PinnedJar, ensure_jars, spark_jars_folder
from sluiceway.lab.kerberos import Realm, java_flags
from sluiceway.lab.server import (
    OPENED_TO_JVMS,
    QUICK_JVM_FLAGS,
    LabServer,
    ServerSite,
    accepts_connections,
    server_environment,
)
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOG4J_SETTINGS, LOOPBACK, OnProgress

WAREHOUSE_FOLDER = "warehouse"
_ASK_TIMEOUT_S = 10.0
# The server reads Hadoop's lists of defaults again for each connection, which is half of its cost.
# It needs no defaults of jobs; on local disks the defaults in Hadoop's code suffice.
_UNREAD = ("mapred-default.xml", "yarn-default.xml")
_UNREAD_ON_LOCAL_DISKS = (*_UNREAD, "core-default.xml")


@dataclass(frozen=True, slots=True)
class HadoopSide:
    """Settings and jars with which Hadoop's clients in the metastore reach stores.

    Attributes:
        settings: Hadoop's settings.
        jars: Folder of further jars; None when pyspark's own are enough.
        pins: The jars that it must hold.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None
    pins: tuple[PinnedJar, ...] = ()


class MetastoreServer(LabServer):
    """The metastore of the lab.

    It listens on all addresses of the machine: this release of the server cannot be bound to
    loopback.

    Args:
        hadoop: Returns what it has to know of table stores; called at each start.
        realm: Realm in which users log in; None where they need not.
    """

    name = "metastore"
    title = "Hive Metastore 2.3.10"
    listeners = ("metastore",)
    # Its database recovers all unflushed data: there is no use in waiting long.
    grace_s = 10.0

    def __init__(
        self, hadoop: Callable[[], HadoopSide] = HadoopSide, realm: Realm | None = None
    ) -> None:
        self._hadoop = hadoop
        self._realm = realm

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Check that pyspark has its jars; only a store's own jars are downloaded."""
        spark_jars_folder()
        side = self._hadoop()
        if side.jars is not None:
            ensure_jars(side.jars, side.pins, java=java, on_progress=on_progress)

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write its settings; the first start creates the database."""
        del java
        for folder in ("conf", "tmp"):
            make_private_folder(site.folder / folder)
        settings = {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"file://{_warehouse(site)}",
            "hive.metastore.server.min.threads": "8",
            # Else it allows no new field in a struct.
            "hive.metastore.disallow.incompatible.col.type.changes": "false",
            "hive.async.log.enabled": "false",
            **self._hadoop().settings,
        }
        common: dict[str, str] = {}
        if self._realm is not None:
            common = self._realm.hadoop_settings()
            settings |= {
                "hive.metastore.sasl.enabled": "true",
                "hive.metastore.kerberos.principal": self._realm.service("hive"),
                "hive.metastore.kerberos.keytab.file": str(self._realm.keytab("hive")),
                # To read tables there.
                "dfs.namenode.kerberos.principal": self._realm.service("hdfs"),
                "dfs.data.transfer.protection": "privacy",
            }
        write_private_file(site.folder / "conf" / "hive-site.xml", hadoop_xml(settings))
        write_private_file(site.folder / "conf" / "core-site.xml", hadoop_xml(common))
        write_private_file(site.folder / "conf" / "hive-log4j2.properties", LOG4J_SETTINGS)
        self._hide_defaults(site.folder / "conf")

    def _hide_defaults(self, folder: Path) -> None:
        # An empty file here is found before the one in the jars. A lab may get a store later.
        is_local = self._realm is None and not self._hadoop().settings
        for name in _UNREAD_ON_LOCAL_DISKS:
            if is_local or name in _UNREAD:
                write_private_file(folder / name, hadoop_xml({}))
            else:
                (folder / name).unlink(missing_ok=True)

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The metastore's main class on pyspark's jars."""
        command = [
            *(str(java.executable), "-Xmx256m", *QUICK_JVM_FLAGS, *OPENED_TO_JVMS),
            *java_flags(self._realm),
            f"-Djava.io.tmpdir={site.folder / 'tmp'}",
            f"-Dderby.stream.error.file={site.folder / 'derby.log'}",
            *("-cp", f"conf:{spark_jars_folder()}/*{self._further_jars()}"),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p"),
            str(site.ports["metastore"]),
        ]
        return Launch(command, site.folder, server_environment(java))

    def _further_jars(self) -> str:
        jars = self._hadoop().jars
        return "" if jars is None else f":{jars}/*"

    def answers(self, site: ServerSite) -> bool:
        """Whether it describes its default database, which has to lie in our warehouse."""
        port = site.ports["metastore"]
        if not accepts_connections(port):
            return False
        client = MetastoreClient(
            f"thrift://{LOOPBACK}:{port}", _ASK_TIMEOUT_S, metastore_options(self._realm)
        )
        try:
            location = client.database_location("default") or ""
        except MetastoreUnavailableError:
            return False
        finally:
            client.close()
        return location.removeprefix("file:").lstrip("/") == _warehouse(site).lstrip("/")


def metastore_options(realm: Realm | None) -> dict[str, str]:
    """Options of a client of the lab's metastore, without its address."""
    if realm is None:
        return {}
    return {SERVICE: realm.service("hive"), **dict(realm.login.options())}


def _warehouse(site: ServerSite) -> str:
    return str(site.folder.parent / WAREHOUSE_FOLDER)
