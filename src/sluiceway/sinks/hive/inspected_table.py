"""A Hive table as its metastore, or its folder of tables, has it: for commands that only look."""

from collections.abc import Callable, Sequence

from sluiceway.catalog.hive_table import HivePartition, MetastoreTable
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.sinks.hive.catalogs import TableCatalog
from sluiceway.sinks.hive.partition_effects import partition_name
from sluiceway.sinks.hive.table_check import file_choice, schema_of
from sluiceway.sinks.inspected import InspectedTable, ShownPartition, Values
from sluiceway.sinks.table_options import TableOptions


class InspectedHiveTable(InspectedTable):
    """See `InspectedTable`.

    Args:
        client: That the table was read with; the sink closes it.
        table: As it was read.
        options: What the job file says of it.
        identity: Of the table.
        ledger: Its property `sluiceway.ledger`.
        state: Gives the table as a start would take it.
    """

    def __init__(
        self,
        client: TableCatalog,
        table: MetastoreTable,
        options: TableOptions,
        *,
        identity: TableIdentity,
        ledger: str | None,
        state: Callable[[], TableState],
    ) -> None:
        self.identity = identity
        self.ledger = ledger
        self._client = client
        self._table = table
        self._options = options
        self._state = state

    def state(self) -> TableState:
        """See `InspectedTable.state`."""
        return self._state()

    def files(self) -> FileChoice:
        """See `InspectedTable.files`."""
        try:
            wanted = self._options.schema or schema_of(self._table)
            return file_choice(self._table, self._options, wanted)
        except TableMismatchError:
            return PARQUET_FILES

    def partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """See `InspectedTable.partitions`."""
        return self._named([partition_name(self._table, each) for each in wanted])

    def other_partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """See `InspectedTable.other_partitions`."""
        ours = {partition_name(self._table, each) for each in wanted}
        held = self._client.list_partition_names(self._table.database, self._table.name)
        return self._named(sorted({*held} - ours))

    def _named(self, names: Sequence[str]) -> dict[Values, ShownPartition]:
        found = self._client.get_partitions(self._table.database, self._table.name, names)
        return {values: self._shown(partition) for values, partition in found.items()}

    def _shown(self, partition: HivePartition) -> ShownPartition:
        differences = tuple(partition.layout.differences(self._table.layout, narrower=True))
        return ShownPartition(partition.layout.location, differences)
