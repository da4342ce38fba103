"""Delimited lines -> typed columns: converted by columns, unusual values one by one."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.arrow_columns import RecheckRows
from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import check_bytes
from sluiceway.convert.exact_values import compile_field
from sluiceway.convert.text_values import reads_bad_text
from sluiceway.formats.collected_rows import (
    CollectedRows,
    Rows,
    add_tombstones,
    count_tombstones,
)
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.csv.layout import LineLayout, read_layout
from sluiceway.formats.csv.lines import BYTE_ORDER_MARK, LineReader
from sluiceway.formats.csv.text_columns import compile_texts
from sluiceway.formats.native_rows import (
    NativeRowReader,
    column_kind,
    column_place,
    fetched_by_module,
    takes_text,
)
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.payloads import taken_out
from sluiceway.types.schema import Schema

BLOCK_ROWS = 8192
_BLOCK_BYTES = 64 * 1024 * 1024
_Texts = list[str | None]


class CsvDecoder(RowDecoder):
    """Decodes lines of fields, one a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; none of them a list, map or struct.
        options: Options of `layout.OPTIONS`.
        exact_only: Whether to decide every line on its own; the results are equal.
        native: Whether to use the native module, where it is installed and supports the columns;
            the results are equal.

    Raises:
        ValueError: Options or columns are not valid.
    """

    takes_any_sequence = True

    def __init__(
        self,
        schema: Schema,
        options: Mapping[str, str],
        *,
        exact_only: bool = False,
        native: bool = True,
    ) -> None:
        self._layout = read_layout(schema, options)
        self._schema = arrow_schema(schema)
        self._names = [field.name for field in schema.fields]
        self._required = [field.required for field in schema.fields]
        check_bytes(schema)
        self._exact = [compile_field(field, (field.name,)) for field in schema.fields]
        self._columns = [compile_texts(field) for field in schema.fields]
        self._lines = LineReader(self._layout)
        self._lenient = any(reads_bad_text(field.type, field.policy) for field in schema.fields)
        self._exact_only = exact_only
        self._native = native_lines(schema, self._layout) if native and not exact_only else None

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        collected = CollectedRows(self._schema)
        skipped = self._layout.skips_tombstones
        if self._native is not None and fetched_by_module(payloads):
            batch, kept, rows, empty = self._native.read_fetched(payloads, b"")
            collected.add(batch, kept)
            add_tombstones(empty.tolist(), collected, skipped=skipped)
            held = taken_out(payloads, rows)
            if held:
                self._decode_lines(held, rows, collected)
            return collected.decoded()
        rows = count_tombstones(payloads, collected, skipped=skipped)
        held = [payload for payload in payloads if payload]
        for start, end in _blocks(held):
            self._decode_block(held[start:end], rows[start:end], collected)
        return collected.decoded()

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """Fields that no column reads; a field without a name has its number, from 1."""
        try:
            fields = self._lines.fields(self._lines.text(payload, lenient=self._lenient))
        except DirtyValueError:
            return {}
        names, read = self._layout.names, set(self._layout.places)
        return {
            names[place] if place < len(names) else str(place + 1): text
            for place, text in enumerate(fields)
            if place not in read
        }

    def _decode_block(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> None:
        left = np.arange(len(payloads))
        if self._native is not None:
            batch, kept, left = self._native.read(payloads, ())
            collected.add(batch, rows[kept])
        elif not self._exact_only:
            plain, columns = _split(payloads, self._layout)
            if len(plain):
                self._convert(columns, rows[plain], collected)
                left = np.delete(left, plain)
        if len(left):
            self._decode_lines([payloads[row] for row in left.tolist()], rows[left], collected)

    def _decode_lines(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> None:
        lines: list[_Texts] = []
        kept: list[int] = []
        for row, payload in zip(rows.tolist(), payloads, strict=True):
            try:
                text = self._lines.text(payload, lenient=self._lenient)
                lines.append(self._selected(self._lines.fields(text)))
                kept.append(row)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        if not lines:
            return
        if self._exact_only or self._lenient:
            # Arrow's texts cannot hold bytes that are no UTF-8, which a column may keep.
            self._decide(lines, np.array(kept), collected)
        else:
            columns = [pa.array(texts, pa.string()) for texts in zip(*lines, strict=True)]
            self._convert(columns, np.array(kept), collected)

    def _selected(self, fields: _Texts) -> _Texts:
        """The texts of a line's fields that columns read."""
        layout, count = self._layout, len(fields)
        if layout.width is not None and count > layout.width and not layout.ignores_extra:
            message = f"the line has {count} fields, not {layout.width}"
            raise DirtyValueError(DirtyReason.UNEXPECTED_FIELD, message, stage="decode")
        if count < layout.needed and not layout.missing_are_null:
            hint = "; a backslash before a delimiter makes it text" if layout.backslash else ""
            message = f"the line has {count} fields, not {layout.needed}{hint}"
            raise DirtyValueError(DirtyReason.MISSING, message, stage="decode")
        return [fields[place] if place < count else None for place in layout.places]

    def _convert(self, texts: list[pa.Array], rows: Rows, collected: CollectedRows) -> None:
        marks = RecheckRows()
        for column, required in zip(texts, self._required, strict=True):
            if required and column.null_count:
                marks.suspect(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)))
        arrays = [
            convert(column, marks) for convert, column in zip(self._columns, texts, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        suspects = marks.suspects()
        if not len(suspects):
            collected.add(batch, rows)
            return
        sound = np.delete(np.arange(len(rows)), suspects)
        collected.add(batch.take(pa.array(sound)), rows[sound])
        odd = [column.take(pa.array(suspects)).to_pylist() for column in texts]
        self._decide([list(line) for line in zip(*odd, strict=True)], rows[suspects], collected)

    def _decide(self, lines: list[_Texts], rows: Rows, collected: CollectedRows) -> None:
        values: list[list[object]] = []
        clean: list[int] = []
        for row, texts in zip(rows.tolist(), lines, strict=True):
            holder = dict(zip(self._names, texts, strict=True))
            try:
                values.append([read(holder) for read in self._exact])
                clean.append(row)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        collected.add_values(values, clean)


def native_lines(schema: Schema, layout: LineLayout) -> NativeRowReader | None:
    """The native module's reader of lines; None where there is none. Called once a task."""
    module = native_module()
    places = [column_place(field) for field in schema.fields]
    if module is None or not all(map(takes_text, places)):
        return None
    kinds = zip(map(column_kind, places), schema.fields, strict=True)
    reader = module.CsvReader(
        [(kind, field.required) for kind, field in kinds],
        layout.places,
        delimiter=layout.delimiter.encode(),
        quote=layout.quote.encode(),
        backslash=layout.backslash,
        null_text=layout.null_text.encode(),
        least=0 if layout.missing_are_null else layout.needed,
        most=None if layout.ignores_extra else layout.width,
    )
    return NativeRowReader(schema, reader)


def _blocks(payloads: list[bytes]) -> list[tuple[int, int]]:
    """Cut payloads into blocks: at most so many rows, and so many bytes unless it is one row."""
    blocks, start, size = list[tuple[int, int]](), 0, 0
    for row, payload in enumerate(payloads):
        if row > start and (row - start == BLOCK_ROWS or size + len(payload) > _BLOCK_BYTES):
            blocks.append((start, row))
            start, size = row, 0
        size += len(payload)
    return [*blocks, (start, len(payloads))] if payloads else blocks


def _split(payloads: list[bytes], layout: LineLayout) -> tuple[Rows, list[pa.Array]]:
    """Split the lines that hold only fields and delimiters.

    Returns:
        Numbers of these lines, ascending, and their texts by column.
    """
    lines = pa.array(payloads, pa.binary())
    rows = np.arange(len(payloads))
    try:
        texts = lines.cast(pa.string())
    except pa.ArrowInvalid:
        rows = np.array([row for row in rows.tolist() if _is_utf8(payloads[row])], np.int64)
        texts = lines.take(pa.array(rows)).cast(pa.string())
    if pc.any(pc.ends_with(texts, "\n")).as_py():
        texts = pc.replace_substring_regex(texts, r"\r?\n\z", "")
    odd = pc.starts_with(texts, BYTE_ORDER_MARK.decode())
    marks = ["\r", "\n", *([layout.quote] if layout.quote else [])]
    for mark in [*marks, "\\"] if layout.backslash else marks:
        odd = pc.or_(odd, pc.match_substring(texts, mark))
    fields = pc.split_pattern(texts, layout.delimiter)
    counts = pc.list_value_length(fields)
    fits = pc.greater_equal(counts, layout.needed)
    if layout.width is not None and not layout.ignores_extra:
        fits = pc.and_(fits, pc.equal(counts, layout.width))
    keep = pc.and_not(fits, odd)
    if keep.true_count < len(keep):
        rows, fields = rows[keep.to_numpy(zero_copy_only=False)], fields.filter(keep)
    return rows, [_column(fields, place, layout) for place in layout.places]


def _column(fields: pa.Array, place: int, layout: LineLayout) -> pa.Array:
    texts = pc.list_element(fields, place)
    is_null = pc.equal(texts, layout.null_text)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
