"""All checks of one route's table, in order."""

from collections.abc import Iterable, Iterator, Mapping

from sluiceway.audit.dirty_table_check import Found, dirty_table_problems
from sluiceway.audit.format_times import counted
from sluiceway.audit.offset_check import origin_columns
from sluiceway.audit.open_table import (
    OpenTable,
    identity_problems,
    open_table,
    refuse_foreign_table,
)
from sluiceway.audit.verify import Verifier, VerifyReport
from sluiceway.errors import SluicewayError
from sluiceway.followers.late_follow import late_table_of
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.route.clients import open_source
from sluiceway.route.dirty_stores import dirty_table_of
from sluiceway.sinks.contract import ShownPartition
from sluiceway.sinks.partition_path import catalog_values
from sluiceway.sinks.side_tables import LateRowsTable
from sluiceway.storage.access import Stores
from sluiceway.storage.locations import normalise_location, same_location
from sluiceway.storage.registry import open_storage


def late_table_problems(
    table: LateRowsTable, layout: LedgerLayout, files: Iterable[FileRecord]
) -> Iterator[Found]:
    """Compare the late files with what readers of the table see; closes the table.

    Partitions that readers do not see are not published yet, or were dropped. The rows are in the
    late place all the same.

    Args:
        table: The table over the late place.
        layout: Layout of the route's own table.
        files: All late files that the records name.
    """
    try:
        if not table.find():
            yield "", str(table), "the table of late rows is not there yet"
            return
        yield from _problems(table, layout, files)
    except SluicewayError as error:
        yield "", str(table), f"the table of late rows: {error}"
    finally:
        table.close()


def _problems(
    table: LateRowsTable, layout: LedgerLayout, files: Iterable[FileRecord]
) -> Iterator[Found]:
    folders = {
        catalog_values(file.values): layout.final(file.final).rpartition("/")[0]
        for file in files
        if file.values
    }
    shown = table.shown()
    for values, location in sorted(shown.items()):
        wanted = folders.get(values)
        if wanted is None or not same_location(location, wanted):
            where = f"{table} {'/'.join(values)}"
            yield "late table", where, f"shows {location}, expected {wanted or 'no such partition'}"
    unseen = len(folders.keys() - shown.keys())
    if unseen:
        yield "", str(table), f"not seen there: {counted(unseen, 'partition')} of late rows"


def verify_route(config: RouteConfig, *, deep: bool) -> VerifyReport:
    """Compare a route's ledger with its files, its broker and its catalog. Changes nothing.

    Args:
        config: The route.
        deep: Also read every file whole and compare its checksum.

    Raises:
        LedgerMismatchError: Another job or route fills the table.
        SluicewayError: Something could not be asked; nothing is concluded then.
    """
    if config.table.lake is not None:
        # Clients of lake catalogs take a second to import.
        from sluiceway.audit.lake_verify import verify_lake  # noqa: PLC0415

        return verify_lake(config, deep=deep)
    table = open_table(config)
    try:
        refuse_foreign_table(table)
        verifier = Verifier(
            table.storage,
            table.layout,
            deep=deep,
            origin=origin_columns({column.part: column.column for column in table.config.meta}),
            columns=[rule.name for rule in config.partitions],
            choice=table.table.files(),
        )
        verifier.expires = config.dirty_keep_ms is not None
        verifier.check_table()
        for where, message in identity_problems(
            table.storage, table.layout, verifier.fold, table.table, config
        ):
            verifier.report.add("identity", where, message)
        _check_partitions(table, verifier)
        _check_side_tables(table, verifier)
        source = open_source(table.config.at(verifier.fold))
        try:
            verifier.check_source(source)
        finally:
            source.close()
    finally:
        table.close()
    return verifier.report


def _check_side_tables(table: OpenTable, verifier: Verifier) -> None:
    """Check the tables of dirty and of late rows."""
    first = verifier.fold.first_fence
    if first is None:
        return
    report, config = verifier.report, table.config
    found: list[Found] = []
    copies = dirty_table_of(config, table.storage, first.ledger)
    if copies is not None:
        files = verifier.dirty.files.values()
        found += dirty_table_problems(copies, table.storage, files, deep=report.deep)
    late = late_table_of(config, table.layout, table.table.ledger or "")
    if late is not None:
        of_late = list(late_table_problems(late, table.layout, verifier.late))
        if all(kind for kind, _, _ in of_late):
            report.late_table = str(late)
        found += of_late
    for kind, where, message in found:
        if kind:
            report.add(kind, where, message)
        else:
            report.unchecked.append(f"{where}: {message}")


def _check_partitions(table: OpenTable, verifier: Verifier) -> None:
    if not table.config.partitions:
        return
    wanted = [catalog_values(each.values) for each in verifier.partitions() if each.values]
    found = table.table.partitions(wanted)
    ready = table.config.ready
    verifier.check_partitions(
        _places(found, table.config.stores),
        catalog_values,
        on_ready=ready is not None and ready.on_ready,
    )
    for values, partition in found.items():
        for difference in partition.differences:
            verifier.report.add("partition", "/".join(values), difference)
    foreign = table.table.other_partitions(wanted)
    verifier.check_foreign_partitions(_places(foreign, table.config.stores))


def _places(
    shown: Mapping[tuple[str, ...], ShownPartition], stores: Stores
) -> dict[tuple[str, ...], str]:
    """Absolute folders, as the store names them."""
    return {
        values: open_storage(normalise_location(partition.location), stores)[1]
        for values, partition in shown.items()
    }
