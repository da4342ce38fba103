"""JSON payloads -> typed columns: the fast path where it can vouch, the slow path elsewhere."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.arrow_blocks import BlockReader
from sluiceway.formats.json.dirty_value import DirtyValueError
from sluiceway.formats.json.exact_rows import ExactReader
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.schema import Schema, inner_settings

BLOCK_ROWS = 2048
BLOCK_BYTES = 16 * 1024 * 1024
Rows = npt.NDArray[np.int64]


class JsonDecoder(RowDecoder):
    """Decodes JSON objects, one a payload. Created once per task, used by one thread.

    A field that no column takes is ignored; what it holds must be JSON, save that NaN and
    infinities are let through there, and keys may repeat. Payloads nested deeper than 100
    levels are dirty.

    Args:
        schema: The table's columns; `Field.path` says where in the payload each one is.
        extra: What happens with keys that no column takes.
        tombstones: Whether a payload that is None or has no bytes is skipped or dirty.
        fast_path: False decides every row by the slow path: equal outcomes, for checks.

    Raises:
        ValueError: JSON cannot carry a column's type, there is no column, or two have the same
            name.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        extra: Literal["ignore"] = "ignore",
        tombstones: Literal["skip", "dirty"] = "skip",
        fast_path: bool = True,
    ) -> None:
        _check_columns(schema)
        if extra != "ignore":
            raise ValueError(f"extra: {extra} is not in this version; extra: ignore is")
        self._schema = arrow_schema(schema)
        schema = Schema(tuple(inner_settings(field) for field in schema.fields))
        self._exact = ExactReader(schema)
        self._fast = BlockReader.for_schema(schema) if fast_path else None
        self._skips_tombstones = tombstones == "skip"

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the schema it was made for."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads; see `RowDecoder.decode`.

        Args:
            payloads: Record values in read order; None is a tombstone.

        Returns:
            Clean, dirty and skipped, which add up to `len(payloads)`.
        """
        rows = np.arange(len(payloads))
        collected = _Collected(self._schema)
        held = [payload for payload in payloads if payload]
        if len(held) < len(payloads):
            there = np.fromiter(map(bool, payloads), bool, len(payloads))
            self._add_tombstones(rows[~there].tolist(), collected)
            rows = rows[there]
        for start, end in _blocks(held):
            self._decode_block(held[start:end], rows[start:end], collected)
        return collected.decoded()

    def _add_tombstones(self, rows: list[int], collected: "_Collected") -> None:
        if self._skips_tombstones:
            collected.skipped += len(rows)
            return
        error = DirtyValueError(DirtyReason.EMPTY, "the payload is empty", stage="decode")
        collected.dirty += [error.row(row) for row in rows]

    def _decode_block(self, payloads: list[bytes], rows: Rows, collected: "_Collected") -> None:
        suspects = np.arange(len(payloads))
        if self._fast is not None:
            fast = self._fast.read(payloads)
            for batch, kept in zip(fast.batches, fast.rows, strict=True):
                collected.add(batch, rows[kept])
            suspects = fast.suspects
        if len(suspects):
            self._decode_exactly([payloads[row] for row in suspects], rows[suspects], collected)

    def _decode_exactly(self, payloads: list[bytes], rows: Rows, collected: "_Collected") -> None:
        values: list[list[object]] = []
        clean: list[int] = []
        for row, payload in zip(rows.tolist(), payloads, strict=True):
            try:
                values.append(self._exact.read(payload))
                clean.append(row)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        if not values:
            return
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*values, strict=True), self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        collected.add(batch, np.array(clean, np.int64))


def _check_columns(schema: Schema) -> None:
    names = [field.name for field in schema.fields]
    if not names:
        raise ValueError("the table has no column to read")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"columns have the same name: {', '.join(twice)}")


class _Collected:
    """Clean and dirty rows of a batch, gathered block by block."""

    def __init__(self, schema: pa.Schema) -> None:
        self.dirty: list[DirtyRow] = []
        self.skipped = 0
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[Rows] = []

    def add(self, batch: pa.RecordBatch, rows: Rows) -> None:
        """Take clean rows and their positions in the batch."""
        self._batches.append(batch)
        self._rows.append(rows)

    def decoded(self) -> Decoded:
        """Put everything into payload order."""
        dirty = tuple(sorted(self.dirty, key=lambda row: row.index))
        if not self._batches:
            arrays = [pa.array([], field.type) for field in self._schema]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            return Decoded(batch, pa.array([], pa.int64()), dirty, self.skipped)
        rows = np.concatenate(self._rows)
        batch = pa.concat_batches(self._batches) if len(self._batches) > 1 else self._batches[0]
        if not np.all(rows[:-1] < rows[1:]):
            order = np.argsort(rows)
            batch, rows = batch.take(pa.array(order)), rows[order]
        return Decoded(batch, pa.array(rows), dirty, self.skipped)


def _blocks(payloads: list[bytes]) -> Iterator[tuple[int, int]]:
    """Cut payloads into blocks: at most so many rows, and so many bytes unless it is one row."""
    ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
    start, done = 0, 0
    while start < len(payloads):
        fitting = int(np.searchsorted(ends, done + BLOCK_BYTES, side="right"))
        end = max(start + 1, min(start + BLOCK_ROWS, fitting))
        yield start, end
        start, done = end, int(ends[end - 1])
