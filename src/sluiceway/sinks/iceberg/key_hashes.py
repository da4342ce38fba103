"""Hashes of keys, computed by columns: equal keys have equal ones, whatever file they lie in.

They only say where to look: a hit is confirmed by the key's own values. So they need to be fast
and well spread, and not proof against somebody who makes keys of equal hashes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_POWER = 0x100000001B3
_COLUMN = np.uint64(31)
_AT_ONCE_BYTES = 1 << 22
"""Of text that is hashed at once, about: some dozens of bytes are held for each of them."""
_LEAST_BYTES = 16


def key_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """A hash of each key.

    Args:
        columns: Of the key, as `canonical_keys` has them.
    """
    with np.errstate(over="ignore"):
        total = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            total = _mixed(total * _COLUMN + _column_hashes(column))
    return total


def _column_hashes(column: pa.ChunkedArray) -> Hashes:
    parts = [_array_hashes(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _array_hashes(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_decimal128(kind):
        lanes = _fixed(array, np.dtype(np.uint64), 2)
        return _mixed(lanes[0::2]) + lanes[1::2]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text_hashes(array)
    if pa.types.is_integer(kind):
        return _fixed(array.cast(pa.int64()), np.dtype(np.uint64), 1)
    if pa.types.is_date32(kind):
        return _fixed(array.view(pa.int32()).cast(pa.int64()), np.dtype(np.uint64), 1)
    if pa.types.is_timestamp(kind):
        return _fixed(array.view(pa.int64()), np.dtype(np.uint64), 1)
    # Others of the types that a key may have are none: a value's own hash is as good.
    return np.fromiter(map(hash, array.to_pylist()), np.int64, len(array)).view(np.uint64)


def _fixed(array: pa.Array, kind: np.dtype[Any], width: int) -> Hashes:
    """The bytes of values of one width; nulls are zeros, as a foreign file may have them."""
    values = np.frombuffer(array.buffers()[1], kind)
    values = values[array.offset * width : (array.offset + len(array)) * width]
    if array.null_count:
        dead = np.repeat(np.asarray(array.is_null()), width)
        values = np.where(dead, kind.type(0), values)
    found: Hashes = values
    return found


def _text_hashes(array: pa.Array) -> Hashes:
    """A polynomial of each text's bytes and its length."""
    found = np.empty(len(array), np.uint64)
    mean_bytes = array.nbytes // max(len(array), 1)
    rows = max(1, _AT_ONCE_BYTES // max(mean_bytes, _LEAST_BYTES))
    for begin in range(0, len(array), rows):
        part = array.slice(begin, rows)
        found[begin : begin + len(part)] = _polynomials(part)
    return found


def _polynomials(array: pa.Array) -> Hashes:
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = array.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    found = _mixed(lengths.astype(np.uint64))
    full = np.flatnonzero(lengths)
    if data is None or not len(full):
        return found
    starts = offsets[full] - first
    letters = np.frombuffer(data, np.uint8)[first:last].astype(np.uint64) + np.uint64(1)
    places = np.arange(last - first) - np.repeat(starts, lengths[full])
    powers = np.cumprod(np.full(int(lengths.max()), _POWER, np.uint64))
    found[full] += np.add.reduceat(letters * powers[places], starts)
    return found


def _mixed(values: Hashes) -> Hashes:
    """SplitMix64's finalizer. Source: Steele, Lea, Flood, OOPSLA 2014."""
    values = values + np.uint64(_ODD[0])
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_ODD[1])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_ODD[2])
    return values ^ (values >> np.uint64(31))
