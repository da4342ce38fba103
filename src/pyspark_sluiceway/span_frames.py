"""Rows of file spans by Spark's own reader of Parquet: none of them passes through Python."""

from pathlib import PurePosixPath

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sluiceway.errors import NotInThisVersionError
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.files.reading import format_by_name
from sluiceway.sinks.partition_path import DEFAULT_PARTITION, parse_partition_folder

_NAME, _ROW, _FIRST, _STOP = "_sw_name", "_sw_row", "_sw_first", "_sw_stop"


def read_spans(spans: DataFrame, schema: str) -> DataFrame:
    """The rows of file spans, each once. Called in `foreachBatch`.

    A file may hold other rows too: after a compaction it holds rows of many slots. So a row is
    taken by its number in the file.

    Args:
        spans: Rows of `option("content", "files")`; collected on the driver.
        schema: Columns of the table with its partition columns, as Spark's DDL.

    Returns:
        The columns of `schema`, in its order.

    Raises:
        NotInThisVersionError: The files are not Parquet, which alone numbers its rows in Spark.
    """
    spark = spans.sparkSession
    wanted = StructType.fromDDL(schema)
    found = spans.select("path", "first_row", "rows", "partition").collect()
    other = next((row.path for row in found if not _is_parquet(row.path)), None)
    if other is not None:
        raise NotInThisVersionError("rows of spans are read from Parquet files", where=other)
    values = [_values(row.partition) for row in found]
    folders = sorted({name for each in values for name in each})
    ours = {name.lower() for name in folders}
    inside = StructType([each for each in wanted if each.name.lower() not in ours])
    texts = [StructField(name, StringType()) for name in (_NAME, *folders)]
    numbers = [StructField(name, LongType()) for name in (_FIRST, _STOP)]
    of_spans = spark.createDataFrame(
        [
            (
                PurePosixPath(row.path).name,
                *(each.get(name) for name in folders),
                row.first_row,
                row.first_row + row.rows,
            )
            for row, each in zip(found, values, strict=True)
        ],
        StructType([*texts, *numbers]),
    )
    paths = sorted({row.path for row in found})
    if not paths:
        return spark.createDataFrame([], wanted)
    rows = spark.read.schema(inside).parquet(*paths)
    rows = rows.select(
        "*", f.col("_metadata.file_name").alias(_NAME), f.col("_metadata.row_index").alias(_ROW)
    )
    rows = rows.join(f.broadcast(of_spans), _NAME)
    rows = rows.where((f.col(_ROW) >= f.col(_FIRST)) & (f.col(_ROW) < f.col(_STOP)))
    return rows.select(
        [f.col(f"`{each.name}`").cast(each.dataType).alias(each.name) for each in wanted]
    )


def _is_parquet(path: str) -> bool:
    return format_by_name(path) is FileFormat.PARQUET


def _values(partition: str) -> dict[str, str | None]:
    pairs = parse_partition_folder(partition)
    return {name: None if value in ("", DEFAULT_PARTITION) else value for name, value in pairs}
