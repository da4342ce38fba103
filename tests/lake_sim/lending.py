"""The clients of the catalog that a world's drivers borrow, as the product lends them.

Things happen while one is asked, and while somebody waits for a free one. A client notices when two
calls use it, when it is used after its close, and when more are on loan than there may be.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyiceberg.table import Table

from lake_sim.violation import ViolationError
from sluiceway.errors import MetastoreUnavailableError, StorageUnavailableError
from sluiceway.sinks.iceberg.catalog import catalog_pool
from sluiceway.sinks.iceberg.catalog.catalog_pool import CatalogPool
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from tools.lake_under_test import FaultyCatalog, LakeUnderTest

FAULTS = ("pass", "pass", "late", "late", "lost", "answer_lost", "twice", "down")
_ANSWER_LATE = 0.03
_LOOKS = 2
OPTIONS = {"kind": "simulated"}


class Weather(Protocol):
    """What of a world reaches a client."""

    rng: random.Random
    lake: LakeUnderTest
    seen: Counter[str]
    held: list[tuple[Table, CommitRequest]]

    def meanwhile(self) -> None:
        """Something may happen."""

    def check(self) -> None:
        """All promises hold."""


class Lending:
    """Handles of one connection, and the clients behind them.

    Args:
        weather: Of the world.
        most: Clients at once.
    """

    def __init__(self, weather: Weather, most: int) -> None:
        self._weather = weather
        self._most = most
        self._lent = CatalogPool(self._new_client)
        self._lent._changed = _Waiting(weather)
        self.clients: list[SimClient] = []
        self.wrong = ""
        vars(catalog_pool)["MOST_CLIENTS"] = most

    def open(self) -> LakeCatalog:
        """A handle; raises when all clients are on loan."""
        return self._lent.open(OPTIONS, 0.0)

    def up(self) -> None:
        """The catalog answers all of them again."""
        for client in self.clients:
            client.down = False

    def note_loan(self) -> None:
        """Somebody has begun to use a client."""
        on_loan = sum(client.in_use for client in self.clients)
        if on_loan > self._most:
            self.note_wrong(f"{on_loan} clients are on loan, {self._most} may be")

    def note_wrong(self, what: str) -> None:
        """A promise was broken where the product would take an error for the catalog's."""
        self.wrong = self.wrong or what

    def judge(self) -> None:
        """Raises when something was wrong with a client."""
        if self.wrong:
            raise ViolationError(self.wrong)

    def judge_end(self) -> None:
        """All handles were closed: no client may be left."""
        left = sum(not client.closed for client in self.clients)
        if left:
            self.note_wrong(f"{left} clients stay open")
        self.judge()

    def _new_client(self, options: Any, timeout_s: float) -> LakeCatalog:
        del options, timeout_s
        client = SimClient(self._weather, self)
        self.clients.append(client)
        return client


class SimClient(FaultyCatalog):
    """A client of a catalog to which things happen while it is asked.

    Attributes:
        in_use: A call goes on.
    """

    def __init__(self, weather: Weather, lending: Lending) -> None:
        super().__init__(weather.lake.client)
        self._weather = weather
        self._lending = lending
        self.in_use = self.closed = False

    @contextmanager
    def _used(self) -> Iterator[None]:
        if self.in_use:
            self._lending.note_wrong("two calls use one client")
        if self.closed:
            self._lending.note_wrong("a client is used after its close")
        self.in_use = True
        self._lending.note_loan()
        try:
            yield
        finally:
            self.in_use = False

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        with self._used():
            self._weather.meanwhile()
            if self.down:
                raise StorageUnavailableError("the catalog is down")
            found = super().load(name)
            self._weather.meanwhile()
            if self._weather.rng.random() < _ANSWER_LATE:
                self._weather.seen["answers_late"] += 1
                raise MetastoreUnavailableError("its answer came too late")
            return found

    def send(self, table: Table, request: CommitRequest) -> str:
        """See `LakeCatalog.send`."""
        weather = self._weather
        with self._used():
            weather.meanwhile()
            fault = weather.rng.choice(FAULTS)
            if fault == "down":
                self.down = True
                return "connection refused"
            self.faults = [fault]
            said = super().send(table, request)
            if fault == "late":
                weather.held.append(self.kept.pop())
            weather.check()
            weather.meanwhile()
            return said

    def close(self) -> None:
        """See `LakeCatalog.close`; the engine goes with the world."""
        if self.closed or self.in_use:
            self._lending.note_wrong("a client is closed twice, or while it is used")
        self.closed = True


class _Waiting(threading.Condition):
    """Waits by letting other things happen, in the one thread that there is."""

    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self._weather = weather

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """What the predicate says in the end."""
        del timeout
        found = predicate()
        for _ in range(_LOOKS):
            if found:
                return found
            self._weather.seen["lent_waits"] += 1
            self._weather.meanwhile()
            found = predicate()
        self._weather.seen["lent_refused"] += not found
        return found
