"""A catalog in an SQLite file, which is made with its first table and not by reading."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sluiceway.errors import MetastoreUnavailableError
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog, NewTable
from sluiceway.sinks.iceberg.commit_request import CommitRequest


class SqliteCatalog(LakeCatalog):
    """Opens the file when there is something in it, or something comes into it.

    The client makes file and tables as soon as it is made itself.

    Args:
        file: The database.
        opener: Makes the client.
        place: Its address.
    """

    def __init__(self, file: Path, opener: Callable[[], LakeCatalog], place: str) -> None:
        self._file = file
        self._opener = opener
        self._opened: LakeCatalog | None = None
        self.place = place

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        if self._opened is None and not self._holds_anything():
            return None
        return self._client().load(name)

    def spelt_otherwise(self, name: Identifier) -> str | None:
        """See `LakeCatalog.spelt_otherwise`."""
        if self._opened is None and not self._holds_anything():
            return None
        return self._client().spelt_otherwise(name)

    def create(
        self, name: Identifier, schema: Schema, spec: PartitionSpec, more: NewTable
    ) -> Table:
        """See `LakeCatalog.create`."""
        self._holds_anything()
        return self._client().create(name, schema, spec, more)

    def send(self, table: Table, request: CommitRequest) -> str:
        """See `LakeCatalog.send`."""
        return self._client().send(table, request)

    def probe(self, name: Identifier) -> None:
        """See `LakeCatalog.probe`."""
        self._client().probe(name)

    def close(self) -> None:
        """See `LakeCatalog.close`."""
        if self._opened is not None:
            self._opened.close()

    def _client(self) -> LakeCatalog:
        if self._opened is None:
            self._opened = self._opener()
        return self._opened

    def _holds_anything(self) -> bool:
        """Whether the file is there, and not empty.

        Raises:
            MetastoreUnavailableError: Its folder is missing.
        """
        folder = self._file.absolute().parent
        if not folder.is_dir():
            raise MetastoreUnavailableError(
                f"the folder of the catalog's file is missing: {folder}",
                where=self.place,
                hint=f"make it: `mkdir -p {quote(str(folder))}`; or correct the connection's `uri`",
            )
        return self._file.is_file() and self._file.stat().st_size > 0
