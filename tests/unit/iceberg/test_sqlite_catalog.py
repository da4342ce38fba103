"""A catalog in an SQLite file is made with its first table, not by who looks."""

from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from sluiceway.errors import MetastoreUnavailableError
from sluiceway.sinks.iceberg.catalog.catalogs import LakeCatalog, NewTable
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog

NAME = ("ods", "orders")


def opened(folder: Path) -> LakeCatalog:
    options = {
        "kind": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    return open_catalog(options, 1.0)


def test_who_looks_makes_no_file(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as catalog:
        assert catalog.load(NAME) is None
    assert list(tmp_path.iterdir()) == []


def test_first_table_makes_the_file_and_others_see_it(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    with closing(opened(tmp_path)) as catalog, closing(opened(tmp_path)) as other:
        assert other.load(NAME) is None
        catalog.create(NAME, schema, UNPARTITIONED_PARTITION_SPEC, NewTable(None, {}))
        assert (tmp_path / "catalog.db").is_file()
        assert catalog.load(NAME) is not None
        assert other.load(NAME) is not None


def test_missing_folder_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    with closing(opened(folder)) as catalog:
        with pytest.raises(MetastoreUnavailableError, match="folder of the catalog's file") as told:
            catalog.load(NAME)
        assert f"`mkdir -p {folder}`" in told.value.hint
    assert not folder.exists()
