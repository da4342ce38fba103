"""Names of lake tables and of their columns are the catalog's, letter case included."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import LongType, NestedField, StringType

from sluiceway.errors import TableMismatchError
from sluiceway.sinks.files.field_ids import FIELD_IDS
from sluiceway.sinks.iceberg.column_types import find_column
from sluiceway.sinks.iceberg.partition_fields import spec_to_create
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from sluiceway.sinks.lake_options import LakeField, LakeOptions
from sluiceway.sinks.table_options import TableOptions
from sluiceway.types.schema import Field, IntegerType, Schema

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ONE = Schema((Field("id", IntegerType(64)),))
BOTH = IcebergSchema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ID", LongType(), required=False),
    NestedField(3, "app", StringType(), required=False),
)

Opener = Callable[..., IcebergTableSink]


@pytest.fixture
def client(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "wh").mkdir()
    return SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")


@pytest.fixture
def sink(tmp_path: Path, client: SqlCatalog) -> Iterator[Opener]:
    connection = {
        "kind": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/wh",
    }
    opened = []

    def make(name: str, schema: Schema | None = ONE) -> IcebergTableSink:
        lake = LakeOptions()
        plain = TableOptions("", "", "", schema=schema, partition_columns=(), lake=lake)
        opened.append(IcebergTableSink(plain.named(name), lake, connection))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_a_table_in_a_catalog_that_keeps_case_is_found_and_no_second_one_made(
    client: SqlCatalog, sink: Opener
) -> None:
    client.create_namespace("Sales")
    made = client.create_table("Sales.Orders", BOTH)
    assert sink("Sales.Orders").open().identity.uuid == str(made.metadata.table_uuid)
    for other in ("sales.orders", "Sales.orders", "SALES.Orders"):
        for look in (IcebergTableSink.open, IcebergTableSink.foresee):
            with pytest.raises(TableMismatchError, match=r"has Sales\.Orders") as caught:
                look(sink(other))
            assert "Sales.Orders" in (caught.value.hint or "")
    assert [*client.list_namespaces()] == [("Sales",)]


@pytest.mark.parametrize("name", ["a.b.c", "a.B.c-d", "eu-1.order-items"])
def test_nested_namespaces_and_hyphens_are_made_and_found_again(
    client: SqlCatalog, sink: Opener, name: str
) -> None:
    foreseen = sink(name).foresee()
    state = sink(name).open()
    assert str(client.load_table(name).metadata.table_uuid) == state.identity.uuid
    assert sink(name).find() == state.identity
    assert f"{state.identity}" == name
    assert foreseen.statement.startswith("CREATE TABLE `" + name.replace(".", "`.`") + "` (")
    assert foreseen.state.identity.location == state.identity.location


def test_of_two_columns_that_differ_in_case_the_one_of_the_name_is_filled(
    client: SqlCatalog, sink: Opener
) -> None:
    client.create_namespace("ods")
    client.create_table("ods.t", BOTH)
    for name, field_id in (("id", 1), ("ID", 2)):
        state = sink("ods.t", Schema((Field(name, IntegerType(64)),))).open()
        ids = dict(state.files.settings)[FIELD_IDS]
        assert f'"id":{field_id}' in ids
        assert find_column(BOTH, name).field_id == field_id
        (field,) = spec_to_create((LakeField(name, name),), BOTH).fields
        assert field.source_id == field_id
    assert find_column(BOTH, "APP").field_id == 3
    for schema in (Schema((Field("Id", IntegerType(64)),)), None):
        with pytest.raises(TableMismatchError, match="id and ID differ in letter case only"):
            sink("ods.t", schema).open()


def test_a_required_column_beside_one_that_differs_in_case_is_filled_by_nothing(
    client: SqlCatalog, sink: Opener
) -> None:
    client.create_namespace("ods")
    twin = NestedField(2, "ID", LongType(), required=True)
    client.create_table("ods.t", IcebergSchema(BOTH.fields[0], twin))
    with pytest.raises(TableMismatchError, match="column ID is required"):
        sink("ods.t").open()
    with pytest.raises(TableMismatchError, match="write required: true"):
        sink("ods.t", replace(ONE, fields=(Field("ID", IntegerType(64)),))).open()
