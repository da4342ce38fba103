"""A reader that never stops looking: nothing may be visible that is not committed.

Shares no code with the product. What readers see are the files in the folders that the metastore
lists. Each of them must be named by a record of the log, and hold no row of an aborted
transaction (a negative order number).
"""

import gzip
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
from pymetastore.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

# A metastore that is away is part of the plan.
logging.getLogger("thrift").setLevel(logging.CRITICAL)

PAUSE_S = 0.3
TIMEOUT_MS = 5_000
LARGEST = 32_767

FolderOf = Callable[[str], Path]
"""Location -> a folder of this machine with the files that lie there now."""


def local_folder(location: str) -> Path:
    """Of a location that is a folder; metastores write `file:` before it."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


class Watcher:
    """Looks at one table from a thread of its own, between `start` and `end`.

    Args:
        metastore_uri: `thrift://host:port`.
        database: The table's.
        table: Its name.
        folder_of: Where its store keeps what lies at a location, or a copy.

    Attributes:
        rounds: Looks that came to their end.
        files: Visible files so far.
        uncommitted: Visible files without a record, and visible rows of aborted transactions.
        details: A few of them.
    """

    def __init__(
        self,
        metastore_uri: str,
        database: str,
        table: str,
        folder_of: FolderOf = local_folder,
    ) -> None:
        self._folder_of = folder_of
        parts = urlsplit(metastore_uri)
        self._place = (parts.hostname or "", parts.port or 0)
        self._table = (database, table)
        self._committed: set[str] = set()
        self._next_slot = 0
        self._seen: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.failure: Exception | None = None
        self.rounds = 0
        self.files = 0
        self.uncommitted = 0
        self.details: list[str] = []

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking; whatever went wrong in the thread is raised here."""
        self._ended.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        try:
            while not self._ended.wait(PAUSE_S):
                # A metastore that is down, or a table that is not made yet.
                with suppress(OSError, EOFError, TException):
                    self._look()
        except Exception as error:  # noqa: BLE001 - told by `end`
            self.failure = error

    def _look(self) -> None:
        root, partitions = self._locations()
        new: list[tuple[str, Path]] = []
        for location in partitions:
            folder = self._folder_of(location)
            for path in folder.iterdir() if folder.is_dir() else ():
                final = f"{location}/{path.name}".removeprefix(f"{root}/")
                if not path.name.startswith(("_", ".")) and final not in self._seen:
                    new.append((final, path))
        # Read after the files were listed: a record is there before its files are visible.
        self._read_log(self._folder_of(f"{root}/_sluiceway"))
        for final, path in new:
            self._judge(final, path)
        self.rounds += 1

    def _locations(self) -> tuple[str, list[str]]:
        socket = TSocket(*self._place)
        socket.setTimeout(TIMEOUT_MS)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
            root: str = client.get_table(*self._table).sd.location
            found = client.get_partitions(*self._table, LARGEST)
        finally:
            transport.close()
        return root, [each.sd.location for each in found]

    def _read_log(self, ledger: Path) -> None:
        (route,) = [path for path in ledger.iterdir() if path.is_dir()]
        for line in _records(route, self._next_slot):
            record = json.loads(line)
            self._next_slot = record["seq"] + 1
            if record["type"] == "DATA":
                self._committed |= {file["final"] for file in record["body"]["files"]}

    def _judge(self, final: str, path: Path) -> None:
        self._seen.add(final)
        self.files += 1
        if final not in self._committed:
            self._tell(f"{final} is visible and no record names it")
        query = "SELECT count(*) FILTER (order_id < 0) FROM read_parquet(?)"
        found = duckdb.execute(query, [str(path)]).fetchone()
        if found is None or found[0]:
            self._tell(f"{final} holds {found} rows of aborted transactions")

    def _tell(self, what: str) -> None:
        self.uncommitted += 1
        if len(self.details) < 5:  # noqa: PLR2004 - a few are enough
            self.details.append(what)


def _records(route: Path, start: int) -> Iterator[bytes]:
    """Lines of the log from a slot on, from packs and slots."""
    for pack in sorted(route.glob("pack/*.jsonl.gz")):
        with gzip.open(pack) as lines:
            yield from (line for line in lines if json.loads(line)["seq"] >= start)
    names = sorted(path for path in route.glob("log/*/*.json") if int(path.stem) >= start)
    for path in names:
        yield path.read_bytes()
