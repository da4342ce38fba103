"""Partition transforms of lake tables, by batches: what Iceberg's readers compute from the rows.

Source: Iceberg table spec, "Partition Transforms" and Appendix B, "32-bit Hash Requirements".
"""

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Codes = NDArray[np.int64]
_FORM = re.compile(r"(year|month|day|hour|bucket|truncate)(?:\[([0-9]+)\])?")
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_TIMES = frozenset({"year", "month", "day", "hour"})
_FORMS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}
_HASH_MASK = 0x7FFFFFFF
# Decimals of a table have up to 38 digits, Python's own context rounds to 28.
_EXACT = Context(prec=76)
_LONG_BITS = 64


class LakeTransform:
    """One transform of one column. Created once a task, used by one thread.

    Args:
        transform: `hour`, `bucket[16]`, as Iceberg writes it.
        column: Of the rows.
        schema: Of the rows.

    Raises:
        ValueError: The column is missing, or of a type that the transform does not take.
    """

    def __init__(self, transform: str, column: str, schema: pa.Schema) -> None:
        found = _FORM.fullmatch(transform)
        names = [name.lower() for name in schema.names]
        if found is None or column.lower() not in names:
            raise ValueError(f"{transform}({column}): there is no such transform or column")
        self._name, self._width = found[1], int(found[2] or 0)
        self._place = names.index(column.lower())
        kind = schema.field(self._place).type
        if not self._takes(kind):
            raise ValueError(f"{transform} does not take the column {column}, of type {kind}")
        self._hash = _hash_of(kind)
        wide = pa.types.is_integer(kind) and kind.bit_width == _LONG_BITS
        self._half = 1 << (63 if wide else 31)
        self._wraps = self._name == "truncate" and pa.types.is_integer(kind)

    def encode(self, rows: pa.RecordBatch) -> tuple[Codes, list[str | None]]:
        """Codes from 0 into texts, as Iceberg shows the values to people.

        Args:
            rows: A batch of the schema.
        """
        encoded = rows.column(self._place).dictionary_encode()
        texts = self._texts(encoded.dictionary)
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        if encoded.indices.null_count:
            texts.append(None)
        return codes.astype(np.int64), texts

    def problem(self, text: str) -> str | None:
        """Why readers would not find rows of a value, or None. Called once a distinct value.

        Args:
            text: One that `encode` gave.
        """
        if not self._wraps or int(text) % self._width == 0:
            return None
        return (
            f"truncate[{self._width}] of it lies below the least number of its type: readers go on "
            "at the greatest one, and would miss the row"
        )

    def _takes(self, kind: pa.DataType) -> bool:
        is_time = pa.types.is_timestamp(kind)
        if self._name in _TIMES:
            return is_time or (pa.types.is_date32(kind) and self._name != "hour")
        whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        if self._name == "truncate":
            return bool(whole or pa.types.is_string(kind))
        return bool(
            whole
            or is_time
            or pa.types.is_date32(kind)
            or pa.types.is_string(kind)
            or pa.types.is_binary(kind)
        )

    def _texts(self, values: pa.Array) -> list[str | None]:
        if self._name in _TIMES:
            return self._times(values)
        if self._name == "bucket":
            stored = _stored_values(values)
            return [str((self._hash(value) & _HASH_MASK) % self._width) for value in stored]
        return [self._truncated(value) for value in values.to_pylist()]

    def _times(self, values: pa.Array) -> list[str | None]:
        if pa.types.is_date32(values.type):
            days = values.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
            hours = np.zeros(len(days), np.int64)
        else:
            micros = values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
            numbers = micros.to_numpy(zero_copy_only=False)
            days = np.floor_divide(numbers, _DAY_US)
            hours = np.floor_divide(numbers - days * _DAY_US, _HOUR_US)
        dates = pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32())
        form = _FORMS.get(self._name, _FORMS["day"])
        texts: list[str | None] = pc.strftime(dates.cast(pa.timestamp("s")), form).to_pylist()
        if self._name != "hour":
            return texts
        return [f"{text}-{hour:02d}" for text, hour in zip(texts, hours.tolist(), strict=True)]

    def _truncated(self, value: Any) -> str:
        if isinstance(value, str):
            return value[: self._width]
        if isinstance(value, Decimal):
            unscaled = _unscaled(value)
            cut = unscaled - unscaled % self._width
            return format(Decimal(cut).scaleb(int(value.as_tuple().exponent), _EXACT), "f")
        # Below the least number of the type it goes on at the greatest, as in Java.
        return str((value - value % self._width + self._half) % (2 * self._half) - self._half)


def _stored_values(values: pa.Array) -> list[Any]:
    """Values as Iceberg hashes them: times and dates as whole numbers."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    found: list[Any] = values.to_pylist()
    return found


def _hash_of(kind: pa.DataType) -> Callable[[Any], int]:
    if pa.types.is_string(kind):
        return lambda value: murmur3_32(value.encode())
    if pa.types.is_binary(kind):
        return murmur3_32
    if pa.types.is_decimal(kind):
        return lambda value: murmur3_32(_decimal_bytes(value))
    return lambda value: murmur3_32(int(value).to_bytes(8, "little", signed=True))


def _unscaled(value: Decimal) -> int:
    return int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))


def _decimal_bytes(value: Decimal) -> bytes:
    """The unscaled number in as few bytes of two's complement as hold it, the greatest first."""
    unscaled = _unscaled(value)
    bits = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True)


def murmur3_32(data: bytes) -> int:
    """Murmur3 with 32 bits and seed 0, unsigned."""
    value, mask = 0, 0xFFFFFFFF
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        value = ((value << 13) | (value >> 19)) & mask
        value = (value * 5 + 0xE6546B64) & mask
    if len(data) > whole:
        value ^= _scrambled(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & mask
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & mask
    return value ^ (value >> 16)


def _scrambled(block: int) -> int:
    mask = 0xFFFFFFFF
    block = (block * 0xCC9E2D51) & mask
    block = ((block << 15) | (block >> 17)) & mask
    return (block * 0x1B873593) & mask
