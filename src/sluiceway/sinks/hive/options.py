"""What a route says of its Hive table, as plain values."""

from dataclasses import dataclass

from sluiceway.types.schema import Schema


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column; `hive_type` is `string` for one made from the event time."""

    name: str
    hive_type: str = "string"


@dataclass(frozen=True, slots=True)
class HiveTableOptions:
    """A table to write.

    Attributes:
        metastore: `thrift://host:port`, several separated by commas.
        database: Its database.
        table: Its name.
        schema: Columns with the meta columns, without partition columns; None takes them from
            the table, which must exist then.
        partition_columns: In path order; checked against a table that exists.
        create: Create database and table when missing.
        location: Where a created table lies; None: where the metastore puts it. A table that
            exists must lie there.
        compression: `zstd`, `snappy` or `gzip`, for a created table.
        timeout_s: Longest wait for an answer of the metastore.
    """

    metastore: str
    database: str
    table: str
    schema: Schema | None
    partition_columns: tuple[PartitionColumn, ...]
    create: bool = True
    location: str | None = None
    compression: str = "zstd"
    timeout_s: float = 60.0
