"""A table of the session's metastore as a sink under test; the other program is plain thrift."""

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pymetastore.hive_metastore import ttypes

from sluiceway.conformance.sinks import SinkUnderTest
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.registry import CatalogAccess, open_sink
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from tools.raw_metastore import raw_client, storage

TABLE = "events"
SCHEMA = Schema((Field("id", IntegerType(64)), Field("note", StringType())))
COLUMNS = [("id", "bigint"), ("note", "string")]


class HiveUnderTest(SinkUnderTest):
    def __init__(self, metastore_uri: str) -> None:
        self.options = TableOptions(
            metastore=metastore_uri,
            database=f"db_{uuid4().hex[:8]}",
            table=TABLE,
            schema=SCHEMA,
            partition_columns=(PartitionColumn("dt"), PartitionColumn("city")),
        )

    def new_sink(self) -> TableSink:
        return open_sink(CatalogAccess(), self.options)

    def held(self) -> Mapping[tuple[str, ...], str]:
        with raw_client(self.options.metastore) as raw:
            found = raw.get_partitions(self.options.database, TABLE, -1)
        return {tuple(one.values): one.sd.location.removeprefix("file:") for one in found}

    def add_foreign(self, values: tuple[str, ...], location: str) -> None:
        Path(location).mkdir(parents=True)
        partition = ttypes.Partition(
            values=list(values),
            dbName=self.options.database,
            tableName=TABLE,
            sd=storage(f"file:{location}", COLUMNS),
            parameters={},
        )
        with raw_client(self.options.metastore) as raw:
            raw.add_partition(partition)

    def drop_partition(self, values: tuple[str, ...]) -> None:
        with raw_client(self.options.metastore) as raw:
            raw.drop_partition(self.options.database, TABLE, list(values), False)  # noqa: FBT003

    def drop_table(self) -> None:
        with raw_client(self.options.metastore) as raw:
            raw.drop_table(self.options.database, TABLE, False)  # noqa: FBT003

    def move_table(self, location: str) -> None:
        with raw_client(self.options.metastore) as raw:
            table = raw.get_table(self.options.database, TABLE)
            table.sd.location = location
            raw.alter_table(self.options.database, TABLE, table)
