"""Catalogs of Iceberg tables, each behind three calls: load, create, send one request.

No answer of `send` decides what has happened: whoever sent it loads the table and looks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate

from sluiceway.errors import (
    Fatal,
    JobFileError,
    MetastoreUnavailableError,
    SluicewayError,
    UnhealthyEnvironmentError,
)
from sluiceway.sinks.iceberg.commit_request import CommitRequest

PROBE_PROPERTY = "sluiceway.probe"
KINDS = ("rest", "hive", "sql", "glue")
Identifier = tuple[str, str]
"""Namespace, with dots where it is nested, and table."""
_TIMES_OPENED = 3
_NOT_LISTED = (ForbiddenError, NoSuchNamespaceError, NotImplementedError)
_REFUSED = (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)


class LakeCatalog(ABC):
    """A catalog as one route uses it: an object of its own, used by one thread at a time.

    Attributes:
        place: Its address, as people and limits of calls name it; holds no secret.
    """

    place: str

    @abstractmethod
    def load(self, name: Identifier) -> Table | None:
        """The table as the catalog has it now; None when there is none.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
            UnhealthyEnvironmentError: It refuses the login.
        """

    def spelt_otherwise(self, name: Identifier) -> str | None:
        """A table whose name differs from one that is not there in letter case only, if any.

        Args:
            name: Of a table that the catalog does not have.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
        """
        del name
        return None

    @abstractmethod
    def create(
        self, name: Identifier, schema: Schema, spec: PartitionSpec, more: "NewTable"
    ) -> Table:
        """Create the table, and its namespace when that is missing.

        Returns:
            The table; the other one where somebody was faster.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
            UnhealthyEnvironmentError: It refuses.
        """

    @abstractmethod
    def send(self, table: Table, request: CommitRequest) -> str:
        """Send one request, once. Whatever comes back, look at the table.

        Returns:
            Empty when the catalog says that it landed; else what it said.
        """

    @abstractmethod
    def probe(self, name: Identifier) -> None:
        """See that a request is refused whose assertion about a table is wrong.

        Called once a process and table, before anything is written.

        Args:
            name: Of a table that exists.

        Raises:
            UnhealthyEnvironmentError: It is not, so rows could be doubled.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections. Safe to repeat."""


class NewTable:
    """What a new table has besides its columns.

    Args:
        location: Where it lies; None: where the catalog puts it.
        properties: Of the table.
    """

    __slots__ = ("location", "properties")

    def __init__(self, location: str | None, properties: Mapping[str, str]) -> None:
        self.location = location
        self.properties = {**properties, "format-version": "2"}


class LibraryCatalog(LakeCatalog):
    """A catalog whose single request pyiceberg sends: REST, SQL, Glue.

    Args:
        catalog: Of this route alone: such an object keeps headers that threads would share.
        place: Its address.
    """

    def __init__(self, catalog: Catalog, place: str) -> None:
        self._catalog = catalog
        self.place = place

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        with telling(self.place, name):
            try:
                return self._catalog.load_table(_path(name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def spelt_otherwise(self, name: Identifier) -> str | None:
        """See `LakeCatalog.spelt_otherwise`; a catalog that lists nothing has none."""
        path, spaces = _path(name), [()]
        with suppress(*_NOT_LISTED):
            for depth, part in enumerate(path[:-1]):
                found = (each for above in spaces for each in self._catalog.list_namespaces(above))
                spaces = [each for each in found if each[depth:] and _alike(each[depth], part)]
            found = (each for above in spaces for each in self._catalog.list_tables(above))
            names = (each for each in found if _alike(each[-1], path[-1]) and each != path)
            return next((".".join(each) for each in names), None)
        return None

    def create(
        self, name: Identifier, schema: Schema, spec: PartitionSpec, more: NewTable
    ) -> Table:
        """See `LakeCatalog.create`."""
        with telling(self.place, name):
            path = _path(name)
            self._have_namespace(path[:-1])
            try:
                return self._catalog.create_table(
                    path,
                    schema,
                    location=more.location,
                    partition_spec=spec,
                    properties=more.properties,
                )
            except TableAlreadyExistsError:
                return self._catalog.load_table(path)

    def _make_namespace(self, path: tuple[str, ...]) -> None:
        with suppress(NamespaceAlreadyExistsError):
            try:
                self._catalog.create_namespace(path)
            except NoSuchNamespaceError:
                # Some catalogs want those above first.
                self._make_namespace(path[:-1])
                self._catalog.create_namespace(path)

    def _have_namespace(self, namespace: tuple[str, ...]) -> None:
        try:
            self._make_namespace(namespace)
        except Exception:
            # Where another route was quicker, a database names its own key and not the namespace.
            if not self._catalog.namespace_exists(namespace):
                raise

    def send(self, table: Table, request: CommitRequest) -> str:
        """See `LakeCatalog.send`."""
        return said_by(
            partial(self._catalog.commit_table, table, request.requirements, request.updates)
        )

    def probe(self, name: Identifier) -> None:
        """See `LakeCatalog.probe`: by a property that must not appear."""
        table = self.load(name)
        if table is None:
            return
        wrong = 1 if table.metadata.current_snapshot_id != 1 else 2
        request = CommitRequest(
            (SetPropertiesUpdate(updates={PROBE_PROPERTY: "a wrong assertion was taken"}),),
            (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=wrong),
            ),
        )
        self.send(table, request)
        after = self.load(name)
        if after is not None and PROBE_PROPERTY in after.metadata.properties:
            raise UnhealthyEnvironmentError(
                "the catalog took a request although its assertion about the table was wrong",
                where=f"{'.'.join(name)} in the catalog {self.place}",
                hint="it cannot keep rows from being doubled; use another catalog, and remove the "
                f"table's property {PROBE_PROPERTY}",
            )

    def close(self) -> None:
        """See `LakeCatalog.close`."""
        self._catalog.close()


def _path(name: Identifier) -> tuple[str, ...]:
    return (*name[0].split("."), name[1])


def _alike(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def said_by(call: Callable[[], object]) -> str:
    """Make a call whose outcome only looking tells; what the catalog said, empty when it agreed."""
    try:
        call()
    except CommitFailedException as error:
        return f"refused: {error}"
    except Exception as error:  # noqa: BLE001 - any client error: the table is looked at
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def telling(place: str, name: Identifier) -> Iterator[None]:
    """Wrap a catalog client's errors: a refused login needs a person, all else is waited for."""
    where = f"{'.'.join(name)} in the catalog {place}".removeprefix(". in ")
    try:
        yield
    except (Fatal, MetastoreUnavailableError):
        raise
    except SluicewayError as error:
        raise MetastoreUnavailableError(
            f"the table's metadata cannot be reached: {error}",
            where=where,
            hint="waits and tries again; see the store's own log",
        ) from error
    except _REFUSED as error:
        raise UnhealthyEnvironmentError(
            f"the catalog refuses the login: {_first_line(error)}",
            where=where,
            hint="check token, credential or role of the connection",
        ) from error
    except ImportError as error:
        raise UnhealthyEnvironmentError(
            f"a package that this catalog or its store needs is not installed: {error}",
            where=where,
            hint="install it on the driver",
        ) from error
    except Exception as error:
        raise MetastoreUnavailableError(
            f"the catalog does not answer as it should: {type(error).__name__}: "
            f"{_first_line(error)}",
            where=where,
            hint="check the connection's address and the catalog's own log; drivers try again",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no reason given").splitlines()[0][:500]


def open_catalog(options: Mapping[str, str], timeout_s: float) -> LakeCatalog:
    """The catalog of a connection. Called once a route; asks nobody but a REST catalog's config.

    Args:
        options: `kind`, and the settings of that kind as the client names them.
        timeout_s: Longest wait for an answer.

    Raises:
        JobFileError: The settings cannot be.
        MetastoreUnavailableError: A REST catalog does not answer.
        UnhealthyEnvironmentError: It refuses the login.
    """
    settings = dict(options)
    kind = settings.pop("kind", "")
    place = _without_login(settings.get("uri", settings.get("glue.region", kind)))
    if kind == "hive":
        # Its thrift client is imported where such a catalog is used, and nowhere else.
        from sluiceway.sinks.iceberg.hive_catalog import HiveLakeCatalog  # noqa: PLC0415

        catalog: LakeCatalog = HiveLakeCatalog(settings, timeout_s)
        return catalog
    openers: dict[str, Callable[[dict[str, str], float], Catalog]] = {
        "rest": _open_rest,
        "sql": _open_sql,
        "glue": _open_glue,
    }
    if kind not in openers:
        raise JobFileError(f"expected one of {', '.join(KINDS)}, got {kind!r}", where="iceberg")

    def opened() -> LakeCatalog:
        with telling(place, ("", "")):
            return LibraryCatalog(openers[kind](dict(settings), timeout_s), place)

    file = _checked_database(settings.get("uri", "")) if kind == "sql" else None
    if file is None:
        return opened()
    from sluiceway.sinks.iceberg.sqlite_catalog import SqliteCatalog  # noqa: PLC0415

    return SqliteCatalog(file, opened, place)


def _without_login(place: str) -> str:
    """An address without name and password, which may stand behind a `?` too."""
    head, at, tail = place.rpartition("@")
    scheme = head.partition("//")[0]
    return (f"{scheme}//{tail}" if at else place).partition("?")[0]


def _checked_database(uri: str) -> Path | None:
    """The file of an SQLite database; None for one of a server.

    What is no database's address is refused in words of ours: the library's may hold a password.

    Raises:
        JobFileError: It is none.
    """
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - 0.2 s, where it is used
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError  # noqa: PLC0415

    try:
        url = make_url(uri)
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise JobFileError(
            "the uri of the connection is no address of a database that SQLAlchemy knows",
            where="iceberg.sql.uri",
            hint="write it as postgresql+psycopg2://user:password@host:5432/database; in name and "
            "password @ is %40, / is %2F, : is %3A",
        ) from None
    name = url.database or ""
    is_file = url.get_backend_name() == "sqlite" and not name.startswith((":memory:", "file:"))
    return Path(name) if is_file and name else None


def _open_rest(settings: dict[str, str], timeout_s: float) -> Catalog:
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415 - 0.3 s, where it is used

    class TimedRestCatalog(RestCatalog):  # type: ignore[misc]
        """Its sessions give up in the end; the client's own wait for ever."""

        def _create_session(self) -> Any:
            session = super()._create_session()
            session.request = partial(session.request, timeout=timeout_s)
            return session

    return TimedRestCatalog("lake", **settings)


def _open_sql(settings: dict[str, str], timeout_s: float) -> Catalog:
    del timeout_s  # Of a database its own driver decides.
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415
    from sqlalchemy.exc import OperationalError, ProgrammingError  # noqa: PLC0415

    name = settings.pop("catalog", "lake")
    for _ in range(_TIMES_OPENED - 1):
        # Another route may be making the tables of a new catalog at this moment.
        with suppress(OperationalError, ProgrammingError):
            return SqlCatalog(name, **settings)
    return SqlCatalog(name, **settings)


def _open_glue(settings: dict[str, str], timeout_s: float) -> Catalog:
    del timeout_s
    from pyiceberg.catalog.glue import GlueCatalog  # noqa: PLC0415

    return GlueCatalog("lake", **settings)
