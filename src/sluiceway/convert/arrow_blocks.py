"""The fast path: a block of payloads through Arrow's JSON parser, keeping what it vouches for.

Arrow's parser fails a whole block for one bad row, reads some texts that are no JSON, and crashes
the process on others. So payloads are checked before, the rows that it fails for are cut out, and
the values are checked after. The slow path decides about the rest.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from sluiceway.convert.arrow_columns import RecheckRows, compile_column
from sluiceway.convert.exact_numbers import is_number_text
from sluiceway.convert.exact_rows import MAX_DEPTH, is_too_deep
from sluiceway.convert.failure_signs import (
    FailureReader,
    ValuePlace,
    WrongKindPrefix,
    WrongKindPrefixes,
    rare,
    sign_of,
)
from sluiceway.convert.fast_rows import FastPath, FastRows, Rows
from sluiceway.convert.parse_forms import ParseForms
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import Schema

BLOCK_ROWS = 2048
BLOCK_BYTES = 16 * 1024 * 1024
# Below this many rows the slow path costs less than another call of the parser.
MIN_SPLIT_ROWS = 16
# A failing call of the parser costs about as much as this many rows on the slow path. It costs one
# more row for so many rows that it read in vain.
ROWS_PER_FAILURE = 12
VAIN_ROWS_PER_ROW = 6
FREE_FAILURES = 8
# If so few rows of a large block pass, parsing the others costs more than it saves: the next blocks
# go to the slow path at once.
LEAST_YIELD = 4
LARGE_BLOCK_ROWS = 1024
SLOW_BLOCKS = 8
# A column with more numbers in quotes than this is read in the wide form, which accepts them.
FREE_TEXTS = 3
SCAN_BYTES = 256 * 1024

_ROW_IN_MESSAGE = re.compile(r" in row (\d+)$")
# For numbers with so many places Arrow reads a power of ten beyond its table's end: some become 0,
# and 1e-10000000 ends the process. Digits may hide in escapes of a string.
_TINY_NUMBER = r"[:,\[ \t\r\n\"][+-]?(?:[0-9.]{20,}[eE]-|[0-9.]+[eE]-0*[1-9][0-9])"
_ESCAPED_NUMBER = re.compile(rb"\\u00(?:[46]5|[57]8|2[bBdDeE]|3[0-9])")
# Without such an exponent a number needs this many zeros to read as zero in 32 bits.
_UNDERFLOW = b"0" * 40
_NUL, _OPEN, _CLOSE = 0x00, 0x7B, 0x7D
# `[` and `{` differ in this one bit, and so do `E` and `e`.
_CASE_BIT, _BRACKET, _EXPONENT, _MINUS, _POINT = 0xDF, 0x5B, 0x45, 0x2D, 0x2E
_DIGITS, _HEX, _PLUS = (0x30, 0x39), 0x58, 0x2B


class _Block:
    """Payloads one after the other, a newline after each, as the parser reads them."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.payloads = payloads
        self.data = bytearray(b"\n").join((*payloads, b""))
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)) + 1)
        self.starts = np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))

    def rows_at(self, positions: Rows) -> Rows:
        """Rows that hold these byte positions."""
        return np.searchsorted(self.ends, positions, side="right").astype(np.int64)

    def payloads_of(self, rows: Rows) -> pa.Buffer:
        """Payloads of some rows, ascending; bytes between them become blanks for good."""
        for gap in np.flatnonzero(np.diff(rows) > 1).tolist():
            begin, end = int(self.ends[rows[gap]]), int(self.starts[rows[gap + 1]])
            self.data[begin:end] = b" " * (end - begin)
        begin, end = int(self.starts[rows[0]]), int(self.ends[rows[-1]])
        return pa.py_buffer(self.data).slice(begin, end - begin)


