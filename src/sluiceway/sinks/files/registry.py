"""Which file formats there are, what each allows, and how a task opens one."""

from collections.abc import Mapping
from importlib import import_module

import pyarrow as pa

from sluiceway.sinks.files.contract import FileChoice, FileFormat, TableFormat

# Named, not imported: a table has one of them.
_KINDS: Mapping[FileFormat, str] = {
    FileFormat.PARQUET: "parquet_file:ParquetFormat",
    FileFormat.ORC: "orc_file:OrcFormat",
    FileFormat.TEXT: "hive_text:TextFormat",
    FileFormat.JSON: "json_format:JsonFileFormat",
    FileFormat.CSV: "csv_format:CsvFileFormat",
    FileFormat.AVRO: "avro_file:AvroFileFormat",
}


def open_format(schema: pa.Schema, choice: FileChoice) -> TableFormat:
    """A table's format, for batches of one schema. Called once a task, and at a route's start.

    Args:
        schema: Schema of every batch.
        choice: What the table wants.

    Raises:
        ValueError: Rows cannot be written so that they are read back; says why.
    """
    module, _, name = _KINDS[choice.format].partition(":")
    opened: TableFormat = getattr(import_module(f"{__package__}.{module}"), name)(schema, choice)
    return opened
