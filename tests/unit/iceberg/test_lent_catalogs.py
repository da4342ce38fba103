"""A process asks a catalog by four clients at most, however many tables it has."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from sluiceway.errors import MetastoreUnavailableError
from sluiceway.sinks.iceberg.catalog.catalog_pool import MOST_CLIENTS, CatalogPool
from sluiceway.sinks.iceberg.catalog.catalogs import LakeCatalog
from sluiceway.sinks.iceberg.commit_request import CommitRequest

NAME = ("ods", "t")
OPTIONS = {"kind": "rest", "uri": "http://c"}


class Server:
    """Counts clients, and calls that are under way."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = self.closed = self.now = self.most = self.calls = 0
        self.hangs = threading.Event()
        self.hangs.set()
        self.fails = 0

    def open(self, options: Mapping[str, str], timeout_s: float) -> LakeCatalog:
        del options, timeout_s
        with self.lock:
            if self.fails:
                self.fails -= 1
                raise MetastoreUnavailableError("down", where="c")
            self.made += 1
        return cast("LakeCatalog", Client(self))


class Client:
    """One client; two threads in it at once are an error."""

    place = "http://c"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._alone = threading.Lock()

    def load(self, name: object) -> None:
        del name
        server = self._server
        assert self._alone.acquire(blocking=False), "two threads use one client"
        with server.lock:
            server.calls += 1
            server.now += 1
            server.most = max(server.most, server.now)
        server.hangs.wait(5)
        time.sleep(0.001)
        with server.lock:
            server.now -= 1
        self._alone.release()

    def send(self, table: object, request: object) -> str:
        del table, request
        self.load(NAME)
        return ""

    def close(self) -> None:
        self._server.closed += 1


class NamedTable:
    """What a request is sent for."""

    def name(self) -> tuple[str, str]:
        return NAME


TABLE: Any = NamedTable()
REQUEST = CommitRequest((), ())


def test_many_tables_ask_a_catalog_by_four_clients_and_close_them_at_the_end() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    opened = [catalogs.open(OPTIONS, 5.0) for _ in range(200)]

    def work(catalog: LakeCatalog) -> None:
        catalog.load(NAME)
        assert catalog.send(TABLE, REQUEST) == ""

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(work, opened))
    assert (server.calls, server.most) == (400, MOST_CLIENTS)
    assert server.made == MOST_CLIENTS
    for catalog in opened[1:]:
        catalog.close()
        catalog.close()
    assert server.closed == 0
    opened[0].close()
    assert server.closed == MOST_CLIENTS


def test_another_login_has_clients_of_its_own() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    catalogs.open(OPTIONS, 5.0).load(NAME)
    catalogs.open({**OPTIONS, "token": "other"}, 5.0).load(NAME)
    assert server.made == 2


def test_who_waits_for_a_catalog_that_hangs_is_told_so_and_goes_on_when_it_answers() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    catalog = catalogs.open(OPTIONS, 0.2)
    server.hangs.clear()
    with ThreadPoolExecutor(MOST_CLIENTS) as pool:
        hanging = [pool.submit(catalog.load, NAME) for _ in range(MOST_CLIENTS)]
        while server.now < MOST_CLIENTS:
            time.sleep(0.001)
        with pytest.raises(MetastoreUnavailableError, match="4 requests to the catalog are"):
            catalog.load(NAME)
        assert "on their way" in catalog.send(TABLE, REQUEST)
        server.hangs.set()
        for each in hanging:
            each.result(5)
    catalog.load(NAME)
    assert server.made == MOST_CLIENTS


def test_a_client_that_could_not_be_made_leaves_its_place_to_the_next() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    server.fails = 2 * MOST_CLIENTS
    for _ in range(2 * MOST_CLIENTS):
        with pytest.raises(MetastoreUnavailableError, match="down"):
            catalogs.open(OPTIONS, 0.1)
    assert catalogs.open(OPTIONS, 0.1).load(NAME) is None


def test_a_call_that_outlives_its_route_closes_its_client_and_later_ones_are_refused() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    catalog = catalogs.open(OPTIONS, 1.0)
    server.hangs.clear()
    with ThreadPoolExecutor(1) as pool:
        late: Any = pool.submit(catalog.load, NAME)
        while not server.now:
            time.sleep(0.001)
        catalog.close()
        assert server.closed == 0
        server.hangs.set()
        late.result(5)
    assert (server.made, server.closed) == (1, 1)
    with pytest.raises(MetastoreUnavailableError, match="closed meanwhile"):
        catalog.load(NAME)


def test_calls_that_outlive_their_users_count_with_those_of_the_next() -> None:
    server = Server()
    catalogs = CatalogPool(server.open)
    first = catalogs.open(OPTIONS, 0.2)
    server.hangs.clear()
    with ThreadPoolExecutor(2 * MOST_CLIENTS) as pool:
        hanging = [pool.submit(first.load, NAME) for _ in range(MOST_CLIENTS)]
        while server.now < MOST_CLIENTS:
            time.sleep(0.001)
        first.close()
        # A route that starts again finds all of them on their way still.
        with pytest.raises(MetastoreUnavailableError, match="4 requests to the catalog are"):
            catalogs.open(OPTIONS, 0.2)
        server.hangs.set()
        for each in hanging:
            each.result(5)
    assert server.closed == MOST_CLIENTS
    second = catalogs.open(OPTIONS, 0.2)
    second.load(NAME)
    assert server.most == MOST_CLIENTS
    second.close()
    assert server.closed == server.made
