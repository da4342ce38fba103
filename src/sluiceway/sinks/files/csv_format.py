"""CSV as Hive's OpenCSVSerde reads it: one line a row, every column text, no null.

Source: Hive `OpenCSVSerde`, opencsv 2.3 `CSVParser`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.contract import FileChoice, TableFormat
from sluiceway.sinks.files.line_file import CODEC_ENDINGS, LineStagedFile
from sluiceway.sinks.files.plain_text import escaped, has_unescaped
from sluiceway.sinks.files.row_masks import Mask, either, null_mask
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow

SEPARATOR = "separatorChar"
QUOTE = "quoteChar"
ESCAPE = "escapeChar"
CSV_SETTINGS = (SEPARATOR, QUOTE, ESCAPE)
_DEFAULT_ESCAPE = "\\"
_UNFIT = "the table's CSV has no null and no line break within a value"


@dataclass(frozen=True, slots=True)
class CsvRules:
    """Characters of a table's CSV."""

    separator: str
    quote: str
    escape: str


def csv_rules(settings: Mapping[str, str]) -> CsvRules:
    """Read the SerDe's properties as Hive does.

    Raises:
        ValueError: Values could not be kept apart; says why.
    """
    separator = (settings.get(SEPARATOR) or ",")[0]
    quote = (settings.get(QUOTE) or '"')[0]
    escape = (settings.get(ESCAPE) or _DEFAULT_ESCAPE)[0]
    if escape == '"':
        # Hive then lets its CSV library use its own default.
        escape = _DEFAULT_ESCAPE
    rules = CsvRules(separator, quote, escape)
    characters = (separator, quote, escape)
    if len(set(characters)) != len(characters):
        raise ValueError("separatorChar, quoteChar and escapeChar are not three characters")
    for one in characters:
        if one in "\n\r\0" or not one.isascii():
            raise ValueError(f"{one!r} cannot be written as a delimiter of CSV")
    return rules


class CsvFileFormat(TableFormat):
    """CSV; all columns are strings.

    Args:
        schema: Schema of every batch.
        choice: Compression, the table's columns, and its SerDe's properties.

    Raises:
        ValueError: The properties allow no rows that can be kept apart.
    """

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self.extension = f".csv{CODEC_ENDINGS[choice.compression]}"
        self._arrangement = ColumnMapping(schema, choice.columns)
        self._rules = csv_rules(dict(choice.settings))
        self._compression = choice.compression

    def new_file(self, writer: StagedWriter) -> LineStagedFile:
        """See `TableFormat.new_file`."""
        return LineStagedFile(writer, self._arrangement, self._lines, self._compression)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`."""
        return unfit_rows(rows, [_unfit] * rows.num_columns, _UNFIT)

    def footer_rows(self, handle: BinaryIO) -> None:
        """See `TableFormat.footer_rows`: lines have none."""
        del handle

    def _lines(self, rows: pa.RecordBatch) -> Any:
        columns = [self._quoted(column) for column in rows.columns]
        return pc.binary_join_element_wise(
            pc.binary_join_element_wise(*columns, self._rules.separator), "", "\n"
        )

    def _quoted(self, values: Any) -> Any:
        rules = self._rules
        # Null is only what the rows have no column for: readers find an empty text there.
        texts = pc.fill_null(values.cast(pa.string()), "")
        text = escaped(texts, rules.escape + rules.quote, rules.escape)
        return pc.binary_join_element_wise(rules.quote, text, rules.quote, "")


def _unfit(values: Any) -> Mask | None:
    if pa.types.is_null(values.type):
        return null_mask(values)
    broken = has_unescaped(values, "\n\r")
    nulls = null_mask(values) if values.null_count else None
    found = either([broken, nulls])
    return found if found is not None and found.any() else None
