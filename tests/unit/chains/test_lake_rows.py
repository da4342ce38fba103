"""Whole Iceberg tables as small tables of SQL: the state that is read, and its rows."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import DataScan
from pyiceberg.types import (
    IcebergType,
    ListType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from sluiceway.chains.lake_rows import whole_lake_table
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.errors import JobFileError, NotInThisVersionError, SourceUnavailableError
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.ledger.data_parts import TablePin
from sluiceway.schedule import sql_tables
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.sources.registry import SourceAccess
from tools.keyed_lake import KeyedLake
from tools.lake_chain import NAME, SCHEMA, LakeChain, expire_all_but_newest, lake_chain


@pytest.fixture
def chain(tmp_path: Path) -> LakeChain:
    return lake_chain(tmp_path)


def upstream(settings: dict[str, str], name: str = NAME) -> LakeUpstream:
    return LakeUpstream(name, tuple(sorted({"catalog": "lake", **settings}.items())))


def of(chain: LakeChain) -> LakeUpstream:
    warehouse = f"file://{chain.job.folder}/warehouse"
    return upstream({"kind": "sql", "uri": chain.job.uri, "warehouse": warehouse})


def read(table: LakeUpstream, pin: str = "") -> tuple[str, list[int]]:
    """The state that was read, and the numbers of its rows."""
    found = whole_lake_table(table, pin, 5.0)
    assert found is not None
    rows = pa.concat_tables(found.rows)
    return found.pin, sorted(rows.column(0).to_pylist())


def tables_of(chain: LakeChain, refresh_s: float = 0.0) -> SqlTables:
    access = SourceAccess("lake_table", of(chain).texts())
    places = SqlPlaces()
    users = DimensionRule("users", NAME, refresh_s, access)
    return SqlTables(SqlRule("SELECT 1", "UTC", (users,), (), of_table=False, places=places))


def test_rows_are_those_of_the_newest_snapshot_or_of_the_pinned_one(chain: LakeChain) -> None:
    chain.append(range(3), range(3, 5))
    first, rows = read(of(chain))
    assert rows == [0, 1, 2, 3, 4]
    chain.table().delete(EqualTo("id", 1))
    newest, rows = read(of(chain))
    assert (rows, newest != first) == ([0, 2, 3, 4], True)
    assert read(of(chain), first) == (first, [0, 1, 2, 3, 4])
    expire_all_but_newest(chain.table())
    assert read(of(chain), first) == (newest, [0, 2, 3, 4])
    chain.catalog.drop_table(NAME)
    chain.catalog.create_table(NAME, SCHEMA)
    chain.append(range(7, 8))
    assert read(of(chain), newest)[1] == [7]


def test_columns_that_came_later_are_null_in_older_files(chain: LakeChain) -> None:
    chain.append(range(2))
    with chain.table().update_schema() as change:
        change.add_column("note", StringType())
    chain.append(range(2, 3))
    found = whole_lake_table(of(chain), "", 5.0)
    assert found is not None
    assert pa.concat_tables(found.rows).column_names == ["id", "City", "at", "note"]


def test_table_without_a_row_is_waited_for_as_one_of_a_ledger(chain: LakeChain) -> None:
    with pytest.raises(SourceUnavailableError, match=r"the table others\.events has no row; the"):
        tables_of(chain).read()
    chain.append(range(2))
    chain.table().delete()
    with pytest.raises(SourceUnavailableError, match=r"the table others\.events has no row; the"):
        tables_of(chain).read()
    chain.catalog.drop_table(NAME)
    with pytest.raises(SourceUnavailableError, match="the table does not exist yet"):
        tables_of(chain).read()


def test_table_is_read_again_where_its_rows_are_old_and_its_snapshot_is_new(
    chain: LakeChain,
) -> None:
    chain.append(range(2))
    tables = tables_of(chain)
    (first,) = tables.read()
    assert tables.read() == (first,)
    assert tables.read()[0].rows is first.rows
    chain.append(range(2, 4))
    (second,) = tables.read()
    assert (second.rows.num_rows, second.pin != first.pin) == (4, True)
    (again,) = tables.read((TablePin("users", first.pin),))
    assert (again.rows.num_rows, again.pin) == (2, first.pin)


def test_table_that_no_task_could_hold_is_refused(
    chain: LakeChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is what is read, not how large a file is."""
    chain.append(range(30))
    (path,) = chain.job.folder.rglob("*.parquet")
    (joined,) = tables_of(chain).read()
    size = joined.rows.nbytes
    assert size < path.stat().st_size
    monkeypatch.setattr(sql_tables, "MOST_BYTES", size)
    assert tables_of(chain).read()[0].rows.num_rows == 30
    monkeypatch.setattr(sql_tables, "MOST_BYTES", size - 1)
    with pytest.raises(JobFileError, match=r"the table others\.events has more than 0 MiB"):
        tables_of(chain).read()


def test_rows_that_a_keyed_table_has_replaced_or_deleted_do_not_join(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path)
    publisher = lake.publisher()
    lake.commit(1, 2, 3)
    publisher.publish()
    before, rows = read(upstream(lake.connection, "ods.t"))
    assert rows == [1, 2, 3]
    lake.commit(-2, 3, 4)
    publisher.publish()
    assert read(upstream(lake.connection, "ods.t"))[1] == [1, 3, 4]
    assert read(upstream(lake.connection, "ods.t"), before)[1] == [1, 2, 3]


def test_deletes_by_value_are_refused_by_name(
    chain: LakeChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.append(range(2))

    def plan_files(scan: DataScan) -> None:
        raise ValueError("PyIceberg does not yet support equality deletes")

    monkeypatch.setattr(DataScan, "plan_files", plan_files)
    with pytest.raises(NotInThisVersionError, match="equality deletes") as caught:
        read(of(chain))
    assert "rewrite" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (UUIDType(), "token"),
        (StructType(NestedField(9, "inner", UUIDType())), "token.inner"),
        (ListType(9, UUIDType()), "token.element"),
    ],
)
def test_type_that_spark_does_not_read_is_refused_by_name(
    chain: LakeChain, kind: IcebergType, name: str
) -> None:
    with chain.table().update_schema() as change:
        change.add_column("token", kind)
    chain.append(range(2))
    with pytest.raises(NotInThisVersionError, match=f"does not read the type of {name}, uuid"):
        read(of(chain))


def test_column_may_be_called_uuid(chain: LakeChain) -> None:
    with chain.table().update_schema() as change:
        change.add_column("of", StructType(NestedField(9, "uuid", StringType())))
    chain.append(range(2))
    assert read(of(chain))[1] == [0, 1]


def test_file_of_the_table_that_is_gone_is_waited_for(chain: LakeChain) -> None:
    chain.append(range(2))
    for path in chain.job.folder.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(SourceUnavailableError, match="a file of the table cannot be read"):
        tables_of(chain).read()
