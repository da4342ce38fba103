"""A reader that waits for new rows as a query engine would find them, and notes when.

It asks the metastore for the table's partitions and lists their folders; a file counts from the
moment a listing has its final name. Every row's time is then that of its file, less the row's own
`ts`, the producer's clock in milliseconds.
"""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class Sight:
    """A file, and when it was first listed: seconds since the epoch."""

    path: Path
    at_s: float


class Reader:
    """Looks from a thread of its own, between `start` and `end`.

    Args:
        metastore_uri: `thrift://host:port`.
        database: The table's.
        table: Its name.
    """

    def __init__(self, metastore_uri: str, database: str, table: str) -> None:
        parts = urlsplit(metastore_uri)
        self._place = (parts.hostname or "", parts.port or 0)
        self._table = (database, table)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reader", daemon=True)
        self._seen: dict[Path, Sight] = {}
        self._folders: list[Path] = []

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
                    self._folders = self._partitions()
                next_look = time.monotonic() + PARTITIONS_EVERY_S
            for folder in self._folders:
                names = [path for path in folder.iterdir() if path not in self._seen]
                now = time.time()
                for path in names:
                    if not path.name.startswith(("_", ".")):
                        self._seen[path] = Sight(path, now)

    def _partitions(self) -> list[Path]:
        socket = TSocket(*self._place)
        socket.setTimeout(TIMEOUT_MS)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
            found = client.get_partitions(*self._table, LARGEST)
        finally:
            transport.close()
        return [Path(urlsplit(each.sd.location).path) for each in found]


def delays_s(sights: list[Sight], begin_s: float, end_s: float) -> NDArray[np.float64]:
    """How long each row took to become readable.

    Args:
        sights: Files, and when they were seen.
        begin_s: Rows with an earlier `ts` are left out.
        end_s: Rows with this `ts` or a later one are left out.
    """
    found = [np.empty(0)]
    for sight in sights:
        times = pq.read_table(sight.path, columns=["ts"], partitioning=None)["ts"].to_numpy() / 1000
        inside = times[(times >= begin_s) & (times < end_s)]
        found.append(sight.at_s - inside)
    return np.concatenate(found)
