"""Wrong variants of lending the clients of a catalog: each has to be caught by some seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluiceway.sinks.iceberg.catalog.catalog_pool import CatalogPool

_TAKEN = CatalogPool._taken


@contextmanager
def lost_by_an_error(self: CatalogPool, key: Any, name: Any) -> Iterator[Any]:
    """A client whose call has failed is never given back."""
    clients, client = self._taken(key, name)
    yield client
    if clients.users:
        clients.idle.append(client)
    else:
        self._gone(key, clients, 1)
        client.close()


@contextmanager
def closed_and_lent(self: CatalogPool, key: Any, name: Any) -> Iterator[Any]:
    """A client that comes back behind the last user is closed, and lent again."""
    clients, client = self._taken(key, name)
    try:
        yield client
    finally:
        if not clients.users:
            client.close()
        clients.idle.append(client)


def taken_by_two(self: CatalogPool, key: Any, name: Any) -> Any:
    """A client that is on loan is lent to the next one too."""
    clients, client = _TAKEN(self, key, name)
    clients.idle.append(client)
    return clients, client


def one_each(self: CatalogPool, key: Any, name: Any) -> Any:
    """Nobody waits: whoever finds none free has one made."""
    clients = self._by_key[key]
    if clients.idle:
        return clients, clients.idle.pop()
    clients.made += 1
    return clients, self._opener(dict(key[0]), key[1])


LENDING_MUTANTS = {
    "client-lost": [(CatalogPool, "borrowed", lost_by_an_error)],
    "closed-client-lent": [(CatalogPool, "borrowed", closed_and_lent)],
    "client-of-two": [(CatalogPool, "_taken", taken_by_two)],
    "client-for-each": [(CatalogPool, "_taken", one_each)],
}
