"""JSON lines as Hive's JsonSerDe reads them: one object a row."""

import json
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.contract import FileChoice, TableFormat
from sluiceway.sinks.files.line_file import CODEC_ENDINGS, LineStagedFile
from sluiceway.sinks.files.old_times import between_calendars
from sluiceway.sinks.files.plain_text import joined, plain_text, with_nulls
from sluiceway.sinks.files.row_masks import (
    Mask,
    list_lengths,
    map_lengths,
    map_parts,
    unfit_mask,
    where_true,
)
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow

_UNFIT = "JSON has no NaN and no infinity, and its readers no day from 1582-10-05 to 1582-10-14"
_NULL = "null"
_BARE = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
_SPECIAL = r'[\x{00}-\x{1f}"\\\x{7f}\x{2028}\x{2029}]'


class JsonFileFormat(TableFormat):
    """JSON lines, keys as the table's columns; nulls are written.

    Args:
        schema: Schema of every batch.
        choice: Compression, and the table's columns.
    """

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self.extension = f".json{CODEC_ENDINGS[choice.compression]}"
        self._arrangement = ColumnMapping(schema, choice.columns)
        self._compression = choice.compression

    def new_file(self, writer: StagedWriter) -> LineStagedFile:
        """See `TableFormat.new_file`."""
        return LineStagedFile(writer, self._arrangement, json_lines, self._compression)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`."""
        return unfit_rows(rows, [_unfit] * rows.num_columns, _UNFIT)

    def footer_rows(self, handle: BinaryIO) -> None:
        """See `TableFormat.footer_rows`: lines have none."""
        del handle


def json_lines(rows: pa.RecordBatch) -> Any:
    """Each row as an object on a line of its own, the line's end included."""
    objects = _object(rows.schema.names, rows.columns)
    return pc.binary_join_element_wise(objects, "", "\n")


def _unfit(values: Any) -> Mask | None:
    return unfit_mask(values, _read_otherwise)


def _read_otherwise(values: Any) -> Mask | None:
    if not pa.types.is_floating(values.type):
        return between_calendars(values)
    return where_true(pc.invert(pc.is_finite(values)))


def _object(names: list[str], columns: list[Any]) -> Any:
    parts = []
    for number, (name, values) in enumerate(zip(names, columns, strict=True)):
        opening = "{" if number == 0 else ","
        parts += [f"{opening}{json.dumps(name, ensure_ascii=False)}:", _filled(values)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _filled(values: Any) -> Any:
    return pc.fill_null(_texts(values), _NULL)


def _texts(values: Any) -> Any:
    """JSON of values; null for null."""
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.string())
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return with_nulls(_object(names, values.flatten()), values)
    if pa.types.is_list(kind):
        inner = joined(_filled(values.flatten()), list_lengths(values), ",")
        return with_nulls(pc.binary_join_element_wise("[", inner, "]", ""), values)
    if pa.types.is_map(kind):
        keys, items = map_parts(values)
        entries = pc.binary_join_element_wise(_quoted(plain_text(keys)), _filled(items), ":")
        inner = joined(entries, np.asarray(map_lengths(values)), ",")
        return with_nulls(pc.binary_join_element_wise("{", inner, "}", ""), values)
    texts = plain_text(values)
    return texts if any(is_bare(kind) for is_bare in _BARE) else _quoted(texts)


def _quoted(texts: Any) -> Any:
    special = where_true(pc.match_substring_regex(texts, _SPECIAL))
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    if not special.any():
        return quoted
    mask = pa.array(special)
    written = [json.dumps(text, ensure_ascii=False) for text in texts.filter(mask).to_pylist()]
    return pc.replace_with_mask(quoted, mask, pa.array(written, pa.string()))
