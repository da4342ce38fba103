"""Where the rows of a key lie: the keys of each data file, sorted by hash, cached on local disk.

The cache is never truth. A file's part is made from the file itself when it is first asked for,
lies in a folder of this process, mapped into memory, and goes with the file; a hit is confirmed
by the key's own values. Sixteen bytes a row and the key itself, on disk.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Positions = NDArray[np.int64]
ReadKeys = Callable[[str], pa.Table]
"""The key columns of a data file as `canonical_keys` has them, in its order."""

_MOST_DIGITS = 38
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class _FileKeys:
    """One file's part of the index.

    Attributes:
        hashes: Sorted.
        rows: Position in the file, by place in `hashes`.
        keys: In the file's order.
    """

    hashes: Hashes
    rows: Positions
    keys: pa.Table


class KeyIndex:
    """Finds keys in data files. Used by one thread.

    Args:
        read_keys: Reads a file that is asked for the first time.
    """

    def __init__(self, read_keys: ReadKeys) -> None:
        self._read_keys = read_keys
        self._folder = Path(tempfile.mkdtemp(prefix="sluiceway-keys-"))
        # Also when nobody closes it: at the end of the process, or when it is not used any more.
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
        sought = _Sought(hashes[order], order.astype(np.int64), keys)
        found = {}
        for path in wanted:
            held = self._files.get(path)
            if held is None:
                held = self._files[path] = self._index(path)
            positions = _matches(held, sought)
            if len(positions):
                found[path] = positions
        return found

    def close(self) -> None:
        """Remove the cache. Safe to repeat."""
        self._files = {}
        self._gone()

    def _index(self, path: str) -> _FileKeys:
        keys = self._read_keys(path)
        hashes = key_hashes(keys.columns)
        order = np.argsort(hashes, kind="stable")
        base = self._folder / str(self._made)
        self._made += 1
        np.save(base.with_suffix(".hashes.npy"), hashes[order])
        np.save(base.with_suffix(".rows.npy"), order.astype(np.int64))
        plain = keys.replace_schema_metadata(None)
        with (
            pa.OSFile(str(base.with_suffix(".arrow")), "wb") as sink,
            pa.ipc.new_file(sink, plain.schema) as writer,
        ):
            writer.write_table(plain)
        return _FileKeys(
            np.load(base.with_suffix(".hashes.npy"), mmap_mode="r"),
            np.load(base.with_suffix(".rows.npy"), mmap_mode="r"),
            pa.ipc.open_file(pa.memory_map(str(base.with_suffix(".arrow")))).read_all(),
        )

    def _forget(self, path: str) -> None:
        held = self._files.pop(path)
        named = Path(str(getattr(held.hashes, "filename", "")))
        stem = named.name.partition(".")[0]
        # What is mapped stays readable until nobody holds it.
        for each in self._folder.glob(f"{stem}.*"):
            each.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Sought:
    hashes: Hashes
    rows: Positions
    keys: pa.Table


def _matches(held: _FileKeys, sought: _Sought) -> Positions:
    """Positions of the file's rows whose hash is sought and whose key is the very one."""
    begins = np.searchsorted(held.hashes, sought.hashes, "left")
    counts = np.searchsorted(held.hashes, sought.hashes, "right") - begins
    hits = np.flatnonzero(counts)
    if not len(hits):
        return np.empty(0, np.int64)
    counts = counts[hits]
    # Places begins[h] .. begins[h] + counts[h] for each hit, one after the other.
    starts = np.repeat(begins[hits] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    places = starts + np.arange(counts.sum())
    positions = np.asarray(held.rows[places])
    ours = np.repeat(sought.rows[hits], counts)
    there = held.keys.take(pa.array(positions))
    asked = sought.keys.take(pa.array(ours))
    same: Any = None
    for left, right in zip(there.columns, asked.columns, strict=True):
        equal = pc.equal(left, right)
        same = equal if same is None else pc.and_(same, equal)
    return np.sort(positions[np.asarray(same.combine_chunks().fill_null(False))])  # noqa: FBT003


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


def key_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """A hash of each key; equal keys have equal ones, in this process."""
    with np.errstate(over="ignore"):
        total = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            total = _mixed(total * np.uint64(31) + _column_hashes(column))
    return total


def _column_hashes(column: pa.ChunkedArray) -> Hashes:
    kind = column.type
    if pa.types.is_integer(kind):
        whole: Positions = column.cast(pa.int64()).to_numpy().astype(np.int64)
        return whole.view(np.uint64)
    # Python's own hash differs from process to process, as this cache does.
    found: Positions = np.fromiter(map(hash, column.to_pylist()), np.int64, len(column))
    return found.view(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """SplitMix64's finalizer. Source: Steele, Lea, Flood, OOPSLA 2014."""
    values = values + np.uint64(_ODD[0])
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_ODD[1])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_ODD[2])
    return values ^ (values >> np.uint64(31))
