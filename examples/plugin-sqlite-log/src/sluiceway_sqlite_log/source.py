"""Both sides of the source: what there is, for the driver; what it says, for tasks."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluiceway.errors import OffsetsLostError, SourceUnavailableError, TopicNotFoundError
from sluiceway.sources.contract import (
    DiscoveredPartition,
    Headers,
    LogBounds,
    RawRecords,
    Source,
    SourceBatch,
    SourceClient,
    SourceIdentity,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway_sqlite_log.log_file import opened

_BOUNDS = "SELECT first, next FROM shards WHERE topic = ? AND shard = ?"
_NOT_BEFORE = "SELECT min(offset) FROM records WHERE topic = ? AND shard = ? AND at_ms >= ?"
_ROWS = (
    "SELECT offset, at_ms, key, value, headers FROM records "
    "WHERE topic = ? AND shard = ? AND offset >= ? ORDER BY offset LIMIT ?"
)
_MOST_ROWS = 5_000
_TASK_TIMEOUT_S = 10.0
_LOOK_AGAIN_S = 0.02


class SqliteLogSource(Source):
    """`sqlite_log: {path: /data/orders.log}`; shards are the source partitions, by their names."""

    text_keys = True
    servers_option = "path"

    def check(self, options: Mapping[str, str]) -> None:
        """See `Source.check`."""
        further = sorted(options.keys() - {"path"})
        if further:
            raise ValueError(f"a log in a SQLite file has the option path only, not {further[0]}")
        if not Path(options.get("path", "")).is_absolute():
            raise ValueError("`path` is the absolute path of the file, the same on every worker")

    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """See `Source.open_client`."""
        return SqliteLogClient(Path(options["path"]), request_timeout_s)

    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """See `Source.open_reader`."""
        del owner
        return SqliteLogReader(Path(options["path"]), splits)


@contextmanager
def _asking(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection]:
    """One use of the file; its troubles are ours."""
    try:
        with opened(path, timeout_s) as log:
            yield log
    except sqlite3.Error as error:
        raise SourceUnavailableError(f"the log cannot be read: {error}", where=str(path)) from error


class SqliteLogClient(SourceClient):
    """The driver's side. A connection a call: calls come from several threads."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`."""
        found = []
        with _asking(self._path, self._timeout_s) as log:
            (log_id,) = log.execute("SELECT id FROM log").fetchone()
            for topic in topics:
                row = log.execute("SELECT id FROM topics WHERE name = ?", (topic,)).fetchone()
                if row is None:
                    raise TopicNotFoundError(f"the log has no topic {topic}", where=str(self._path))
                identity = SourceIdentity(log_id, row[0])
                shards = log.execute("SELECT shard FROM shards WHERE topic = ?", (topic,))
                found += [
                    DiscoveredPartition(SourcePartition(topic, shard), identity, None)
                    for (shard,) in shards
                ]
        return tuple(sorted(found, key=lambda each: each.partition))

    def list_topics(self) -> tuple[str, ...]:
        """See `SourceClient.list_topics`."""
        with _asking(self._path, self._timeout_s) as log:
            rows = log.execute("SELECT name FROM topics WHERE substr(name, 1, 2) <> '__'")
            return tuple(sorted(name for (name,) in rows))

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`."""
        with _asking(self._path, self._timeout_s) as log:
            return {each: found for each in partitions if (found := _bounds(log, each)) is not None}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`."""
        found = {}
        with _asking(self._path, self._timeout_s) as log:
            for each in partitions:
                where = (each.topic, each.partition, timestamp_ms)
                (first,) = log.execute(_NOT_BEFORE, where).fetchone()
                bounds = _bounds(log, each)
                if first is None and bounds is None:
                    raise SourceUnavailableError("the log has no such shard", where=str(each))
                found[each] = bounds.end_offset if first is None and bounds is not None else first
        return found

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.committed`."""
        with _asking(self._path, self._timeout_s) as log:
            query = "SELECT topic, shard, next FROM progress WHERE reader = ?"
            known = {SourcePartition(t, s): end for t, s, end in log.execute(query, (group,))}
        return {each: known[each] for each in partitions if each in known}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See `SourceClient.report`."""
        with _asking(self._path, self._timeout_s) as log:
            rows = ((group, each.topic, each.partition, end) for each, end in ends.items())
            log.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """See `SourceClient.close`; nothing is held between calls."""


def _bounds(log: sqlite3.Connection, of: SourcePartition) -> LogBounds | None:
    row = log.execute(_BOUNDS, (of.topic, of.partition)).fetchone()
    return None if row is None else LogBounds(row[0], row[1], row[1])


class SqliteLogBatch(SourceBatch):
    """Records of one shard.

    Args:
        split_index: Which of the reader's splits.
        partition: The shard.
        rows: Offset, time, key, value and headers of each.
    """

    def __init__(
        self, split_index: int, partition: SourcePartition, rows: Sequence[tuple[int, ...]]
    ) -> None:
        self.split_index = split_index
        self._partition = partition
        self._rows = rows
        self.offsets = [row[0] for row in rows]
        self.values = [row[3] for row in rows]  # type: ignore[misc]

    def timestamps_ms(self) -> Sequence[int | None]:
        """See `SourceBatch.timestamps_ms`."""
        return [row[1] for row in self._rows]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch.records`."""
        found = [self._rows[row] for row in rows]
        return RawRecords(
            topics=[self._partition.topic] * len(found),
            partitions=[self._partition.partition] * len(found),
            offsets=[row[0] for row in found],
            timestamps_ms=[row[1] for row in found],
            keys=[row[2] for row in found],  # type: ignore[misc]
            values=[row[3] for row in found],  # type: ignore[misc]
            headers=[_headers(str(row[4])) for row in found],
        )


