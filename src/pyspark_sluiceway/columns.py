"""Columns of a table as Spark has them."""

from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_sluiceway.options import ReadOptions
from sluiceway.driver.spark.sql_types import spark_type
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.registry import open_sink
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Schema

SLOT, PLACE = "_sw_slot", "_sw_place"
META = (StructField(SLOT, LongType()), StructField(PLACE, LongType()))
SPAN_COLUMNS = (
    StructField("path", StringType()),
    StructField("first_row", LongType()),
    StructField("rows", LongType()),
    StructField("partition", StringType()),
    StructField("slot", LongType()),
)


def spark_schema(config: RouteConfig, options: ReadOptions) -> StructType:
    """Columns as Spark has them: the table's, its partition columns, `_sw_*`.

    Raises:
        WrongUsageError: A column that is asked for does not exist.
        SluicewayError: The table has to be asked for its columns, and cannot be.
    """
    if options.files:
        return StructType([*SPAN_COLUMNS])
    kinds = [(each.name, each.type) for each in _schema(config).fields]
    kinds += [
        (each.name, parse_hive_type(each.hive_type)) for each in config.table.partition_columns
    ]
    columns = [StructField(name, spark_type(kind)) for name, kind in kinds]
    if options.columns:
        by_name = {each.name.lower(): each for each in columns}
        unknown = [name for name in options.columns if name.lower() not in by_name]
        if unknown:
            raise WrongUsageError(
                f"the table has no column {', '.join(unknown)}",
                hint=f"its columns: {', '.join(name for name, _ in kinds)}",
            )
        columns = [by_name[name.lower()] for name in options.columns]
    return StructType([*columns, *(META if options.meta else ())])


def _schema(config: RouteConfig) -> Schema:
    """Data columns; the catalog is asked only where the job file does not say all of them."""
    if config.table.schema is not None and not config.table.follows:
        return config.table.schema
    sink = open_sink(config.catalog, config.table)
    try:
        return sink.inspect().state().schema
    finally:
        sink.close()
