"""Which catalog holds a route's table: the Hive Metastore, or a plug-in's by its name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluiceway.plugins import PluginGroup, find_implementation, opened
from sluiceway.sinks.contract import TableIdentity, TableSink
from sluiceway.sinks.side_tables import DayFolders, LateRowsTable, TypedColumn
from sluiceway.sinks.table_options import ReadableTable, TableOptions
from sluiceway.storage.access import Stores

if TYPE_CHECKING:
    from sluiceway.sinks.hive.found_table import ObservedMetastore

METASTORE = "metastore"
ICEBERG = "iceberg"

OpenSink = Callable[[TableOptions, Mapping[str, str]], TableSink]
"""What an entry point of `sluiceway.sinks` names: the table that the job file describes and the
connection's options -> the driver's view of it. Called once per route, on the driver only. Raises
`JobFileError` for what cannot be. `TableOptions.metastore` is empty for a plug-in."""


@dataclass(frozen=True, slots=True)
class CatalogAccess:
    """How the driver reaches the catalog of a route's table.

    Attributes:
        kind: `metastore`, or the plug-in's name as the job file's connection has it.
        options: Options of a plug-in: names and values as text, in order. May hold secrets.
    """

    kind: str = METASTORE
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"CatalogAccess({self.kind!r}, <{len(self.options)} options>)"


_BUILT_IN = {
    METASTORE: "sluiceway.sinks.hive.table:open_hive_table",
    ICEBERG: "sluiceway.sinks.iceberg.publish.table:open_iceberg_table",
}


def open_sink(access: CatalogAccess, table: TableOptions) -> TableSink:
    """The driver's view of a table. Called once per route.

    Raises:
        JobFileError: The table or the options cannot be.
        UnhealthyEnvironmentError: Nothing installed here has the name, or it does not work.
    """
    open_it: OpenSink = find_implementation(PluginGroup.SINKS, access.kind, _BUILT_IN)
    return opened(
        PluginGroup.SINKS,
        access.kind,
        TableSink,  # type: ignore[type-abstract]
        lambda: open_it(table, dict(access.options)),
    )


def find_table(access: CatalogAccess, table: TableOptions) -> TableIdentity:
    """Where a table is, and its ledger; see `TableSink.find`. Called once a command.

    Raises:
        TableNotFoundError: It does not exist.
        SluicewayError: As `open_sink` and `TableSink.find`.
    """
    if access.kind == METASTORE:
        # `status` and its like load nothing that reads or writes files.
        from sluiceway.sinks.hive.catalogs import find_hive_table  # noqa: PLC0415

        return find_hive_table(table)
    sink = open_sink(access, table)
    try:
        return sink.find()
    finally:
        sink.close()


def read_metastore(table: TableOptions) -> "ObservedMetastore | None":
    """What the metastore of a table says of itself; None where a folder stands for it.

    Raises:
        MetastoreUnavailableError: It does not answer.
    """
    # Likewise.
    from sluiceway.sinks.hive import found_table  # noqa: PLC0415

    return found_table.read_metastore(table)


def column_names(table: TableOptions) -> tuple[str, ...]:
    """Columns of a Hive table that is read, its partition columns last.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: Its catalog does not answer.
    """
    # Likewise.
    from sluiceway.sinks.hive.catalogs import hive_columns  # noqa: PLC0415

    return hive_columns(table)


def readable_table(table: TableOptions) -> ReadableTable:
    """A Hive table that is read, as its catalog has it now.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: Its catalog does not answer.
    """
    # Likewise.
    from sluiceway.sinks.hive import found_table  # noqa: PLC0415

    return found_table.readable_table(table)


def partition_places(table: TableOptions) -> dict[str, str]:
    """Partition name -> location of all partitions of a Hive table that is read.

    Raises:
        MetastoreUnavailableError: Its catalog does not answer.
    """
    # Likewise.
    from sluiceway.sinks.hive import found_table  # noqa: PLC0415

    return found_table.partition_places(table)


def open_late_table(
    table: TableOptions, name: str, *, ledger: str, place: str, stores: Stores
) -> LateRowsTable:
    """The table over a route's late place, in the catalog of its own table; not yet found.

    Args:
        table: The route's own.
        name: `database.table`.
        ledger: Value of the property `sluiceway.ledger` of both.
        place: The late place, an absolute folder.
        stores: How its store is reached.
    """
    # Who reads a job file only pays for no client of a catalog.
    from sluiceway.sinks.hive import late_table  # noqa: PLC0415

    return late_table.open_late_table(table, name, ledger=ledger, place=place, stores=stores)


def open_day_folders(
    table: TableOptions, name: str, columns: Sequence[TypedColumn], *, stores: Stores
) -> DayFolders:
    """A table for copies of a route's dirty rows, in the catalog of its own table; not yet opened.

    Args:
        table: The route's own.
        name: `database.table`.
        columns: Columns of the files, without the day.
        stores: How the store that it lies on is reached.
    """
    from sluiceway.sinks.hive.day_table import DayTable  # noqa: PLC0415

    return DayTable(
        table.metastore,
        name,
        columns,
        table.timeout_s,
        stores=stores,
        options=table.metastore_options,
    )


def why_not_created(table: TableOptions) -> str | None:
    """Why a table of the job file's format and columns could not be filled; None when it could."""
    from sluiceway.sinks.hive.table_format import creation_problem  # noqa: PLC0415

    return creation_problem(table)
