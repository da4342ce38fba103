"""A Hive table over a route's late place: the files where they lie, the columns of the route's.

No row is copied. The late place has a folder for each partition, and a file gets there after its
commit only. So each folder can be a partition as it is.
"""

from collections.abc import Sequence

from sluiceway.catalog.hive_table import HiveLayout, MetastoreTable
from sluiceway.catalog.thrift_values import STATS_ACCURATE
from sluiceway.errors import InvariantError, LedgerMismatchError, TableMismatchError
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.sinks.hive.catalogs import TableCatalog, open_catalog
from sluiceway.sinks.hive.partition_effects import apply_partitions
from sluiceway.sinks.hive.table import LEDGER_PROPERTY
from sluiceway.sinks.hive.table_check import check_writable
from sluiceway.sinks.hive.table_format import file_settings, settings_of
from sluiceway.sinks.side_tables import LateRowsTable
from sluiceway.sinks.table_options import TableOptions
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.locations import qualify_location, same_location

_PURGE = "external.table.purge"
_OTHER_NAME = "name another table for late rows, or a new name: it is made"
_MAKE_ANEW = "drop it: it is created again with all that came late, and the files stay"


class LateTable(LateRowsTable):
    """The table; used by one thread.

    Args:
        client: Client of the metastore of both tables; closed here.
        main: The route's own table, `database.table`.
        name: The table over its late place.
        ledger: Value of the property `sluiceway.ledger` of both.
        place: The late place, an absolute folder.
        stores: How its store is reached.
    """

    def __init__(
        self,
        client: TableCatalog,
        main: str,
        name: str,
        *,
        ledger: str,
        place: str,
        stores: Stores = NO_STORES,
    ) -> None:
        self._client = client
        self._main = main
        self._name = name
        self._ledger = ledger
        self._place = place
        self._stores = stores
        self._table: MetastoreTable | None = None
        self._own_layout = HiveLayout("", "", "", "", ())

    def __str__(self) -> str:
        return self._name

    def find(self) -> bool:
        """See `LateRowsTable.find`."""
        self._table = None
        wanted = self._desired()
        table = self._client.get_table(wanted.database, wanted.name)
        if table is None:
            return False
        self._refuse_other(table, wanted)
        self._table, self._own_layout = table, wanted.layout
        return True

    def follow(self) -> None:
        """See `LateRowsTable.follow`."""
        table = self._found()
        if table.layout.lacks_columns(self._own_layout):
            columns = self._own_layout.columns
            table = self._client.alter_columns(table.database, table.name, columns, put={})
        if STATS_ACCURATE in table.parameters:
            # Hive would answer count(*) from them without reading new files.
            table = self._client.alter_table_parameters(
                table.database, table.name, put={}, remove=(STATS_ACCURATE,)
            )
        self._table = table

    def make(self) -> None:
        """See `LateRowsTable.make`."""
        wanted = self._desired()
        self._client.create_database_if_missing(wanted.database)
        self._client.create_table(wanted)
        if not self.find():
            raise TableMismatchError("the table was created and is gone again", where=self._name)

    @property
    def created_at_s(self) -> int:
        """See `LateRowsTable.created_at_s`."""
        return self._found().created_at_s

    def show(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """See `LateRowsTable.show`."""
        return apply_partitions(self._client, self._found(), partitions, stores=self._stores)

    def shown(self) -> dict[tuple[str, ...], str]:
        """See `LateRowsTable.shown`."""
        table = self._found()
        names = self._client.list_partition_names(table.database, table.name)
        held = self._client.get_partitions(table.database, table.name, names)
        return {values: each.layout.location for values, each in held.items()}

    def close(self) -> None:
        """See `LateRowsTable.close`."""
        self._client.close()

    def _desired(self) -> MetastoreTable:
        """How the table has to be, by the route's own as it is now."""
        database, _, name = self._main.partition(".")
        main = self._client.get_table(database, name)
        if main is None:
            raise TableMismatchError("the table is gone", where=self._main)
        layout = main.layout
        parameters = {"EXTERNAL": "TRUE", _PURGE: "false", LEDGER_PROPERTY: self._ledger}
        database, _, name = self._name.partition(".")
        return MetastoreTable(
            database=database,
            name=name,
            kind="EXTERNAL_TABLE",
            layout=HiveLayout(
                location=qualify_location(self._place, layout.location),
                serde=layout.serde,
                input_format=layout.input_format,
                output_format=layout.output_format,
                columns=layout.columns,
                # Wherever the route's own table has them: readers read both places.
                serde_parameters=dict(settings_of(layout, main.parameters)),
            ),
            partition_columns=main.partition_columns,
            parameters=parameters,
        )

    def _refuse_other(self, table: MetastoreTable, wanted: MetastoreTable) -> None:
        held, location = table.parameters.get(LEDGER_PROPERTY), table.layout.location
        if held != self._ledger:
            raise LedgerMismatchError(
                f"the table's property {LEDGER_PROPERTY} is {held or 'not set'}, "
                f"expected {self._ledger}",
                where=str(table),
                hint=_OTHER_NAME,
            )
        if not same_location(location, wanted.layout.location):
            raise TableMismatchError(
                f"its location is {location}, the late rows of {self._main} are in "
                f"{wanted.layout.location}",
                where=str(table),
                hint=_OTHER_NAME,
            )
        differences = list(table.differences(wanted))
        if file_settings(table.layout, table.parameters) != file_settings(
            wanted.layout, wanted.parameters
        ):
            differences.append("its SerDe has other settings than the route's own table")
        if table.parameters.get(_PURGE, "").lower() == "true":
            differences.append(f"it has {_PURGE}=true: DROP TABLE would remove the late rows")
        if differences:
            raise TableMismatchError(
                f"it is not as {self._main} is: {'; '.join(differences)}",
                where=str(table),
                hint=_MAKE_ANEW,
            )
        check_writable(table)

    def _found(self) -> MetastoreTable:
        if self._table is None:
            raise InvariantError("a table of late rows is used before it was found")
        return self._table


def open_late_table(
    table: TableOptions, name: str, *, ledger: str, place: str, stores: Stores
) -> LateRowsTable:
    """See `sinks.registry.open_late_table`."""
    client = open_catalog(table.metastore, table.timeout_s, stores, table.metastore_options)
    main = f"{table.database}.{table.table}"
    return LateTable(client, main, name, ledger=ledger, place=place, stores=stores)
