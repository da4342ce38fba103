"""Which file formats there are, what each allows, and how a task opens one."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from sluiceway.sinks.files.avro_file import AvroFormat
from sluiceway.sinks.files.contract import FileChoice, FileFormat, TableFormat
from sluiceway.sinks.files.csv_format import CsvFormat
from sluiceway.sinks.files.json_format import JsonFormat
from sluiceway.sinks.files.orc_file import OrcFormat
from sluiceway.sinks.files.parquet_file import ParquetFormat
from sluiceway.sinks.files.text_format import TextFormat

_KINDS: Mapping[FileFormat, Callable[[pa.Schema, FileChoice], TableFormat]] = {
    FileFormat.PARQUET: ParquetFormat,
    FileFormat.ORC: OrcFormat,
    FileFormat.TEXT: TextFormat,
    FileFormat.JSON: JsonFormat,
    FileFormat.CSV: CsvFormat,
    FileFormat.AVRO: AvroFormat,
}


def open_format(schema: pa.Schema, choice: FileChoice) -> TableFormat:
    """A table's format, for batches of one schema. Called once a task, and at a route's start.

    Args:
        schema: Of every batch.
        choice: What the table wants.

    Raises:
        ValueError: Rows cannot be written so that they are read back; says why.
    """
    return _KINDS[choice.format](schema, choice)
