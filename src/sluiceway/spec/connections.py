"""Connections of a job file: clusters, catalogs, registries and stores, by name."""

from collections.abc import Mapping

from pydantic import (
    Field,
)

from sluiceway.plugins import PluginGroup
from sluiceway.spec.block import Block
from sluiceway.spec.lake import (
    IcebergConnection,
)
from sluiceway.spec.metastore import MetastoreConnection
from sluiceway.spec.plugin_block import PluginBlock
from sluiceway.spec.rocketmq import RocketMqConnection
from sluiceway.spec.schema_formats import SchemaRegistryConnection
from sluiceway.spec.stores import HdfsConnection, S3Connection
from sluiceway.spec.values import (
    BootstrapServers,
    Location,
    Option,
)


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
        """Address of the catalog of Hive tables; empty when it is no such connection."""
        if self.metastore is not None:
            return self.metastore.uri
        return "" if self.folder is None else f"folder:{self.folder.path}"

    @property
    def catalog_options(self) -> tuple[tuple[str, str], ...]:
        """How the catalog of Hive tables is reached, besides its address."""
        return () if self.metastore is None else self.metastore.options()
