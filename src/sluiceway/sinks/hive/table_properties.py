"""Properties of a Hive table by which readers take its files for what they are not.

Rows are written without buckets, in no order, into folders that the metastore names. A property
that promises otherwise is refused by its name. Values only, no I/O.
"""

from collections.abc import Callable, Mapping

from sluiceway.catalog.hive_table import MetastoreTable
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.storage.locations import same_location

_PROVIDER = "spark.sql.sources.provider"
_PARTITIONS_BY = "spark.sql.partitionprovider"
_SPARK_FORMATS = ("parquet", "orc")
_UNSET = "unset it, or name a new table"


def _is_set(value: str) -> bool:
    return value not in ("", "0")


def _is_true(value: str) -> bool:
    return value.lower() == "true"


# Sources: Spark `HiveExternalCatalog`, `FileSourceOptions`, `ParquetOptions`; Hive
# `TimestampParser`; Trino `PartitionProjectionProperties`.
_REFUSED: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "spark.sql.sources.schema.numbuckets": (_is_set, "Spark would take its files for buckets"),
    "spark.sql.sources.schema.numbucketcols": (_is_set, "Spark would take its files for buckets"),
    "spark.sql.sources.schema.numsortcols": (_is_set, "Spark would take its files as sorted"),
    "projection.enabled": (
        _is_true,
        "Trino and Athena would make up its partitions' folders and not ask the metastore",
    ),
    "parquet.mr.int96.write.zone": (
        lambda value: value.upper() not in ("", "UTC", "Z", "ETC/UTC"),
        "readers would shift its timestamps, which are UTC",
    ),
    "timestamp.formats": (bool, "readers would read its timestamps by another pattern"),
    "pathglobfilter": (bool, "Spark would leave out files by their names"),
    "modifiedbefore": (bool, "Spark would leave out files by their age"),
    "modifiedafter": (bool, "Spark would leave out files by their age"),
    "recursivefilelookup": (_is_true, "Spark would read folders that are no partitions"),
    "datetimerebasemode": (
        lambda value: value.upper() not in ("", "CORRECTED"),
        "Spark would shift days before 1582",
    ),
    "int96rebasemode": (
        lambda value: value.upper() not in ("", "CORRECTED"),
        "Spark would shift moments before 1582",
    ),
}


def refused_property(
    table: MetastoreTable, file_format: FileFormat | None
) -> tuple[str, str] | None:
    """Which property of a table changes what readers make of its files, and what to do.

    Args:
        table: As the metastore has it.
        file_format: Of its files.

    Returns:
        None when there is no such property.
    """
    layout = table.layout
    said = {
        name.lower(): (name, value)
        for held in (table.parameters, layout.storage_parameters, layout.serde_parameters)
        for name, value in held.items()
    }
    for name, (is_refused, why) in _REFUSED.items():
        if name in said and is_refused(said[name][1]):
            return f"it has {said[name][0]}={said[name][1]}: {why}", _UNSET
    return _refused_by_spark(table, file_format, {key: value for key, (_, value) in said.items()})


def _refused_by_spark(
    table: MetastoreTable, file_format: FileFormat | None, said: Mapping[str, str]
) -> tuple[str, str] | None:
    """What Spark's own tables say besides their columns."""
    provider = said.get(_PROVIDER, "").lower()
    if provider not in _SPARK_FORMATS:
        return None
    if provider != file_format:
        return f"Spark reads its files as {provider}, and they are {file_format}", _UNSET
    path = said.get("path")
    if path and not same_location(path, table.layout.location):
        return (
            f"Spark reads it at {path}, its property path, and it lies at {table.layout.location}",
            "make both the same",
        )
    if table.partition_columns and said.get(_PARTITIONS_BY, "").lower() != "catalog":
        return (
            "Spark looks for its partitions in folders and not in the metastore",
            "run MSCK REPAIR TABLE on it in Spark, which sets spark.sql.partitionProvider=catalog",
        )
    return None
