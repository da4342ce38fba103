"""A reader that waits for new rows as a query engine would find them, and notes when.

It asks the metastore for the table's partitions and lists their folders, on this machine or in the
store where they lie; a file counts from the moment a listing has its final name. Every row's time
is then that of its file, less the row's own `ts`, the producer's clock in milliseconds.
"""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import urlsplit

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pymetastore.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

POLL_S = 0.02
# New partitions are rarer than new files.
PARTITIONS_EVERY_S = 0.1
TIMEOUT_MS = 5_000
LARGEST = 32_767

# Before the job has made the table, there is none.
logging.getLogger("thrift").setLevel(logging.CRITICAL)


class Folders(Protocol):
    """How files of a store are found and read."""

    def names(self, folder: str) -> list[str]:
        """Paths of the files in a folder, as a partition's location names it."""

    def open(self, path: str) -> BinaryIO:
        """One of them."""


class LocalFolders:
    """Folders of this machine."""

    def names(self, folder: str) -> list[str]:
        """See `Folders.names`."""
        return [str(path) for path in Path(urlsplit(folder).path).iterdir()]

    def open(self, path: str) -> BinaryIO:
        """See `Folders.open`."""
        return Path(path).open("rb")


@dataclass(frozen=True, slots=True)
class Sight:
    """A file, and when it was first listed: seconds since the epoch."""

    path: str
    at_s: float


class Reader:
    """Looks from a thread of its own, between `start` and `end`.

    Args:
        metastore_uri: `thrift://host:port`.
        database: The table's.
        table: Its name.
        folders: Where its files lie.
    """

    def __init__(
        self, metastore_uri: str, database: str, table: str, folders: Folders | None = None
    ) -> None:
        parts = urlsplit(metastore_uri)
        self._place = (parts.hostname or "", parts.port or 0)
        self._table = (database, table)
        self.folders: Folders = folders or LocalFolders()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reader", daemon=True)
        self._seen: dict[str, Sight] = {}
        self._partitions: list[str] = []

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join()

    def sights(self) -> list[Sight]:
        """What was seen so far, in that order."""
        return list(self._seen.values())

    def _watch(self) -> None:
        next_look = 0.0
        while not self._ended.wait(POLL_S):
            if time.monotonic() >= next_look:
                # No table yet.
                with suppress(OSError, EOFError, TException):
                    self._partitions = self._told_partitions()
                next_look = time.monotonic() + PARTITIONS_EVERY_S
            for folder in self._partitions:
                names = [path for path in self.folders.names(folder) if path not in self._seen]
                now = time.time()
                for path in names:
                    if not path.rpartition("/")[2].startswith(("_", ".")):
                        self._seen[path] = Sight(path, now)

    def _told_partitions(self) -> list[str]:
        socket = TSocket(*self._place)
        socket.setTimeout(TIMEOUT_MS)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
            found = client.get_partitions(*self._table, LARGEST)
        finally:
            transport.close()
        return [each.sd.location for each in found]

    def rows(self, sight: Sight) -> int:
        """How many a file has, by its footer."""
        with self.folders.open(sight.path) as file:
            return int(pq.read_metadata(file).num_rows)

    def delays_s(self, begin_s: float, end_s: float) -> NDArray[np.float64]:
        """How long each row took to become readable.

        Args:
            begin_s: Rows with an earlier `ts` are left out.
            end_s: Rows with this `ts` or a later one are left out.
        """
        found = [np.empty(0)]
        for sight in self.sights():
            with self.folders.open(sight.path) as file:
                column = pq.read_table(file, columns=["ts"])["ts"]
            times = column.to_numpy() / 1000
            inside = times[(times >= begin_s) & (times < end_s)]
            found.append(sight.at_s - inside)
        return np.concatenate(found)
