"""The file: topics of shards, records of a shard numbered without a gap. Who appends uses this."""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

_TABLES = """
CREATE TABLE IF NOT EXISTS log (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS topics (name TEXT PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS shards (
  topic TEXT, shard TEXT, first INTEGER NOT NULL, next INTEGER NOT NULL,
  PRIMARY KEY (topic, shard)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
  topic TEXT, shard TEXT, offset INTEGER, at_ms INTEGER NOT NULL, key BLOB, value BLOB,
  headers TEXT NOT NULL, PRIMARY KEY (topic, shard, offset)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
  reader TEXT, topic TEXT, shard TEXT, next INTEGER NOT NULL,
  PRIMARY KEY (reader, topic, shard)) WITHOUT ROWID;
"""


@contextmanager
def opened(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection]:
    """A connection to a file that is there, for one use; changes are kept at its end, or none.

    Args:
        path: Of the file.
        timeout_s: Longest wait for who writes.

    Raises:
        sqlite3.Error: It is not there, or no file of this kind, or busy for too long.
    """
    uri = f"file:{quote(str(path))}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout_s)) as connection, connection:
        yield connection


class LogFile:
    """Makes topics and appends to them.

    Args:
        path: Made when it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as made, made:
            # Readers do not wait for who writes.
            made.execute("PRAGMA journal_mode = WAL")
            made.executescript(_TABLES)
            if made.execute("SELECT count(*) FROM log").fetchone() == (0,):
                made.execute("INSERT INTO log VALUES (?)", (uuid4().hex,))

    def create_topic(self, topic: str, shards: Sequence[str]) -> None:
        """Make a topic, or give it further shards. A shard's name is its key for ever."""
        with opened(self._path, 30.0) as log:
            log.execute("INSERT OR IGNORE INTO topics VALUES (?, ?)", (topic, uuid4().hex))
            for shard in shards:
                log.execute("INSERT OR IGNORE INTO shards VALUES (?, ?, 0, 0)", (topic, shard))

    def append(
        self,
        topic: str,
        shard: str,
        values: Sequence[bytes | None],
        *,
        key: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Append records, all or none.

        Raises:
            KeyError: There is no such shard.
        """
        text, now_ms = json.dumps(list((headers or {}).items())), int(time.time() * 1000)
        with opened(self._path, 30.0) as log:
            # Takes the lock of who writes before it looks where the shard ends.
            log.execute("BEGIN IMMEDIATE")
            where = (topic, shard)
            found = log.execute("SELECT next FROM shards WHERE (topic, shard) = (?, ?)", where)
            end = found.fetchone()
            if end is None:
                raise KeyError(f"{topic}/{shard}")
            log.executemany(
                "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((*where, end[0] + n, now_ms, key, each, text) for n, each in enumerate(values)),
            )
            moved = (end[0] + len(values), *where)
            log.execute("UPDATE shards SET next = ? WHERE (topic, shard) = (?, ?)", moved)

    def drop_before(self, topic: str, shard: str, offset: int) -> None:
        """Let go of records that are no longer kept."""
        with opened(self._path, 30.0) as log:
            gone = (topic, shard, offset)
            log.execute("DELETE FROM records WHERE topic = ? AND shard = ? AND offset < ?", gone)
            moved = (offset, topic, shard)
            log.execute("UPDATE shards SET first = ? WHERE (topic, shard) = (?, ?)", moved)
