"""A table of a catalog in a folder as a sink under test; the other program writes its own files."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from sluiceway.catalog.hive_table import NewPartition
from sluiceway.conformance.sinks import SinkUnderTest
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.sinks.registry import CatalogAccess, open_sink
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.storage.access import NO_STORES
from tools.hive_under_test import SCHEMA, TABLE

DATABASE = "ods"


class FolderUnderTest(SinkUnderTest):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._catalog = FolderCatalog(str(folder), NO_STORES)
        self.options = TableOptions(
            metastore=f"folder:{folder}",
            database=DATABASE,
            table=TABLE,
            schema=SCHEMA,
            partition_columns=(PartitionColumn("dt"), PartitionColumn("city")),
        )

    def new_sink(self) -> TableSink:
        return open_sink(CatalogAccess(), self.options)

    def held(self) -> Mapping[tuple[str, ...], str]:
        names = self._catalog.list_partition_names(DATABASE, TABLE)
        found = self._catalog.get_partitions(DATABASE, TABLE, names)
        assert sorted(partition_folder(("dt", "city"), each) for each in found) == sorted(names)
        return {values: each.layout.location for values, each in found.items()}

    def add_foreign(self, values: tuple[str, ...], location: str) -> None:
        Path(location).mkdir(parents=True)
        self._catalog.add_partitions(DATABASE, TABLE, [NewPartition(values, location)])

    def drop_partition(self, values: tuple[str, ...]) -> None:
        self._catalog.drop_partition(DATABASE, TABLE, values)

    def drop_table(self) -> None:
        shutil.rmtree(self._folder / "_catalog" / DATABASE / TABLE)

    def move_table(self, location: str) -> None:
        entry = max((self._folder / "_catalog" / DATABASE / TABLE / "table").iterdir())
        root = f"{self._folder}/{DATABASE}.db/{TABLE}"
        entry.write_text(entry.read_text().replace(f'"{root}"', f'"{location}"'))
