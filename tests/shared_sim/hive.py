"""A Hive Metastore under the product's own client: what a server does to folders, step by step.

A server that creates a database or table makes the folder first, unless it is there. When its
transaction then fails, for example because another creation was faster, it deletes the folder that
it made, with all that is in it by then.
"""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

from pymetastore.hive_metastore import ttypes

from sim.scheduler import Scheduler
from sluiceway.catalog.connection import AlreadyExists, NoSuchObject
from sluiceway.errors import MetastoreUnavailableError

_FAILS, _AT_ONCE = 0.03, 0.5


class Home(Protocol):
    """The world, as its metastore sees it."""

    scheduler: Scheduler
    hive: "SimHive"


class SimHive:
    """Databases and tables of the server, whose warehouse is a folder."""

    def __init__(self, warehouse: Path) -> None:
        self.well = False
        self.deleted = 0
        self._warehouse = warehouse
        self._databases = {"default": str(warehouse)}
        self._tables: dict[tuple[str, str], Any] = {}

    def client(self, scheduler: Scheduler) -> "SimHiveClient":
        """What one request is sent to."""
        return SimHiveClient(self, scheduler)


class SimHiveClient:
    """The thrift client of one request: the methods that the product calls."""

    def __init__(self, hive: SimHive, scheduler: Scheduler) -> None:
        self._hive = hive
        self._scheduler = scheduler

    def getVersion(self) -> str:  # noqa: N802 - as the server names it
        return "3.1.3"

    def get_database(self, name: str) -> Any:
        if name not in self._hive._databases:
            raise NoSuchObject(name)
        return ttypes.Database(name=name, locationUri=self._hive._databases[name], parameters={})

    def create_database(self, wanted: Any) -> None:
        folder = self._hive._warehouse / f"{wanted.name}.db"
        known = self._hive._databases
        self._create(known, wanted.name, folder, str(folder))

    def get_table_req(self, request: Any) -> Any:
        found = self._hive._tables.get((request.dbName, request.tblName))
        if found is None:
            raise NoSuchObject(request.tblName)
        return ttypes.GetTableResult(table=deepcopy(found))

    def create_table(self, wanted: Any) -> None:
        raw = deepcopy(wanted)
        folder = Path(self._hive._databases[raw.dbName]) / raw.tableName
        raw.sd.location = raw.sd.location or str(folder)
        raw.createTime = int(self._scheduler.now)
        self._create(self._hive._tables, (raw.dbName, raw.tableName), Path(raw.sd.location), raw)

    def alter_table_with_environment_context(
        self, database: str, table: str, raw: Any, context: Any
    ) -> None:
        del context
        self._hive._tables[database, table] = deepcopy(raw)

    def _create(self, known: dict[Any, Any], name: Any, folder: Path, value: Any) -> None:
        if name in known:
            raise AlreadyExists(str(name))
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._take_time()
        fails = not self._hive.well and self._scheduler.rng.random() < _FAILS
        if name not in known and not fails:
            known[name] = value
            return
        # Between the transaction and this, others go on.
        self._take_time()
        if made:
            shutil.rmtree(folder)
            self._hive.deleted += 1
        if fails:
            raise MetastoreUnavailableError("its database does not answer")
        raise AlreadyExists(str(name))

    def _take_time(self) -> None:
        rng = self._scheduler.rng
        self._scheduler.wait(None, 0.0 if rng.random() < _AT_ONCE else rng.random())


def calls_of(world: Callable[[], Home]) -> type:
    """What stands in for the client's connection: each request takes a turn."""

    class SimCalls:
        def __init__(self, uris: str, timeout_s: float, options: object) -> None:
            del uris, timeout_s, options

        def call(
            self, what: str, send: Callable[[Any], Any], *, expected: tuple[type, ...] = ()
        ) -> Any:
            del expected
            home = world()
            if home.scheduler.current is not None:
                home.scheduler.call()
                if not home.hive.well and home.scheduler.rng.random() < _FAILS:
                    raise MetastoreUnavailableError(f"no answer to {what}")
            return send(home.hive.client(home.scheduler))

        def close(self) -> None:
            return

    return SimCalls
