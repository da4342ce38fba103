"""All checks of one route's table, in order."""

from sluiceway.audit.dirty_table_check import Found, dirty_table_problems
from sluiceway.audit.identity_check import identity_problems
from sluiceway.audit.late_table_check import late_table_problems
from sluiceway.audit.offset_check import origin_columns
from sluiceway.audit.open_table import OpenTable, open_table, refuse_foreign_table
from sluiceway.audit.pick_route import pick_route
from sluiceway.audit.verify import Verifier, VerifyReport
from sluiceway.catalog.hive_table import HivePartition
from sluiceway.config.compile import compile_routes
from sluiceway.config.config import RouteConfig
from sluiceway.errors import TableMismatchError
from sluiceway.followers.late_follow import late_table_of
from sluiceway.route.clients import open_source
from sluiceway.route.dirty_stores import dirty_table_of
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.sinks.hive.table import LEDGER_PROPERTY
from sluiceway.sinks.hive.table_check import file_choice, schema_of
from sluiceway.sinks.partition_path import catalog_values, partition_folder
from sluiceway.spec.models import JobSpec
from sluiceway.storage.access import Stores
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage


def verify_job(spec: JobSpec, *, deep: bool) -> VerifyReport:
    """Verify a job that has one route, with listed topics; see `verify_route`.

    Raises:
        JobFileError: It has more routes.
        SluicewayError: Something could not be asked; nothing is concluded then.
    """
    return verify_route(pick_route(compile_routes(spec).routes, None), deep=deep)


def verify_route(config: RouteConfig, *, deep: bool) -> VerifyReport:
    """Compare a route's ledger with its files, its broker and its metastore. Changes nothing.

    Args:
        config: The route.
        deep: Also read every file whole and compare its checksum.

    Raises:
        LedgerMismatchError: Another job or route fills the table.
        SluicewayError: Something could not be asked; nothing is concluded then.
    """
    if config.hive.lake is not None:
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
            choice=_file_choice(table),
        )
        verifier.expires = config.dirty_keep_ms is not None
        verifier.check_table()
        for where, message in identity_problems(
            table.storage, table.layout, verifier.fold, table.table, config
        ):
            verifier.report.add("identity", where, message)
        _check_partitions(table, verifier)
        _check_side_tables(table, verifier)
        source = open_source(table.config)
        try:
            verifier.check_source(source)
        finally:
            source.close()
    finally:
        table.metastore.close()
    return verifier.report


def _file_choice(table: OpenTable) -> FileChoice:
    """How the table's files are written; what is wrong with the table is told elsewhere."""
    try:
        wanted = table.config.hive.schema or schema_of(table.table)
        return file_choice(table.table, table.config.hive, wanted)
    except TableMismatchError:
        return PARQUET_FILES


def _check_side_tables(table: OpenTable, verifier: Verifier) -> None:
    """Tables of dirty and of late rows, beside the route's own."""
    first = verifier.fold.first_fence
    if first is None:
        return
    report, config = verifier.report, table.config
    found: list[Found] = []
    copies = dirty_table_of(config, table.storage, first.ledger)
    if copies is not None:
        files = verifier.dirty.files.values()
        found += dirty_table_problems(copies, table.storage, files, deep=report.deep)
    late = late_table_of(config, table.layout, table.table.parameters.get(LEDGER_PROPERTY, ""))
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
    hive = table.config.hive
    columns = [rule.name for rule in table.config.partitions]
    values = [state.values for state in verifier.partitions() if state.values]
    names = [partition_folder(columns, each) for each in values]
    found = table.metastore.get_partitions(hive.database, hive.table, names)
    ready = table.config.ready
    verifier.check_partitions(
        {key: _place(partition, table.config.stores) for key, partition in found.items()},
        catalog_values,
        on_ready=ready is not None and ready.on_ready,
    )
    for partition in found.values():
        for difference in partition.layout.differences(table.table.layout):
            verifier.report.add("partition", "/".join(partition.values), difference)
    others = {*table.metastore.list_partition_names(hive.database, hive.table)} - {*names}
    foreign = table.metastore.get_partitions(hive.database, hive.table, sorted(others))
    verifier.check_foreign_partitions(
        {key: _place(each, table.config.stores) for key, each in foreign.items()}
    )


def _place(partition: HivePartition, stores: Stores) -> str:
    return open_storage(normalise_location(partition.layout.location), stores)[1]
