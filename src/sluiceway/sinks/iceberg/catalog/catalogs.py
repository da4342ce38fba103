"""Catalogs of Iceberg tables, each with three calls: load, create, send one request.

No answer of `send` decides what has happened: its caller loads the table and reads it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

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
    MetastoreUnavailableError,
    SluicewayError,
    UnhealthyEnvironmentError,
)
from sluiceway.sinks.iceberg.commit_request import CommitRequest

PROBE_PROPERTY = "sluiceway.probe"
KINDS = ("rest", "hive", "sql", "glue")
Identifier = tuple[str, str]
"""Namespace, with dots where it is nested, and table."""
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
        """A table whose name differs from the missing name in letter case only, if any.

        Args:
            name: Name of a table that the catalog does not have.

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
            The table; the other one where another process was faster.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
            UnhealthyEnvironmentError: It refuses.
        """

    @abstractmethod
    def send(self, table: Table, request: CommitRequest) -> str:
        """Send one request, once. Whatever comes back, load the table afterwards.

        Returns:
            Empty when the catalog says that it landed; else what it said.
        """

    @abstractmethod
    def probe(self, name: Identifier) -> None:
        """Check that a request is refused whose assertion about a table is wrong.

        Called once a process and table, before anything is written.

        Args:
            name: Name of a table that exists.

        Raises:
            UnhealthyEnvironmentError: It is not, so rows could be doubled.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections. Safe to repeat."""


class NewTable:
    """What a new table has in addition to its columns.

    Args:
        location: Where it lies; None: where the catalog puts it.
        properties: Properties of the table.
    """

    __slots__ = ("location", "properties")

    def __init__(self, location: str | None, properties: Mapping[str, str]) -> None:
        self.location = location
        self.properties = {**properties, "format-version": "2"}


class LibraryCatalog(LakeCatalog):
    """A catalog whose single request pyiceberg sends: REST, SQL, Glue.

    Args:
        catalog: Used by this route alone: such an object keeps headers that threads would share.
        place: Its address.
    """

    def __init__(self, catalog: Catalog, place: str) -> None:
        self._catalog = catalog
        self.place = place

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        with translated_errors(self.place, name):
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
        with translated_errors(self.place, name):
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
                # Some catalogs want the namespaces above first.
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
    """Make a call whose outcome only the table shows; the catalog's words, empty when it agreed."""
    try:
        call()
    except CommitFailedException as error:
        return f"refused: {error}"
    except Exception as error:  # noqa: BLE001 - any client error: the table is loaded
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def translated_errors(place: str, name: Identifier) -> Iterator[None]:
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
