"""Fields between delimiters -> typed columns; every value exactly or the row is dirty."""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from sluiceway.formats.contract import Decoded, DirtyReason, DirtyRow, RowDecoder
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import shown
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DecimalType,
    Field,
    IntegerType,
    Schema,
    StringType,
)

NULL = r"\N"
_OPTIONS = ("delimiter", "fields", "tombstones")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# Digits are bounded: making a number of a million of them takes minutes.
_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(r"(-?)([0-9]{1,40})(?:\.([0-9]{1,40}))?", re.ASCII)

Read = Callable[[str], object]


class _DirtyFieldError(Exception):
    def __init__(self, reason: DirtyReason, message: str, *, stage: str = "convert") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.stage = stage


def open_decoder(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """What the entry point names. Called once per task and route, and by `sluiceway validate`.

    Raises:
        ValueError: An option or a column that the format does not have.
    """
    for name in options:
        if name not in _OPTIONS:
            raise ValueError(f"delimited has the options {', '.join(_OPTIONS)}, not {name}")
    delimiter = options.get("delimiter", "\t")
    if len(delimiter) != 1 or delimiter in '\\"' or delimiter.isalnum():
        raise ValueError(f"the delimiter is one character, no letter or digit, not {delimiter!r}")
    tombstones = options.get("tombstones", "dirty")
    if tombstones not in ("skip", "dirty"):
        raise ValueError(f"tombstones is skip or dirty, not {tombstones}")
    names = [name.strip() for name in options.get("fields", "").split(",") if name.strip()]
    wanted = [_name(field) for field in schema.fields]
    return DelimitedDecoder(schema, delimiter, names or wanted, skips=tombstones == "skip")


class DelimitedDecoder(RowDecoder):
    """One payload is one line. Created once per task, used by one thread."""

    def __init__(
        self, schema: Schema, delimiter: str, names: Sequence[str], *, skips: bool
    ) -> None:
        missing = [_name(f) for f in schema.fields if _name(f) not in names]
        if missing:
            raise ValueError(f"fields does not name {', '.join(missing)}")
        self._schema = arrow_schema(schema)
        self._columns = [(names.index(_name(f)), f, _reader(f.type)) for f in schema.fields]
        self._count = len(names)
        self._delimiter = delimiter
        # Possessive, so that a long payload is looked at once.
        mark = re.escape(delimiter)
        self._field = re.compile(rf"((?:[^{mark}\\]++|\\.)*+)({mark}|\Z)", re.DOTALL)
        self._escapes = _ESCAPED | {delimiter: delimiter}
        self._skips = skips

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        rows: list[list[object]] = []
        indices: list[int] = []
        dirty: list[DirtyRow] = []
        skipped = 0
        for index, payload in enumerate(payloads):
            if not payload and self._skips:
                skipped += 1
                continue
            path = [""]
            try:
                rows.append(self._row(payload, path))
                indices.append(index)
            except _DirtyFieldError as error:
                dirty.append(DirtyRow(index, error.stage, error.reason, path[0], error.message))
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return Decoded(batch, pa.array(indices, pa.int64()), tuple(dirty), skipped)

    def _row(self, payload: bytes | None, path: list[str]) -> list[object]:
        """The columns' values; `path` names the column that is being read."""
        if not payload:
            raise _DirtyFieldError(DirtyReason.EMPTY, "the payload is empty", stage="decode")
        try:
            texts = self._texts(payload.decode())
        except UnicodeDecodeError as error:
            message = f"no UTF-8 at byte {error.start}"
            raise _DirtyFieldError(DirtyReason.ENCODING, message, stage="decode") from error
        if len(texts) != self._count:
            message = f"expected {self._count} fields, got {len(texts)}"
            raise _DirtyFieldError(DirtyReason.BROKEN, message, stage="decode")
        values = []
        for place, field, read in self._columns:
            path[0] = field.name
            text = texts[place]
            if text is None and field.required:
                raise _DirtyFieldError(DirtyReason.NULL, f"{field.name} is required and null")
            values.append(None if text is None else read(text))
        return values

    def _texts(self, line: str) -> list[str | None]:
        """Fields without their escapes; None for a null."""
        if "\\" not in line:
            return list(line.split(self._delimiter))
        texts: list[str | None] = []
        end = 0
        for match in self._field.finditer(line):
            if match.start() != end:
                break
            end = match.end()
            texts.append(None if match[1] == NULL else _ESCAPE.sub(self._unescape, match[1]))
            if not match[2]:
                return texts
        message = "it ends in a backslash that escapes nothing"
        raise _DirtyFieldError(DirtyReason.BROKEN, message, stage="decode")

    def _unescape(self, match: re.Match[str]) -> str:
        text = self._escapes.get(match[1])
        if text is None:
            message = f"{shown(match[0])} is no escape"
            raise _DirtyFieldError(DirtyReason.BROKEN, message, stage="decode")
        return text


def _name(field: Field) -> str:
    return ".".join(field.path) or field.name


def _reader(kind: DataType) -> Read:
    match kind:
        case StringType():
            return str
        case BooleanType():
            return _boolean
        case IntegerType(bits):
            return lambda text: _integer(text, bits)
        case DecimalType(precision, scale):
            return lambda text: _decimal(text, precision, scale)
        case _:
            raise ValueError(f"delimited carries no column of type {type(kind).__name__}")


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _DirtyFieldError(DirtyReason.WRONG_TYPE, f"{shown(text)} is not true or false")
    return text == "true"


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise _DirtyFieldError(DirtyReason.WRONG_TYPE, f"{shown(text)} is no whole number")
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise _DirtyFieldError(DirtyReason.OVERFLOW, f"{shown(text)} needs more than {bits} bits")
    return value


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise _DirtyFieldError(DirtyReason.WRONG_TYPE, f"{shown(text)} is no decimal number")
    sign, whole, fraction = match[1], match[2], (match[3] or "").rstrip("0")
    if len(fraction) > scale:
        raise _DirtyFieldError(DirtyReason.SCALE, f"{shown(text)} has more than {scale} places")
    unscaled = int(whole + fraction.ljust(scale, "0"))
    if unscaled >= 10**precision:
        raise _DirtyFieldError(DirtyReason.OVERFLOW, f"{shown(text)} has too many digits")
    # Made of its digits, a Decimal is exact whatever the context's precision is.
    return Decimal(f"{sign}{unscaled}E-{scale}")
