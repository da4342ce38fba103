"""Opens the catalog of a connection, of whatever kind."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from sluiceway.errors import JobFileError
from sluiceway.sinks.iceberg.catalog.catalogs import (
    KINDS,
    LakeCatalog,
    LibraryCatalog,
    translated_errors,
)
from sluiceway.sinks.lake_options import catalog_place

_TIMES_OPENED = 3


def open_catalog(options: Mapping[str, str], timeout_s: float) -> LakeCatalog:
    """The catalog of a connection. Called once a route; asks only for a REST catalog's config.

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
    place = catalog_place(options)
    if kind == "hive":
        # Its thrift client is imported where such a catalog is used, and nowhere else.
        from sluiceway.sinks.iceberg.catalog.hive_catalog import HiveLakeCatalog  # noqa: PLC0415

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
        with translated_errors(place, ("", "")):
            return LibraryCatalog(openers[kind](dict(settings), timeout_s), place)

    file = _checked_database(settings.get("uri", "")) if kind == "sql" else None
    if file is None:
        return opened()
    from sluiceway.sinks.iceberg.catalog.sqlite_catalog import SqliteCatalog  # noqa: PLC0415

    return SqliteCatalog(file, opened, place)


def _checked_database(uri: str) -> Path | None:
    """The file of an SQLite database; None for one of a server.

    A wrong address is refused in words of ours: the library's words may hold a password.

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
