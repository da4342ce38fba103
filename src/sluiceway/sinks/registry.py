"""Which catalog holds a route's table: the Hive Metastore, or a plug-in's by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluiceway.plugins import PluginGroup, find_implementation, opened
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.hive.options import HiveTableOptions

METASTORE = "metastore"
ICEBERG = "iceberg"

OpenSink = Callable[[HiveTableOptions, Mapping[str, str]], TableSink]
"""What an entry point of `sluiceway.sinks` names: the table that the job file describes and the
connection's options -> the driver's view of it. Called once per route, on the driver only. Raises
`JobFileError` for what cannot be. `HiveTableOptions.metastore` is empty for a plug-in."""


@dataclass(frozen=True, slots=True)
class CatalogAccess:
    """How the driver reaches the catalog of a route's table.

    Attributes:
        kind: `metastore`, or the plug-in's name as the job file's connection has it.
        options: Of a plug-in: names and values as text, in order. May hold secrets.
    """

    kind: str = METASTORE
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"CatalogAccess({self.kind!r}, <{len(self.options)} options>)"


_BUILT_IN = {
    METASTORE: "sluiceway.sinks.hive.table:open_hive_table",
    ICEBERG: "sluiceway.sinks.iceberg.table:open_iceberg_table",
}


def open_sink(access: CatalogAccess, table: HiveTableOptions) -> TableSink:
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
