"""Several routes whose tables are the first of a new catalog in a database."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy import create_engine

from sluiceway.errors import MetastoreUnavailableError
from sluiceway.sinks.iceberg.catalog.catalogs import LakeCatalog, LibraryCatalog, NewTable
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog

COLUMNS = Schema(NestedField(1, "id", LongType()))


def options(folder: Path) -> dict[str, str]:
    return {"kind": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}


def create(catalog: LakeCatalog, table: str) -> object:
    more = NewTable(None, {})
    return catalog.create(("ods", table), COLUMNS, UNPARTITIONED_PARTITION_SPEC, more)


def test_namespace_that_another_route_makes_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = open_catalog(options(tmp_path), 5.0)
    quicker = SqlCatalog("lake", uri=options(tmp_path)["uri"], warehouse=f"file://{tmp_path}/w")
    asked = SqlCatalog.namespace_exists
    seen: list[Any] = []

    def exists(self: SqlCatalog, namespace: Any) -> bool:
        found: bool = asked(self, namespace)
        if not seen:
            seen.append(namespace)
            quicker.create_namespace(namespace)
        return found

    monkeypatch.setattr(SqlCatalog, "namespace_exists", exists)
    assert create(catalog, "a") is not None
    assert catalog.load(("ods", "a")) is not None
    catalog.close()
    quicker.close()


def test_tables_of_a_new_catalog_that_another_route_makes_meanwhile_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    begin = SqlCatalog.create_tables

    def create_tables(self: SqlCatalog) -> None:
        if made:
            begin(self)
            return
        made.append(True)
        engine = create_engine(options(tmp_path)["uri"])
        SqlCatalogBaseTable.metadata.create_all(engine)
        engine.dispose()
        # As if it had been looked for before.
        SqlCatalogBaseTable.metadata.create_all(self.engine, checkfirst=False)

    monkeypatch.setattr(SqlCatalog, "create_tables", create_tables)
    catalog = open_catalog(options(tmp_path), 5.0)
    assert create(catalog, "a") is not None
    assert made
    catalog.close()


def test_namespace_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    class Refusing(SqlCatalog):  # type: ignore[misc]
        def create_namespace(self, namespace: Any, properties: Any = None) -> None:
            raise RuntimeError("no room")

    library = Refusing("lake", uri=options(tmp_path)["uri"], warehouse=f"file://{tmp_path}/w")
    catalog = LibraryCatalog(library, "here")
    with pytest.raises(MetastoreUnavailableError, match="no room"):
        create(catalog, "a")
    catalog.close()
