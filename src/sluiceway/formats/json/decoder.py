"""JSON payloads -> typed columns: the fast path where it vouches for rows, else the slow path."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from sluiceway.convert.arrow_blocks import BlockReader
from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import ExactReader, See, parse_object
from sluiceway.convert.extra_keys import WRAPPER, ExtraKeys, ExtraRule, is_wrapped, kept_column
from sluiceway.convert.fast_rows import FastPath, Rows
from sluiceway.convert.native_blocks import FetchedPath, NativeReader
from sluiceway.formats.changes.connect_values import (
    SchemaView,
    schema_marks,
    see_wrapped,
)
from sluiceway.formats.collected_rows import CollectedRows, add_tombstones, check_columns
from sluiceway.formats.connect_blocks import WrappedReader, WrappedSchemas
from sluiceway.formats.contract import Decoded, DirtyRow, RowDecoder
from sluiceway.host.native_module import MODULE, native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads, rows_with, taken_out
from sluiceway.types.schema import Schema, inner_settings

Engine = Literal["auto", "native", "library", "exact"]
"""How rows are decided, with equal results.

`exact` uses the slow path alone; `native` and `library` put a fast path before it; `auto` takes
`native` where it is installed."""


class JsonDecoder(RowDecoder):
    """Decodes JSON objects, one a payload. Created once per task, used by one thread.

    A field that no column reads is ignored. It must be JSON, except that it may hold NaN and
    infinities, and keys may repeat. Payloads nested deeper than 100 levels are dirty.

    Args:
        schema: The table's columns; `Field.path` says where in the payload each one is.
        extra: Rule for keys that no column reads.
        extra_column: With `keep`, the name of the column for these keys.
        tombstones: Whether a payload that is None or has no bytes is skipped or dirty.
        engine: The fast path before the slow one.

    Raises:
        ValueError: JSON cannot carry a column's type, there is no column, or two have the same
            name. Or the native module is required and not installed.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        extra: ExtraRule = "ignore",
        extra_column: str = "",
        tombstones: Literal["skip", "dirty"] = "skip",
        engine: Engine = "auto",
    ) -> None:
        check_columns(schema)
        self._schema = arrow_schema(schema)
        keeper = kept_column(schema, extra, extra_column)
        read = [field for field in schema.fields if field is not keeper]
        # The column of the kept keys comes last while a row is made.
        self._order = [read.index(f) if f in read else len(read) for f in schema.fields]
        schema = Schema(tuple(inner_settings(field) for field in read))
        check_columns(schema)
        self._keeper = keeper
        settled = ExtraKeys(schema, keeper, only_held=extra == "evolve")
        # A message of Kafka Connect has its row there, and the row's schema at the same level.
        wrapped = any((field.path or (field.name,))[0] == WRAPPER for field in schema.fields)
        self._see: See | None = see_wrapped if wrapped else None
        schemas = WrappedSchemas()
        parse = schemas.parse if wrapped else None
        self._exact = ExactReader(schema, None if extra == "ignore" else settled, parse=parse)
        # It runs before the other fast path, which knows no schemas.
        self._wrapped: WrappedReader | None = None
        if wrapped and extra == "ignore" and engine in ("auto", "native"):
            self._wrapped = WrappedReader.for_schema(schema, schemas)
        self._marks = schema_marks(schema)
        self._fast = _fast_path(schema, engine, sees_extra=extra != "ignore")
        self._skips_tombstones = tombstones == "skip"

    takes_any_sequence = True

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the decoder's schema."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads; see `RowDecoder.decode`.

        Args:
            payloads: Record values in read order; None is a tombstone.

        Returns:
            Clean, dirty and skipped, which add up to `len(payloads)`.
        """
        collected = CollectedRows(self._schema)
        fast = self._fast if self._see is None else self._wrapped
        if isinstance(fast, FetchedPath) and fast.can_read(payloads):
            self._decode_fetched(fast, payloads, collected)
            return collected.decoded()
        rows = np.arange(len(payloads))
        held = [payload for payload in payloads if payload]
        if len(held) < len(payloads):
            there = np.fromiter(map(bool, payloads), bool, len(payloads))
            add_tombstones(rows[~there].tolist(), collected, skipped=self._skips_tombstones)
            rows = rows[there]
        if self._wrapped is not None:
            held, rows = self._decode_wrapped(self._wrapped, held, rows, collected)
        if self._see is not None and self._fast is not None:
            held, rows = self._decode_told(held, rows, collected)
        if self._fast is None:
            self._decode_exactly(held, rows, collected)
        elif held:
            self._decode_fast(self._fast, held, rows, collected)
        return collected.decoded()

    def decode_by(self, payloads: Sequence[bytes], schema: Mapping[str, object]) -> Decoded:
        """Decode payloads by a schema of Kafka Connect.

        Args:
            payloads: None of them empty.
            schema: Schema of the rows, as `SchemaView` takes it.
        """
        collected = CollectedRows(self._schema)
        rows = np.arange(len(payloads))
        see: See = lambda row: SchemaView(row, schema).of  # noqa: E731 - typed
        self._decode_exactly(list(payloads), rows, collected, see)
        return collected.decoded()

    def _decode_told(
        self, payloads: list[bytes], rows: Rows, collected: CollectedRows
    ) -> tuple[list[bytes], Rows]:
        """Decode payloads with text that may be a number by its schema; returns the others."""
        told = rows_with(payloads, self._marks)
        if not len(told):
            return payloads, rows
        self._decode_exactly([payloads[place] for place in told.tolist()], rows[told], collected)
        left = np.delete(np.arange(len(payloads)), told)
        return [payloads[place] for place in left.tolist()], rows[left]

    def _decode_wrapped(
        self, path: WrappedReader, payloads: list[bytes], rows: Rows, collected: CollectedRows
    ) -> tuple[list[bytes], Rows]:
        """Decode payloads with a schema that it vouches for; returns the others."""
        left = [np.empty(0, np.int64)]
        for fast in path.read(payloads):
            for batch, kept in zip(fast.batches, fast.rows, strict=True):
                collected.add(batch, rows[kept])
            left.append(fast.suspects)
        suspects = np.sort(np.concatenate(left))
        return [payloads[place] for place in suspects.tolist()], rows[suspects]

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        return self.fields_by(payload, None)

    def fields_by(
        self, payload: bytes, schema: Mapping[str, object] | None
    ) -> Mapping[str, object]:
        """As `fields_of`, for a payload whose schema gives the values' meaning; see `decode_by`."""
        try:
            found = parse_object(payload, lenient=True)
        except DirtyValueError:
            return {}
        if schema is not None:
            return SchemaView(found, schema).meant_at(())
        if self._see is not None and is_wrapped(found):
            return found | {WRAPPER: SchemaView(found).meant_at((WRAPPER,))}
        return found

    def _decode_fetched(
        self, path: FetchedPath, payloads: JoinedPayloads, collected: CollectedRows
    ) -> None:
        """Decode payloads that the native module has fetched, in place."""
        fast, empty = path.read_fetched(payloads)
        for batch, rows in zip(fast.batches, fast.rows, strict=True):
            collected.add(batch, rows)
        if len(empty):
            add_tombstones(empty.tolist(), collected, skipped=self._skips_tombstones)
        left = taken_out(payloads, fast.suspects)
        if self._see is None:
            self._decode_exactly(left, fast.suspects, collected, doubts=fast.doubts)
        else:
            self._decode_left(left, fast.suspects, collected)

    def _decode_left(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> None:
        """Decode what the fast path for payloads with a schema has left."""
        if self._fast is not None:
            payloads, rows = self._decode_told(payloads, rows, collected)
        if self._fast is not None and payloads:
            self._decode_fast(self._fast, payloads, rows, collected)
        elif payloads:
            self._decode_exactly(payloads, rows, collected)

    def _decode_fast(
        self, path: FastPath, payloads: list[bytes], rows: Rows, collected: CollectedRows
    ) -> None:
        for fast in path.read(payloads):
            for batch, kept in zip(fast.batches, fast.rows, strict=True):
                collected.add(self._with_nothing_kept(batch), rows[kept])
            left = fast.suspects
            if len(left):
                doubted = [payloads[row] for row in left]
                self._decode_exactly(doubted, rows[left], collected, doubts=fast.doubts)

    def _with_nothing_kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns; rows of the fast path have no key that no column reads."""
        if self._keeper is None:
            return batch
        kept = self._schema.field(self._keeper.name).type
        arrays = [*batch.columns, pa.nulls(len(batch), kept)]
        return pa.RecordBatch.from_arrays([arrays[i] for i in self._order], schema=self._schema)

    def _decode_exactly(
        self,
        payloads: list[bytes],
        rows: Rows,
        collected: CollectedRows,
        see: See | None = None,
        *,
        doubts: Rows | None = None,
    ) -> None:
        see = see or self._see
        values: list[list[object]] = []
        clean: list[int] = []
        if doubts is None or see is not None:
            doubts = np.full((len(payloads), 3), -1)
        for row, payload, doubt in zip(rows.tolist(), payloads, doubts.tolist(), strict=True):
            number, begin, end = doubt
            if number >= 0 and (dirt := self._exact.dirt(number, payload[begin:end])):
                collected.dirty.append(
                    DirtyRow(row, dirt.stage, dirt.reason, dirt.path, dirt.message)
                )
                continue
            try:
                found = self._exact.read(payload, see)
                values.append([found[place] for place in self._order])
                clean.append(row)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        collected.add_values(values, clean)


def _fast_path(schema: Schema, engine: Engine, *, sees_extra: bool) -> FastPath | None:
    if engine == "exact":
        return None
    if sees_extra:
        if engine == "native":
            raise ValueError("the engine native does not see keys that no column reads")
        return BlockReader.for_schema(schema, refuses_extra=True)
    if engine == "native" and native_module() is None:
        raise ValueError(f"the engine native needs {MODULE}, which is not installed or too old")
    native = None if engine == "library" else NativeReader.for_schema(schema)
    return native or BlockReader.for_schema(schema)