def _headers(text: str) -> Headers:
    return tuple((name, value.encode()) for name, value in json.loads(text))


class SqliteLogReader(SplitReader):
    """A task's side: looks at its shards in turn."""

    def __init__(self, path: Path, splits: Sequence[Split]) -> None:
        self._path = path
        self._splits = tuple(splits)
        self._next = [split.start_offset for split in splits]
        self._rows = [0] * len(splits)

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`."""
        until_s = time.monotonic() + timeout_s
        while not self.finished():
            batches = [each for n in range(len(self._splits)) if (each := self._look(n))]
            left_s = until_s - time.monotonic()
            if batches or left_s <= 0:
                return batches
            time.sleep(min(_LOOK_AGAIN_S, left_s))
        return []

    def _look(self, number: int) -> SourceBatch | None:
        split, first = self._splits[number], self._next[number]
        if split.stop_offset is not None and first >= split.stop_offset:
            return None
        most = _MOST_ROWS if split.stop_offset is None else split.stop_offset - first
        where = (split.partition.topic, split.partition.partition)
        with _asking(self._path, _TASK_TIMEOUT_S) as log:
            # Bounds and rows are of one moment, or what was dropped between would be passed over.
            log.execute("BEGIN")
            bounds = _bounds(log, split.partition)
            rows = log.execute(_ROWS, (*where, first, min(most, _MOST_ROWS))).fetchall()
        if bounds is None or not bounds.start_offset <= first <= bounds.end_offset:
            raise _lost(split.partition, first, bounds)
        if not rows:
            return None
        self._next[number], self._rows[number] = rows[-1][0] + 1, self._rows[number] + len(rows)
        return SqliteLogBatch(number, split.partition, rows)

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        stops = [split.stop_offset for split in self._splits]
        return all(s is not None and at >= s for s, at in zip(stops, self._next, strict=True))

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`; a shard has no gaps."""
        return tuple(
            SplitEnd(at, rows, at - split.start_offset - rows, None)
            for split, at, rows in zip(self._splits, self._next, self._rows, strict=True)
        )

    def close(self, *, reusable: bool) -> None:
        """See `SplitReader.close`; nothing is held between reads."""
        del reusable


def _lost(of: SourcePartition, offset: int, bounds: LogBounds | None) -> OffsetsLostError:
    if bounds is None:
        return OffsetsLostError(f"offset {offset} is gone: the shard is not there", where=str(of))
    return OffsetsLostError(
        f"offset {offset} is gone: the log runs from {bounds.start_offset} to {bounds.end_offset}",
        where=str(of),
    ).with_report({"log_start": bounds.start_offset, "log_end": bounds.end_offset})
