"""Columns that a lake table gets while it is filled."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import MetastoreUnavailableError, TableMismatchError
from sluiceway.sinks.contract import ColumnsRefused, ColumnToHave, TableState
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from sluiceway.types.hive_types import format_hive_type
from tools.lake_under_test import NAME, FaultyCatalog, LakeUnderTest

NEW = (
    ColumnToHave("price", "double", "price"),
    ColumnToHave("parts", "array<struct<name:string,n:bigint>>", "Parts"),
)


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    return LakeUnderTest(tmp_path)


def sink_of(lake: LakeUnderTest, catalog: FaultyCatalog | None = None) -> IcebergTableSink:
    """As the driver of a job with `evolution: add_columns` has it."""
    options = replace(lake.table_options, follows=True)
    sink = IcebergTableSink(options, lake.options, lake.connection)
    sink.open()
    if catalog is not None:
        sink._new_catalog = lambda: catalog  # type: ignore[method-assign]
    return sink


def test_columns_come_with_ids_that_nothing_had_and_are_filled_from_their_keys(
    lake: LakeUnderTest,
) -> None:
    lake.commit(1)
    lake.publisher().publish()
    sink = sink_of(lake)
    state = sink.add_columns(NEW)
    assert isinstance(state, TableState)
    told = [(f.name, format_hive_type(f.type), f.path) for f in state.further]
    assert told == [("price", "double", ()), ("parts", NEW[1].type, ("Parts",))]
    schema = lake.table().schema()
    assert [field.field_id for field in schema.fields] == [1, 2, 3, 4]
    assert schema.find_field("parts.element.n").field_id == 7
    assert lake.table().metadata.last_column_id == 7
    assert '"parts.element.n":7' in dict(state.files.settings)["field_ids"]
    assert sink_of(lake).open().further == state.further
    lake.commit(2)
    lake.publisher().publish()
    lake.assert_exact()


@pytest.mark.parametrize("fault", ["lost", "answer_lost", "twice", "late"])
def test_a_request_that_goes_astray_adds_each_column_once(lake: LakeUnderTest, fault: str) -> None:
    catalog = lake.faulty()
    sink = sink_of(lake, catalog)
    catalog.faults = [fault]
    assert isinstance(sink.add_columns(NEW), TableState)
    for _ in list(catalog.kept):
        catalog.land()
    assert [field.name for field in lake.table().schema().fields] == ["n", "app", "price", "parts"]
    assert isinstance(sink.add_columns(NEW), TableState)
    assert len(lake.table().metadata.schemas) == 2


def test_a_catalog_that_takes_nothing_is_told(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    sink = sink_of(lake, catalog)
    catalog.faults = ["lost"] * 9
    with pytest.raises(MetastoreUnavailableError, match="columns could not be added: timed out"):
        sink.add_columns(NEW)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (ColumnToHave("n", "string", "n"), "column n is bigint and cannot become string"),
        (ColumnToHave("_file", "string", "_file"), "Iceberg keeps the name _file for itself"),
        (
            ColumnToHave("parts", "array<struct<name:string,n:bigint,m:bigint>>", "Parts"),
            "column parts is there; lake tables get no fields inside of columns",
        ),
    ],
)
def test_what_a_table_cannot_have_is_refused_with_the_reason(
    lake: LakeUnderTest, column: ColumnToHave, why: str
) -> None:
    sink = sink_of(lake)
    sink.add_columns(NEW)
    assert sink.add_columns([column]) == ColumnsRefused(why)
    assert len(lake.table().metadata.schemas) == 2


def test_a_table_that_was_dropped_meanwhile_gets_none(lake: LakeUnderTest) -> None:
    sink = sink_of(lake)
    lake.client.drop_table(NAME)
    with pytest.raises(TableMismatchError):
        sink.add_columns(NEW)
