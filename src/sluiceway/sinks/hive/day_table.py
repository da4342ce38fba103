"""A Hive table of Parquet files in a folder for each day, which several may fill at once."""

from collections.abc import Sequence

from sluiceway.catalog.hive_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    HiveColumn,
    HiveLayout,
    HivePartition,
    MetastoreTable,
    NewPartition,
    PartitionChange,
)
from sluiceway.catalog.thrift_values import STATS_ACCURATE
from sluiceway.errors import InvariantError, TableMismatchError
from sluiceway.sinks.hive.catalogs import Options, open_catalog
from sluiceway.sinks.hive.table import LEDGER_PROPERTY
from sluiceway.sinks.hive.table_check import check_writable
from sluiceway.sinks.side_tables import DayFolders, TypedColumn
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import normalise_location, same_location
from sluiceway.storage.registry import open_storage

_DAY = "day"


class DayTable(DayFolders):
    """The table; whoever fills it puts files of its own into the folders. Used by one thread.

    Args:
        metastore: `thrift://host:port`, several separated by commas.
        name: `database.table`.
        columns: Columns of the files, without the day.
        timeout_s: Longest wait for an answer of the metastore.
        stores: How the store that it lies on is reached.
    """

    def __init__(
        self,
        metastore: str,
        name: str,
        columns: Sequence[TypedColumn],
        timeout_s: float,
        *,
        stores: Stores = NO_STORES,
        options: Options = (),
    ) -> None:
        self._client = open_catalog(metastore, timeout_s, stores, options)
        self._stores = stores
        database, _, table = name.partition(".")
        layout = HiveLayout(
            location="",
            serde=PARQUET_SERDE,
            input_format=PARQUET_INPUT_FORMAT,
            output_format=PARQUET_OUTPUT_FORMAT,
            columns=tuple(HiveColumn(each.name, each.type) for each in columns),
        )
        self._desired = MetastoreTable(
            database=database,
            name=table,
            kind="EXTERNAL_TABLE",
            layout=layout,
            partition_columns=(HiveColumn(_DAY, "string"),),
            parameters={"EXTERNAL": "TRUE"},
        )
        self._table: MetastoreTable | None = None
        self._shown: set[str] = set()

    def __str__(self) -> str:
        return str(self._desired)

    def find(self) -> bool:
        """See `DayFolders.find`."""
        found = self._client.get_table(self._desired.database, self._desired.name)
        if found is not None:
            self._check_table(found)
        return found is not None

    def open(self) -> None:
        """See `DayFolders.open`."""
        if self.find():
            return
        self._client.create_database_if_missing(self._desired.database)
        self._check_table(self._client.create_table(self._desired))

    def _check_table(self, table: MetastoreTable) -> None:
        check_writable(table)
        differences = list(table.layout.differences(self._desired.layout))
        ours = [(each.name, each.type) for each in table.partition_columns]
        if ours != [(_DAY, "string")]:
            differences.append(f"partition columns are {ours}, expected {_DAY} string")
        if LEDGER_PROPERTY in table.parameters:
            differences.append("a route fills it")
        if differences:
            raise TableMismatchError(
                f"it is no table for dirty rows: {'; '.join(differences)}",
                where=str(table),
                hint="name another table, or a new name: it is made as it has to be",
            )
        self._table, self._shown = table, set()
        self._place = open_storage(normalise_location(table.layout.location), self._stores)

    @property
    def storage(self) -> Storage:
        """See `DayFolders.storage`."""
        self._opened()
        return self._place[0]

    @property
    def root(self) -> str:
        """See `DayFolders.root`."""
        self._opened()
        return self._place[1]

    def folder(self, day: str) -> str:
        """See `DayFolders.folder`."""
        return f"{self.root}/{_DAY}={day}"

    def show(self, day: str) -> None:
        """See `DayFolders.show`."""
        if day in self._shown:
            return
        table = self._opened()
        location = f"{table.layout.location.rstrip('/')}/{_DAY}={day}"
        found = self.days([day]).get(day)
        if found is None:
            outcome = self._client.add_partitions(
                table.database, table.name, [NewPartition((day,), location)]
            )
            for refused in outcome.rejected:
                raise TableMismatchError(
                    f"the metastore refuses the day {day}: {refused.reason}", where=str(table)
                )
            found = self.days([day]).get(day)
        if found is None or not same_location(found.layout.location, location):
            there = "nowhere" if found is None else f"in {found.layout.location}"
            raise TableMismatchError(
                f"the day {day} is shown {there}, and lies in {location}",
                where=str(table),
                hint="drop the partition; it is made again",
            )
        if STATS_ACCURATE in found.parameters:
            # Hive would answer count(*) from them without reading new files.
            change = PartitionChange(f"{_DAY}={day}", (day,))
            self._client.alter_partitions(table.database, table.name, [change])
        self._shown.add(day)

    def days(self, days: Sequence[str]) -> dict[str, HivePartition]:
        """See `DayFolders.days`."""
        table = self._opened()
        names = [f"{_DAY}={day}" for day in days]
        found = self._client.get_partitions(table.database, table.name, names)
        return {values[0]: partition for values, partition in found.items()}

    def close(self) -> None:
        """See `DayFolders.close`."""
        self._client.close()

    def _opened(self) -> MetastoreTable:
        if self._table is None:
            raise InvariantError("a table of dirty rows is used before it was opened")
        return self._table
