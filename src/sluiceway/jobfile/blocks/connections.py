"""Connections of a job file: clusters, catalogs, registries and stores, by name."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
)

from sluiceway.jobfile.blocks.block import Block, PluginBlock
from sluiceway.jobfile.blocks.lake import (
    IcebergConnection,
)
from sluiceway.jobfile.blocks.metastore import MetastoreConnection
from sluiceway.jobfile.blocks.schema_formats import SchemaRegistryConnection
from sluiceway.jobfile.blocks.stores import AbsolutePath, HdfsConnection, S3Connection
from sluiceway.jobfile.blocks.values import (
    BootstrapServers,
    Line,
    Location,
    Option,
    Secret,
    is_host_port,
    wrong,
)
from sluiceway.plugins import PluginGroup


def _check_server(text: str) -> str:
    if not is_host_port(text):
        raise wrong("`host:port` of a name server", "write [host1:9876, host2:9876]")
    return text


def _check_servers(found: tuple[str, ...]) -> tuple[str, ...]:
    if not found:
        raise wrong("at least one name server", "write [host1:9876, host2:9876]")
    return found


NameServer = Annotated[str, AfterValidator(_check_server)]
NameServers = Annotated[tuple[NameServer, ...], AfterValidator(_check_servers)]


class RocketMqAcl(Block):
    """A login for brokers that demand signed requests.

    Attributes:
        access_key: Name of the login.
        secret_key: Signs the requests; it is never sent.
        security_token: Token of a temporary login; None for a permanent one.
    """

    access_key: Line
    secret_key: Secret
    security_token: Secret | None = None


class RocketMqTls(Block):
    """Encrypted connections.

    Attributes:
        ca_file: PEM file of the authorities to trust, on every worker; None takes the machine's.
        cert_file: PEM file of a certificate of our own, on every worker; None sends none.
        key_file: PEM file of the key; None if `cert_file` has it.
        verify: Whether the driver checks the certificate of a server; brokers come with an unsigned
            one.
    """

    ca_file: AbsolutePath | None = None
    cert_file: AbsolutePath | None = None
    key_file: AbsolutePath | None = None
    verify: bool = True


class RocketMqConnection(Block):
    """How to reach a RocketMQ cluster, and which messages are read.

    Attributes:
        name_servers: Addresses of the name servers, `host:port` each; the driver asks any of them.
        acl: A login; None without.
        tls: Encryption; None without.
        tags: Tags that make a message a row, as `a || b`; None takes all.
        record_time: Which of a message's times is its record time: when the broker stored it, or
            when its producer made it.
    """

    name_servers: NameServers
    acl: RocketMqAcl | None = None
    tls: RocketMqTls | None = None
    tags: Line | None = None
    record_time: Literal["stored", "born"] = "stored"

    def options(self) -> dict[str, object]:
        """The connection as flat options of the source; missing ones are left out."""
        found: dict[str, object] = {
            "name_servers": ",".join(self.name_servers),
            "tags": self.tags,
            "record_time": self.record_time,
        }
        if self.acl is not None:
            found |= {name: getattr(self.acl, name) for name in RocketMqAcl.model_fields}
        if self.tls is not None:
            found["tls"] = "true"
            found |= {name: getattr(self.tls, name) for name in RocketMqTls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


class KafkaConnection(Block):
    """How to reach a Kafka cluster.

    Attributes:
        bootstrap_servers: Addresses of brokers, `host:port` with commas between.
        properties: Further options of librdkafka.
    """

    LATER = frozenset({"schema_registry"})
    bootstrap_servers: BootstrapServers
    properties: Mapping[str, Option] = Field(default_factory=dict)


class FolderConnection(Block):
    """A folder that is the catalog of its tables, where there is no metastore.

    Attributes:
        path: Path of the folder; a table `ods.orders` lies in `ods.db/orders` below, unless it says
            another location.
    """

    path: Location


class ConnectionSpec(PluginBlock):
    """One named connection; exactly one kind is given."""

    ONE_OF = (
        *("kafka", "rocketmq", "metastore", "folder", "iceberg", "schema_registry"),
        *("s3", "hdfs"),
    )
    PLUGINS = (PluginGroup.SOURCES, PluginGroup.SINKS, PluginGroup.STORAGE)
    kafka: KafkaConnection | None = None
    rocketmq: RocketMqConnection | None = None
    metastore: MetastoreConnection | None = None
    folder: FolderConnection | None = None
    iceberg: IcebergConnection | None = None
    schema_registry: SchemaRegistryConnection | None = None
    s3: S3Connection | None = None
    hdfs: HdfsConnection | None = None

    @property
    def catalog(self) -> str:
        """Address of the catalog of Hive tables; empty for other connections."""
        if self.metastore is not None:
            return self.metastore.uri
        return "" if self.folder is None else f"folder:{self.folder.path}"

    @property
    def catalog_options(self) -> tuple[tuple[str, str], ...]:
        """Options of the catalog of Hive tables, without its address."""
        return () if self.metastore is None else self.metastore.options()
