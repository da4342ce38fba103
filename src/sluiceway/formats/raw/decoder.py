"""Unchanged payloads -> one column of bytes or of text."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.text_values import compile_text
from sluiceway.formats.collected_rows import CollectedRows, count_tombstones
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.options import known_options
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BinaryType,
    CharType,
    Field,
    Schema,
    StringType,
    VarcharType,
)

OPTIONS: Mapping[str, tuple[str, ...]] = {"tombstones": ("dirty", "skip", "null")}


class RawDecoder(RowDecoder):
    """Keeps each payload whole. Created once per task, used by one thread.

    A payload without bytes is a value; None is a tombstone.

    Args:
        schema: One column: `binary` takes any bytes; `string`, `varchar` and `char` take UTF-8
            without NUL, by the column's policy.
        options: `tombstones`: `dirty`, `skip`, or `null`, which makes a row of a tombstone.

    Raises:
        ValueError: There is another number of columns, another type, an unknown option, or nulls
            for a required column.
    """

    def __init__(self, schema: Schema, options: Mapping[str, str]) -> None:
        chosen = known_options("raw", options, OPTIONS)
        self._tombstones = chosen["tombstones"]
        self._field = _only_column(schema)
        if self._field.required and self._tombstones == "null":
            raise ValueError("tombstones: null needs a column that is not required")
        self._schema = arrow_schema(schema)
        self._read = _reader(self._field)
        self._plain = self._field.type == StringType() and self._field.policy == Policy(
            redact=self._field.policy.redact
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        collected = CollectedRows(self._schema)
        if self._tombstones != "null" and None in payloads:
            skipped = self._tombstones == "skip"
            rows = count_tombstones(payloads, collected, skipped=skipped, empty_too=False)
            payloads = [payloads[row] for row in rows.tolist()]
        else:
            rows = np.arange(len(payloads))
        column = pa.array(payloads, pa.binary())
        if isinstance(self._field.type, BinaryType) or (self._plain and _is_clean_text(column)):
            column = column.cast(self._schema.field(0).type)
            collected.add(pa.RecordBatch.from_arrays([column], schema=self._schema), rows)
        else:
            self._decode_one_by_one(payloads, rows.tolist(), collected)
        return collected.decoded()

    def _decode_one_by_one(
        self, payloads: Sequence[bytes | None], rows: list[int], collected: CollectedRows
    ) -> None:
        values: list[list[object]] = []
        clean: list[int] = []
        for row, payload in zip(rows, payloads, strict=True):
            try:
                values.append([None if payload is None else self._value(payload)])
                clean.append(row)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
        collected.add_values(values, clean)

    def _value(self, payload: bytes) -> object:
        policy = self._field.policy
        try:
            return self._text(payload)
        except DirtyValueError as error:
            raise (error.redacted() if policy.redact else error).under(self._field.name) from None

    def _text(self, payload: bytes) -> str | None:
        errors = "surrogateescape" if self._field.policy.on_bad_text == "replace" else "strict"
        try:
            text = self._read(payload.decode("utf-8", errors))
        except UnicodeDecodeError as error:
            message = f"the payload is not UTF-8: {error.reason} at byte {error.start}"
            raise DirtyValueError(DirtyReason.ENCODING, message) from error
        if text is None and self._field.required:
            raise DirtyValueError(DirtyReason.NULL, "a required field is null")
        return text


def _only_column(schema: Schema) -> Field:
    if len(schema.fields) != 1:
        names = ", ".join(field.name for field in schema.fields) or "none"
        raise ValueError(f"raw fills one column of the payload, not {names}; see `meta` for others")
    (field,) = schema.fields
    if not isinstance(field.type, BinaryType | StringType | VarcharType | CharType):
        found = format_hive_type(field.type)
        raise ValueError(f"raw fills a column of type binary or string, not {found}")  # noqa: TRY004
    if field.path:
        raise ValueError("raw has no fields that a `path` could lead to")
    return field


def _reader(field: Field) -> Callable[[str], str | None]:
    if isinstance(field.type, StringType | VarcharType | CharType):
        return compile_text(field.type, field.policy)
    if field.policy.format not in (None, "utf8"):
        raise ValueError(f"raw keeps bytes as they are: no `format: {field.policy.format}`")
    return _whole


def _whole(text: str) -> str:
    return text


def _is_clean_text(column: pa.Array) -> bool:
    """Whether all values are UTF-8 without NUL; cheaper than a check of each."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return not pc.any(pc.match_substring(texts, "\0")).as_py()
