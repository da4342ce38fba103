"""Where the rows of a key lie: the keys of each data file, sorted by hash, cached on local disk.

The cache is never truth. A file's part is made from the file itself when it is first asked for. It
lies in a folder of this process, mapped into memory, and goes with the file. The key's own values
confirm a hit. Eight bytes a row and the key itself, on disk. It is made in pieces of a million
rows, so what it takes of memory meanwhile does not grow with the table or its files.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_POWER = 0x100000001B3
_COLUMN = np.uint64(31)
_AT_ONCE_BYTES = 1 << 22
"""Bytes of text that are hashed at once: each costs some dozens of bytes of memory."""
_LEAST_BYTES = 16


def key_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """A hash of each key.

    Args:
        columns: Columns of the key, as `canonical_keys` has them.
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


Positions = NDArray[np.int64]
ReadKeys = Callable[[str], Iterable[pa.Table]]
"""The key columns of a data file as `canonical_keys` has them, in its order, some rows at once."""

_MOST_DIGITS = 38
_ROW_BITS = 20
_ROW = np.uint64((1 << _ROW_BITS) - 1)
PIECE_ROWS = 1 << _ROW_BITS
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of a file that follow each other, `PIECE_ROWS` at most.

    Attributes:
        first: Position of the first one in the file.
        hashes: The upper bits of each row's hash, and its place in the piece in the lower ones;
            sorted.
        keys: Keys in the file's order.
    """

    first: int
    hashes: Hashes
    keys: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _FileKeys:
    """One file's part of the index; `name` is what its files in the cache begin with."""

    name: str
    pieces: tuple[_Piece, ...]


class KeyIndex:
    """Finds keys in data files. Used by one thread.

    Args:
        read_keys: Reads a file that is asked for the first time.
    """

    def __init__(self, read_keys: ReadKeys) -> None:
        self._read_keys = read_keys
        self._folder = Path(tempfile.mkdtemp(prefix="sluiceway-keys-"))
        # Also without `close`: at the end of the process, or when it is not used any more.
        self._gone = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._files: dict[str, _FileKeys] = {}
        self._made = 0

    def find(self, paths: Iterable[str], keys: pa.Table) -> dict[str, Positions]:
        """Positions of all rows with one of these keys, rising, by file; files without are not in.

        Args:
            paths: Data files; all others are forgotten.
            keys: Each once.
        """
        wanted = list(paths)
        for gone in self._files.keys() - set(wanted):
            self._forget(gone)
        hashes = key_hashes(keys.columns)
        order = np.argsort(hashes, kind="stable")
        sought = _Sought(hashes[order] & ~_ROW, order.astype(np.int64), keys)
        found = {}
        for path in wanted:
            held = self._files.get(path)
            if held is None:
                held = self._files[path] = self._index(path)
            parts = [_matches(piece, sought) for piece in held.pieces]
            positions = np.concatenate([part for part in parts if len(part)] or [_NONE])
            if len(positions):
                found[path] = positions
        return found

    def close(self) -> None:
        """Remove the cache. Safe to repeat."""
        self._files = {}
        self._gone()

    def _index(self, path: str) -> _FileKeys:
        name = str(self._made)
        self._made += 1
        hashes: list[Path] = []
        written = self._folder / f"{name}.arrow"
        writer: Any = None
        with pa.OSFile(str(written), "wb") as sink:
            for piece in _pieces(self._read_keys(path)):
                writer = writer or pa.ipc.new_file(sink, piece.schema)
                writer.write_batch(piece)
                hashes.append(self._folder / f"{name}.{len(hashes)}.npy")
                np.save(hashes[-1], _packed(piece))
            if writer is not None:
                writer.close()
        if writer is None:
            return _FileKeys(name, ())
        mapped = pa.ipc.open_file(pa.memory_map(str(written)))
        return _FileKeys(
            name,
            tuple(
                _Piece(number * PIECE_ROWS, np.load(each, mmap_mode="r"), mapped.get_batch(number))
                for number, each in enumerate(hashes)
            ),
        )

    def _forget(self, path: str) -> None:
        held = self._files.pop(path)
        # What is mapped stays readable as long as it is held.
        for each in self._folder.glob(f"{held.name}.*"):
            each.unlink(missing_ok=True)


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The same rows, so many at once as a piece has; the last ones are fewer."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        left = table.replace_schema_metadata(None)
        while count + left.num_rows >= PIECE_ROWS:
            taken = left.slice(0, PIECE_ROWS - count)
            left = left.slice(len(taken))
            yield _one_batch([*waiting, taken])
            waiting, count = [], 0
        if left.num_rows:
            waiting.append(left)
            count += left.num_rows
    if waiting:
        yield _one_batch(waiting)


def _one_batch(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    whole = pa.concat_tables(tables).combine_chunks()
    columns = [column.chunk(0) for column in whole.columns]
    return pa.RecordBatch.from_arrays(columns, names=whole.column_names)


def _packed(piece: pa.RecordBatch) -> Hashes:
    rows = np.arange(piece.num_rows, dtype=np.uint64)
    found = (key_hashes([pa.chunked_array([column]) for column in piece.columns]) & ~_ROW) | rows
    found.sort()
    return found


@dataclass(frozen=True, slots=True)
class _Sought:
    """Keys that are searched for: the upper bits of their hashes, sorted, and the row of each."""

    hashes: Hashes
    rows: Positions
    keys: pa.Table


def _matches(piece: _Piece, sought: _Sought) -> Positions:
    """Positions of rows of the file whose hash is sought and whose key is the very one; rising."""
    begins = np.searchsorted(piece.hashes, sought.hashes, "left")
    counts = np.searchsorted(piece.hashes, sought.hashes | _ROW, "right") - begins
    hits = np.flatnonzero(counts)
    if not len(hits):
        return _NONE
    counts = counts[hits]
    # Places begins[h] .. begins[h] + counts[h] for each hit, one after the other.
    starts = np.repeat(begins[hits] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    places = starts + np.arange(counts.sum())
    positions = (piece.hashes[places] & _ROW).astype(np.int64)
    ours = np.repeat(sought.rows[hits], counts)
    there = piece.keys.take(pa.array(positions))
    asked = sought.keys.take(pa.array(ours))
    same: Any = None
    for left, right in zip(there.columns, asked.columns, strict=True):
        equal = pc.equal(left, right)
        same = equal if same is None else pc.and_(same, equal)
    is_same = np.asarray(same.combine_chunks().fill_null(False))  # noqa: FBT003
    return np.sort(positions[is_same]) + piece.first


def canonical_keys(keys: pa.Table) -> pa.Table:
    """Keys in types of which there is one a kind: a column may have been widened since."""
    return pa.table([_canonical(column) for column in keys.columns], names=keys.column_names)


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_decimal(kind):
        return column.cast(pa.decimal128(_MOST_DIGITS, kind.scale))
    if pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz))
    return column
