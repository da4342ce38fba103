"""Which files readers of a lake table have to read, as its newest snapshot says."""

from sluiceway.audit.table_files import ListedTableFile, TableFiles
from sluiceway.errors import NotInThisVersionError, TableNotFoundError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.places import is_below
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.sinks.iceberg.publish.lake_table import LEDGER_PROPERTY
from sluiceway.sinks.iceberg.through import read_through
from sluiceway.storage.locations import normalise_location


def lake_files(config: RouteConfig, below: str = "") -> TableFiles:
    """The live data files of a lake table, those of other writers too. Changes nothing.

    Args:
        config: The route.
        below: A partition, or a folder above some; empty for the whole table.

    Raises:
        TableNotFoundError: The catalog does not have the table.
        NotInThisVersionError: Some files have deleted rows, which a list of files cannot say.
        MetastoreUnavailableError: The catalog does not answer.
    """
    where = f"{config.hive.database}.{config.hive.table}"
    catalog = open_catalog(dict(config.catalog.options), config.hive.timeout_s)
    try:
        table = catalog.load((config.hive.database, config.hive.table))
        if table is None:
            raise TableNotFoundError(
                "the catalog does not have the table",
                where=where,
                hint="`sluiceway run JOB` creates it; until then there is nothing to look at",
            )
        metadata = table.metadata
        ledger = metadata.properties.get(LEDGER_PROPERTY, "").partition("@")[0]
        through = read_through(metadata.properties, ledger, where=where)
        name, found = below.strip("/"), []
        for task in table.scan().plan_files():
            if task.delete_files:
                raise NotInThisVersionError(
                    "files of the table have deleted rows, which a list of files does not tell",
                    where=where,
                    hint="read it with an engine that knows Iceberg",
                )
            file = task.file
            spec = metadata.specs()[file.spec_id]
            partition = spec.partition_to_path(file.partition, metadata.schema())
            if name and not is_below(partition, name):
                continue
            values = tuple(part.partition("=")[2] for part in partition.split("/") if part)
            path = str(file.file_path)
            path = normalise_location(path) if path.startswith("file:") else path
            size, rows = file.file_size_in_bytes, file.record_count
            found.append(ListedTableFile(partition, values, path, int(rows), int(size)))
    finally:
        catalog.close()
    return TableFiles(-1 if through is None else through.slot, tuple(found))