class BlockReader(FastPath):
    """Reads blocks of payloads. Created once a task, used by one thread.

    Args:
        schema: The table's columns.
        forms: Schemas for the parser.
    """

    def __init__(self, schema: Schema, forms: ParseForms) -> None:
        self.forms = forms
        self.signs = WrongKindPrefixes()
        self.failures = FailureReader(schema)
        self._target = arrow_schema(schema)
        self._columns = [compile_column(field) for field in schema.fields]
        self._slow_blocks = 0

    @classmethod
    def for_schema(cls, schema: Schema, *, refuses_extra: bool = False) -> "BlockReader | None":
        """Make the reader for a table. Called once a task.

        Args:
            schema: The table's columns.
            refuses_extra: Whether rows with keys that no column reads are suspects; else those keys
                are ignored.

        Returns:
            None when the fast path cannot read such a table.
        """
        forms = ParseForms.for_schema(schema, refuses_extra=refuses_extra)
        return None if forms is None else cls(schema, forms)

    def read(self, payloads: list[bytes]) -> Iterator[FastRows]:
        """Read payloads; see `FastPath.read`.

        A call of the parser costs some 200 us however few the rows are, so blocks are large.
        """
        for start, end in _blocks(payloads):
            if self._slow_blocks > 0:
                self._slow_blocks -= 1
                yield FastRows([], [], np.arange(start, end))
            else:
                yield self._read_block(payloads[start:end], start)

    def _read_block(self, payloads: list[bytes], start: int) -> FastRows:
        block = _Block(payloads)
        rows, unreadable = np.arange(len(payloads)), _unreadable_rows(block)
        signs = self.signs.find(block.data, len(payloads))
        left_out = np.concatenate((unreadable, block.rows_at(signs)))
        salvage = _Salvage(self, block)
        salvage.run(np.delete(rows, left_out) if len(left_out) else rows)
        self.forms.end_block()
        left = np.ones(len(payloads), bool)
        for rows in salvage.rows:
            left[rows] = False
        suspects = np.flatnonzero(left)
        large = len(payloads) >= LARGE_BLOCK_ROWS
        if large and (len(payloads) - len(suspects)) * LEAST_YIELD < len(payloads):
            self._slow_blocks = SLOW_BLOCKS
        placed = [rows + start for rows in salvage.rows]
        return FastRows(salvage.batches, placed, suspects + start)

    def parse(self, data: pa.Buffer) -> pa.Table:
        """Call Arrow's parser.

        Args:
            data: Objects with a newline after each.

        Raises:
            pa.ArrowInvalid: A payload is not JSON, or a value not of its column's type.
        """
        options = arrow_json.ReadOptions(block_size=len(data) + 1, use_threads=False)
        return arrow_json.read_json(pa.BufferReader(data), options, self.forms.options)

    def convert(self, table: pa.Table, marks: RecheckRows) -> pa.RecordBatch:
        """Convert parsed columns to the table's columns, and mark the suspect rows."""
        arrays = [read(table, marks) for read in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


class _Salvage:
    """Reads all readable rows of a block, around rows that make the parser fail."""

    def __init__(self, reader: BlockReader, block: _Block) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.rows: list[Rows] = []
        self._reader = reader
        self._block = block
        self._texts = 0
        self._cost_rows = 0
        self._settled = 0

    def run(self, rows: Rows) -> None:
        """Read the rows. Rows that are in no batch afterwards are suspects."""
        segments = [rows]
        while segments:
            parsed: list[Rows] = []
            while segments and not self._hopeless():
                self._attempt(segments.pop(), segments, parsed)
            # Rows before a failing one were parsed, but the parser does not return them: read all
            # at once.
            segments = [np.concatenate(parsed)] if parsed else []
            if segments and self._hopeless():
                self._attempt(segments.pop(), [], [])

    def _hopeless(self) -> bool:
        free = FREE_FAILURES * ROWS_PER_FAILURE + len(self._block.payloads) // 2
        return self._cost_rows > free + self._settled

    def _attempt(self, rows: Rows, segments: list[Rows], parsed: list[Rows]) -> None:
        if len(rows) < MIN_SPLIT_ROWS:
            return
        failure = ""
        try:
            table = self._reader.parse(self._block.payloads_of(rows))
            if table.num_rows == len(rows):
                self._keep(rows, table)
                return
        except pa.ArrowInvalid as error:
            failure = str(error)
        self._cut(rows, failure, segments, parsed)

    def _keep(self, rows: Rows, table: pa.Table) -> None:
        marks = RecheckRows()
        batch = self._reader.convert(table, marks)
        zeros = marks.zeros()
        payloads = self._block.payloads
        for zero in zeros.tolist():
            if _UNDERFLOW in payloads[rows[zero]]:
                marks.suspect(np.array([zero]))
        doubted = marks.suspects()
        self._settled += len(rows)
        if len(doubted):
            kept = np.delete(np.arange(len(rows)), doubted)
            batch, rows = batch.take(pa.array(kept)), rows[kept]
        self.batches.append(batch)
        self.rows.append(rows)

    def _cut(self, rows: Rows, failure: str, segments: list[Rows], parsed: list[Rows]) -> None:
        """Leave out the rows that made the parser fail, or ask it for another form."""
        named = _ROW_IN_MESSAGE.search(failure)
        row = int(named[1]) if named else len(rows)
        self._cost_rows += ROWS_PER_FAILURE + min(row, len(rows)) // VAIN_ROWS_PER_ROW
        if row < len(rows):
            left = self._without_kind(rows, row, failure)
        else:
            left = self._without_text(rows, failure)
        if left is not None:
            segments.append(left)
        elif row < len(rows):
            self._settled += row
            segments.append(rows[row + 1 :])
            parsed.append(rows[:row])
        elif self._reader.forms.widen():
            segments.append(rows)
        else:
            middle = len(rows) // 2
            segments += [rows[middle:], rows[:middle]]

    def _without_kind(self, rows: Rows, row: int, failure: str) -> Rows | None:
        """The rows to read next, after a row with a value of the wrong kind.

        Returns:
            None when no similar rows can be found.
        """
        payload = self._block.payloads[rows[row]]
        place = self._reader.failures.wrong_kind(failure, payload)
        if place is None:
            return None
        if payload[place.value : place.value + 1] == b'"':
            text = payload[place.value + 1 :].partition(b'"')[0]
            if is_number_text(text.decode("utf-8", "replace")):
                self._texts += 1
                often = self._texts > FREE_TEXTS
                return rows if often and self._reader.forms.widen(self._columns_of(place)) else None
        return self._without_sign(np.delete(rows, row), sign_of(place, payload))

    def _without_text(self, rows: Rows, failure: str) -> Rows | None:
        """The rows to read next, after a text of some row could not be converted.

        Returns:
            None when the text is not found.
        """
        found = self._reader.failures.unfit_text(failure, self._block.data)
        if found is None or not found[1]:
            return None
        text, places = found
        columns = {column for place in places for column in self._columns_of(place)}
        if is_number_text(text) and self._reader.forms.widen(columns):
            return rows
        bad = self._block.rows_at(np.array([place.start for place in places], np.int64))
        left = rows[~np.isin(rows, bad)]
        if len(left) == len(rows):
            return None
        if is_number_text(text):
            return left
        return self._without_sign(left, sign_of(places[0], self._block.data))

    def _columns_of(self, place: ValuePlace) -> set[int]:
        return self._reader.failures.columns_of(place.key)

    def _without_sign(self, rows: Rows, sign: WrongKindPrefix) -> Rows:
        block = self._block
        found = rare(sign, block.data, len(block.payloads))
        if found is None:
            return rows
        self._reader.signs.learn(sign)
        return rows[~np.isin(rows, block.rows_at(found))]


def _blocks(payloads: list[bytes]) -> Iterator[tuple[int, int]]:
    """Cut payloads into blocks: at most so many rows, and so many bytes unless it is one row."""
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    start, done = 0, 0
    while start < len(payloads):
        fitting = int(np.searchsorted(ends, done + BLOCK_BYTES, side="right"))
        end = max(start + 1, min(start + BLOCK_ROWS, fitting))
        yield start, end
        start, done = end, int(ends[end - 1])


def _unreadable_rows(block: _Block) -> Rows:
    """Rows that must not reach Arrow's parser, ascending.

    It crashes on the payload `null` and on numbers with millions of places. It stops at a NUL as if
    there were no more rows, and takes a second object in a payload for a row. It accepts bad UTF-8
    in values that no column reads. It reads the text `1e0x10` as the decimal 1e16.
    """
    first, last = block.bytes[block.starts], block.bytes[block.ends - 2]
    brackets, minuses, hexes = _scan(block.bytes)
    doubted = [
        np.flatnonzero((first != _OPEN) | (last != _CLOSE)),
        _rows_not_utf8(block),
        _rows_too_deep(block, brackets),
        _rows_with_tiny_numbers(block, minuses),
        _rows_with_hex_exponents(block, hexes),
    ]
    if b"\0" in block.data:
        doubted.append(block.rows_at(np.flatnonzero(block.bytes == _NUL)))
    if b"\\" in block.data and b"\\u00" in block.data:
        doubted.append(_rows_with_escaped_numbers(block))
    return np.unique(np.concatenate(doubted))


def _rows_not_utf8(block: _Block) -> Rows:
    if block.data.isascii() or _is_utf8(block.data):
        return np.empty(0, np.int64)
    odd = [row for row, payload in enumerate(block.payloads) if not _is_utf8(payload)]
    return np.array(odd, np.int64)


def _is_utf8(data: bytes | bytearray) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _rows_too_deep(block: _Block, brackets: Rows) -> Rows:
    spans = brackets[MAX_DEPTH:] - brackets[:-MAX_DEPTH]
    if not len(spans) or spans.min() > (block.ends - block.starts).max():
        return np.empty(0, np.int64)
    counts = np.bincount(block.rows_at(brackets))
    candidates = np.flatnonzero(counts > MAX_DEPTH).tolist()
    return np.array([row for row in candidates if is_too_deep(block.payloads[row])], np.int64)


def _rows_with_tiny_numbers(block: _Block, minuses: Rows) -> Rows:
    data = block.bytes
    # Each such payload starts with a brace, so there are bytes on both sides.
    minuses = minuses[(minuses > 1) & (minuses < len(data) - 1)]
    minuses = minuses[(data[minuses - 1] & _CASE_BIT) == _EXPONENT]
    before, after = data[minuses - 2], data[minuses + 1]
    candidates = minuses[((before == _POINT) | _is_digit(before)) & _is_digit(after)]
    if not len(candidates):
        return np.empty(0, np.int64)
    rows = np.unique(block.rows_at(candidates))
    texts = pa.array([block.payloads[row] for row in rows.tolist()], pa.binary())
    tiny = pc.match_substring_regex(texts, _TINY_NUMBER)
    return np.compress(tiny.to_numpy(zero_copy_only=False), rows)


def _rows_with_hex_exponents(block: _Block, hexes: Rows) -> Rows:
    data = block.bytes
    # Before a byte at the start of the block come the block's last ones: braces.
    signs = data[hexes - 2]
    signed = (signs == _PLUS) | (signs == _MINUS)
    exponents = np.where(signed, data[hexes - 3], signs) & _CASE_BIT
    return block.rows_at(hexes[(data[hexes - 1] == _DIGITS[0]) & (exponents == _EXPONENT)])


def _rows_with_escaped_numbers(block: _Block) -> Rows:
    found = [row for row, text in enumerate(block.payloads) if _ESCAPED_NUMBER.search(text)]
    return np.array(found, np.int64)


def _is_digit(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (data >= _DIGITS[0]) & (data <= _DIGITS[1])
    return found


def _scan(data: npt.NDArray[np.uint8]) -> tuple[Rows, Rows, Rows]:
    """Positions of opening brackets, minuses and each x, in pieces that fit into the cache."""
    scratch = np.empty(SCAN_BYTES, np.uint8)
    brackets, minuses, hexes = [], [], []
    for start in range(0, len(data), SCAN_BYTES):
        piece = data[start : start + SCAN_BYTES]
        folded = np.bitwise_and(piece, _CASE_BIT, out=scratch[: len(piece)])
        brackets.append(np.flatnonzero(folded == _BRACKET) + start)
        hexes.append(np.flatnonzero(folded == _HEX) + start)
        minuses.append(np.flatnonzero(piece == _MINUS) + start)
    return np.concatenate(brackets), np.concatenate(minuses), np.concatenate(hexes)
