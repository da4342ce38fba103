"""Hive text as a table's file format."""

from typing import BinaryIO

import pyarrow as pa

from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.contract import FileChoice, TableFormat
from sluiceway.sinks.files.hive_text import HiveText, text_rules
from sluiceway.sinks.files.line_file import CODEC_ENDINGS, LineStagedFile
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow

_UNFIT = (
    "the table's text would be read back as another value: see its delimiters and null format; "
    "and a day from 1582-10-05 to 1582-10-14 is another one to readers of text"
)


class TextFormat(TableFormat):
    """`STORED AS TEXTFILE`: delimited lines of LazySimpleSerDe.

    Args:
        schema: Schema of every batch.
        choice: Compression, the table's columns, and its SerDe's properties.

    Raises:
        ValueError: The properties allow no rows that can be kept apart.
    """

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self.extension = f".txt{CODEC_ENDINGS[choice.compression]}"
        self._arrangement = ColumnMapping(schema, choice.columns)
        self._text = HiveText(text_rules(dict(choice.settings)))
        self._compression = choice.compression

    def new_file(self, writer: StagedWriter) -> LineStagedFile:
        """See `TableFormat.new_file`."""
        return LineStagedFile(writer, self._arrangement, self._text.lines, self._compression)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`."""
        return unfit_rows(rows, [self._text.unfit] * rows.num_columns, _UNFIT)

    def footer_rows(self, handle: BinaryIO) -> None:
        """See `TableFormat.footer_rows`: lines have none."""
        del handle
