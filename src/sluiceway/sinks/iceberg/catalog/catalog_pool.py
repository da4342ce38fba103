"""The few clients of a catalog that a process has, however many tables it fills.

A client is used by one thread at a time: it keeps headers that threads would share. So each call
borrows one and gives it back. A connection gets four at most, when they are needed. So many
requests of this process are on their way to a catalog at once, and so many connections are open.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sluiceway.errors import MetastoreUnavailableError, SluicewayError
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog, NewTable
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.sinks.iceberg.commit_request import CommitRequest

MOST_CLIENTS: Final = 4
"""Clients of one connection, and so requests at once."""

ConnectionKey = tuple[tuple[tuple[str, str], ...], float]
"""Options of a connection, and how long an answer is waited for."""

Opener = Callable[[Mapping[str, str], float], LakeCatalog]


@dataclass(slots=True)
class _Clients:
    """The clients of one connection.

    Attributes:
        users: Routes and followers that hold it open; zero while the last calls of closed ones
            still go on.
        made: Clients that exist or are being made; no more than `MOST_CLIENTS`.
        idle: Existing clients that no call uses.
    """

    users: int = 0
    made: int = 0
    idle: list[LakeCatalog] = field(default_factory=list)


class CatalogPool:
    """Clients by connection, until the last one who uses it has closed.

    Args:
        opener: Makes a client.
    """

    def __init__(self, opener: Opener = open_catalog) -> None:
        self._opener = opener
        self._changed = threading.Condition()
        self._by_key: dict[ConnectionKey, _Clients] = {}

    def open(self, options: Mapping[str, str], timeout_s: float) -> LakeCatalog:
        """A catalog as one route uses it; raises as `open_catalog`."""
        key = tuple(sorted(options.items())), timeout_s
        with self._changed:
            self._by_key.setdefault(key, _Clients()).users += 1
        try:
            with self.borrowed(key, ("", "")) as client:
                return _LentCatalog(self, key, client.place)
        except BaseException:
            self.leave(key)
            raise

    @contextmanager
    def borrowed(self, key: ConnectionKey, name: Identifier) -> Iterator[LakeCatalog]:
        """A client for one call.

        Raises:
            MetastoreUnavailableError: Others have used all of them for too long, or this connection
                has no user any more.
        """
        clients, client = self._taken(key, name)
        try:
            yield client
        finally:
            with self._changed:
                is_wanted = clients.users > 0
                if is_wanted:
                    clients.idle.append(client)
                else:
                    self._gone(key, clients, 1)
                self._changed.notify_all()
            if not is_wanted:
                client.close()

    def _taken(self, key: ConnectionKey, name: Identifier) -> tuple[_Clients, LakeCatalog]:
        options, timeout_s = key
        where = ".".join(name).strip(".")
        with self._changed:
            clients = self._by_key.get(key, _Clients())
            free = self._changed.wait_for(
                lambda: clients.idle or clients.made < MOST_CLIENTS or not clients.users,
                timeout_s,
            )
            if not clients.users:
                raise MetastoreUnavailableError("the catalog was closed meanwhile", where=where)
            if not free:
                raise MetastoreUnavailableError(
                    f"{MOST_CLIENTS} requests to the catalog are on their way, and this one had "
                    f"no turn for {timeout_s:g} s",
                    where=where,
                    hint="see the catalog's own log; drivers try again",
                )
            if clients.idle:
                return clients, clients.idle.pop()
            clients.made += 1
        try:
            return clients, self._opener(dict(options), timeout_s)
        except BaseException:
            with self._changed:
                self._gone(key, clients, 1)
                self._changed.notify_all()
            raise

    def leave(self, key: ConnectionKey) -> None:
        """One user less; the clients go with the last one."""
        with self._changed:
            clients = self._by_key[key]
            clients.users -= 1
            if clients.users:
                return
            idle, clients.idle = clients.idle, []
            self._gone(key, clients, len(idle))
            self._changed.notify_all()
        for client in idle:
            client.close()

    def _gone(self, key: ConnectionKey, clients: _Clients, count: int) -> None:
        """Clients less; called with the lock held.

        Clients on loan still count after the last user has closed. Whoever opens the connection
        again then shares their number.
        """
        clients.made -= count
        if not clients.made and not clients.users:
            del self._by_key[key]


class _LentCatalog(LakeCatalog):
    """A catalog by whichever client is free. Made by `CatalogPool.open`."""

    def __init__(self, catalogs: CatalogPool, key: ConnectionKey, place: str) -> None:
        self._catalogs = catalogs
        self._key = key
        self._closed = False
        self.place = place

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        with self._catalogs.borrowed(self._key, name) as client:
            return client.load(name)

    def spelt_otherwise(self, name: Identifier) -> str | None:
        """See `LakeCatalog.spelt_otherwise`."""
        with self._catalogs.borrowed(self._key, name) as client:
            return client.spelt_otherwise(name)

    def create(
        self, name: Identifier, schema: Schema, spec: PartitionSpec, more: NewTable
    ) -> Table:
        """See `LakeCatalog.create`."""
        with self._catalogs.borrowed(self._key, name) as client:
            return client.create(name, schema, spec, more)

    def send(self, table: Table, request: CommitRequest) -> str:
        """See `LakeCatalog.send`."""
        *spaces, name = table.name()
        try:
            with self._catalogs.borrowed(self._key, (".".join(spaces), name)) as client:
                return client.send(table, request)
        except SluicewayError as error:
            return str(error)

    def probe(self, name: Identifier) -> None:
        """See `LakeCatalog.probe`."""
        with self._catalogs.borrowed(self._key, name) as client:
            client.probe(name)

    def close(self) -> None:
        """See `LakeCatalog.close`."""
        if not self._closed:
            self._closed = True
            self._catalogs.leave(self._key)


_CATALOGS: Final = CatalogPool()


def pooled_catalog(options: Mapping[str, str], timeout_s: float) -> LakeCatalog:
    """A catalog of this process's few clients; see `CatalogPool.open`."""
    return _CATALOGS.open(options, timeout_s)
