"""What a route says of its table, as plain values: to every sink, Hive or not."""

from dataclasses import dataclass, replace
from typing import Final

from sluiceway.errors import TableNotFoundError
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.lake_options import LakeOptions
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.types.schema import Schema

FOLDER: Final = "folder:"
"""What the address of a catalog in a folder begins with."""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column; `hive_type` is `string` for one made from the event time."""

    name: str
    hive_type: str = "string"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """A table to write.

    Attributes:
        metastore: `thrift://host:port`, several separated by commas; or `folder:` and a place.
        database: Its database.
        table: Its name.
        schema: Columns with the meta columns, without partition columns; None takes them from
            the table, which must exist then.
        partition_columns: Partition columns in path order; checked against a table that exists.
        create: Create database and table when missing.
        location: Where a created table lies; None: where the metastore puts it. A table that
            exists must lie there.
        create_location: Whether folders above the table's are made where they are missing.
        file_format: Format of a created table, which an existing table must have; None: Parquet, or
            what the table has.
        compression: Where the table's own properties name none; None: the format's default.
        parquet_timestamps: `int96` or `micros`; None: by the metastore's version.
        timeout_s: Longest wait for an answer of the metastore.
        follows: Columns of the table that `schema` does not have are filled too, and structs may
            have further fields.
        metastore_options: How the metastore is reached, in addition to its address.
        stores: How the store that it lies on is reached.
        lake: What it is as a lake table; None for a Hive table.
        columns_of_sql: Whether `schema` is None until the SQL of the route has said its columns.
        adds: Columns of `schema` that the table does not have are added by who holds its ledger.
        copied: Whether other rooms have copies of the table, each with a catalog of its own.
    """

    metastore: str
    database: str
    table: str
    schema: Schema | None
    partition_columns: tuple[PartitionColumn, ...]
    create: bool = True
    location: str | None = None
    create_location: bool = False
    file_format: FileFormat | None = None
    compression: str | None = None
    parquet_timestamps: str | None = None
    timeout_s: float = 60.0
    follows: bool = False
    adds: bool = False
    columns_of_sql: bool = False
    copied: bool = False
    lake: LakeOptions | None = None
    metastore_options: tuple[tuple[str, str], ...] = ()
    stores: Stores = NO_STORES

    @property
    def keeps_case(self) -> bool:
        """Whether the catalog keeps names apart that differ in letter case only."""
        return self.lake is not None and self.lake.keeps_case

    def named(self, name: str) -> "TableOptions":
        """The same for the table of this name, spelt as the catalog keeps it.

        Args:
            name: `database.table`, or `a.b.table` of a nested namespace.
        """
        database, _, table = (name if self.keeps_case else name.lower()).rpartition(".")
        return replace(self, database=database, table=table)


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A Hive table that is read, as its catalog has it.

    Attributes:
        columns: Names and Hive's type texts of its data columns.
        partition_columns: Likewise, in path order.
        file_format: Format of its files; None for an unknown one.
        created_at_s: When it was created, seconds since the epoch.
    """

    columns: tuple[tuple[str, str], ...]
    partition_columns: tuple[tuple[str, str], ...]
    file_format: FileFormat | None
    location: str
    created_at_s: int


def table_not_found(options: TableOptions) -> TableNotFoundError:
    """The error for a table that the metastore does not have; the hint says how it gets there."""
    message = "the table does not exist"
    if options.schema is None and not options.columns_of_sql:
        message = f"{message}, so its columns cannot be taken from it"
        hint = "create it, or declare the columns in the job file"
    elif options.create:
        hint = "`sluiceway run JOB` creates it; if that runs, its log says what it waits for"
    else:
        hint = "create it, or write create: if_missing for `sluiceway run JOB` to do so"
    return TableNotFoundError(message, where=f"{options.database}.{options.table}", hint=hint)
