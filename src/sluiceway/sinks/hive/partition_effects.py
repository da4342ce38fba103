"""Makes the partitions that a metastore holds equal to the desired ones."""

from collections.abc import Sequence

from sluiceway.catalog.hive_table import (
    HiveColumn,
    HivePartition,
    MetastoreTable,
    NewPartition,
    PartitionChange,
)
from sluiceway.catalog.thrift_values import STATS_ACCURATE
from sluiceway.errors import InvariantError
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.sinks.hive.catalogs import TableCatalog
from sluiceway.sinks.hive.table_format import file_settings
from sluiceway.sinks.partition_path import (
    catalog_folder,
    catalog_values,
    partition_name_problem,
)
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.locations import normalise_location, qualify_location, same_location
from sluiceway.storage.registry import ensure_folder

_EMPTY = "empty"


def apply_partitions(
    client: TableCatalog,
    table: MetastoreTable,
    partitions: Sequence[DesiredPartition],
    *,
    stores: Stores = NO_STORES,
) -> tuple[ParkedPartition, ...]:
    """Compare, and apply the difference in batches; safe to repeat. No file is touched.

    Folders that do not exist are made here, never by the metastore. When its own transaction fails,
    it would remove a folder that it made, with all files in it.

    Args:
        client: Client of the table's metastore.
        table: The table as it is now.
        partitions: How they must be.
        stores: How the stores of their folders are reached.

    Returns:
        Partitions that were left alone: a foreign location, another format.

    Raises:
        InvariantError: Not as many values as the table has partition columns.
        MetastoreUnavailableError: The metastore does not answer; call again later.
        TableMismatchError: The table is gone.
    """
    names = [column.name for column in table.partition_columns]
    desired: dict[tuple[str, ...], DesiredPartition] = {}
    parked: list[ParkedPartition] = []
    for partition in partitions:
        if len(partition.values) != len(names):
            raise InvariantError(f"{partition.values} are not values of {names}")
        problem = partition_name_problem(names, partition.values)
        if problem:
            parked.append(ParkedPartition(partition.values, problem))
        elif names:
            desired[catalog_values(partition.values)] = partition
    swapped = {values: each for values, each in desired.items() if each.swapped >= 0}
    at_once = len(swapped) > 1
    if at_once:
        _add_empty(client, table, swapped, stores)
    missing = _compare(client, table, desired, parked, at_once=at_once)
    for partition_to_add in missing:
        ensure_folder(partition_to_add.location, stores)
    _add(client, table, missing, parked)
    return tuple(parked)


def _add_empty(
    client: TableCatalog,
    table: MetastoreTable,
    swapped: dict[tuple[str, ...], DesiredPartition],
    stores: Stores,
) -> None:
    """Add the partitions of a SWAP that are new at an empty folder: they move with the others.

    An added partition is seen at once, by itself. The folder lies within the partition's next one,
    so that it goes together with that, and is known as one of this ledger's.
    """
    names = [partition_name(table, values) for values in swapped]
    held = client.get_partitions(table.database, table.name, names)
    missing = []
    for values, each in swapped.items():
        ensure_folder(each.location, stores)
        if values not in held and each.exists:
            place = f"{each.location.rpartition('/')[0]}/{_EMPTY}"
            ensure_folder(place, stores)
            missing.append(NewPartition(values, qualify_location(place, table.layout.location)))
    client.add_partitions(table.database, table.name, missing)


def partition_name(table: MetastoreTable, values: tuple[str, ...]) -> str:
    """Escaped name of a partition, `dt=20261120/hr=08`, of values as the metastore has them."""
    return catalog_folder([column.name for column in table.partition_columns], values)


def _compare(
    client: TableCatalog,
    table: MetastoreTable,
    desired: dict[tuple[str, ...], DesiredPartition],
    parked: list[ParkedPartition],
    *,
    at_once: bool = False,
) -> list[NewPartition]:
    """Partitions to add; moves, drops or parks others on the way.

    They also get the columns that the table has and they have not: some readers go by a
    partition's own. Trust is taken from their statistics.
    """
    names = {values: partition_name(table, values) for values in desired}
    held = client.get_partitions(table.database, table.name, list(names.values()))
    missing, changed = [], []
    for values, partition in desired.items():
        found = held.get(values)
        if not partition.exists:
            if found is not None and _was_ours(found, partition):
                client.drop_partition(table.database, table.name, values)
        elif found is None:
            location = qualify_location(partition.location, table.layout.location)
            missing.append(NewPartition(values, location))
        elif reason := _parking_reason(found, partition, table):
            parked.append(ParkedPartition(partition.values, reason))
        elif not same_location(found.layout.location, partition.location):
            location = qualify_location(partition.location, table.layout.location)
            columns = _columns_owed(found, table)
            changed.append(PartitionChange(names[values], values, location, columns))
        elif columns := _columns_owed(found, table):
            changed.append(PartitionChange(names[values], values, columns=columns))
        elif STATS_ACCURATE in found.parameters:
            changed.append(PartitionChange(names[values], values))
    client.alter_partitions(table.database, table.name, changed, at_once=at_once)
    return missing


def _add(
    client: TableCatalog,
    table: MetastoreTable,
    missing: list[NewPartition],
    parked: list[ParkedPartition],
) -> None:
    outcome = client.add_partitions(table.database, table.name, missing)
    parked.extend(
        ParkedPartition(item.values, f"the metastore refuses it: {item.reason}")
        for item in outcome.rejected
    )
    if outcome.existed:
        # Another process was faster: its partition has to be checked like any other.
        wanted = {item.values: DesiredPartition(item.values, item.location) for item in missing}
        _compare(client, table, {values: wanted[values] for values in outcome.existed}, parked)


def _columns_owed(found: HivePartition, table: MetastoreTable) -> tuple[HiveColumn, ...] | None:
    """The table's columns, for a partition that has fewer; None where it has them all."""
    return table.layout.columns if found.layout.lacks_columns(table.layout) else None


def _parking_reason(found: HivePartition, desired: DesiredPartition, table: MetastoreTable) -> str:
    """Why the metastore's partition must be left alone; empty when it is as desired."""
    reasons = list(found.layout.differences(table.layout, narrower=True))
    here = same_location(found.layout.location, desired.location)
    if not here and not _was_ours(found, desired):
        reasons.append(f"location is {found.layout.location}, expected {desired.location}")
    if not reasons and file_settings(found.layout, table.parameters) != file_settings(
        table.layout, table.parameters
    ):
        reasons.append("its SerDe has other delimiters or another schema than the table's")
    return "; ".join(reasons)


def _was_ours(found: HivePartition, desired: DesiredPartition) -> bool:
    """Whether this ledger has given the partition the folder that it has."""
    places = (desired.location, desired.first or desired.location)
    location = found.layout.location
    moves = desired.moves and normalise_location(desired.moves)
    if desired.moves.endswith("/"):
        # A folder: its neighbours may have names that begin like its own.
        moves = f"{moves}/"
    return any(same_location(location, place) for place in places) or bool(
        moves and normalise_location(location).startswith(moves)
    )
