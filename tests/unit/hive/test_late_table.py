"""A table over late rows: made as the route's own, kept alike, and no other one touched."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from sluiceway.catalog.hive_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    HiveColumn,
    HiveLayout,
    MetastoreTable,
)
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import InvariantError, LedgerMismatchError, TableMismatchError
from sluiceway.sinks.hive.late_table import LateTable
from sluiceway.sinks.hive.table import LEDGER_PROPERTY

LEDGER = "f@/w/orders"
PLACE = "/w/orders/_sluiceway/orders/late"
OWN = MetastoreTable(
    database="ods",
    name="orders",
    kind="EXTERNAL_TABLE",
    layout=HiveLayout(
        location="file:/w/orders",
        serde=PARQUET_SERDE,
        input_format=PARQUET_INPUT_FORMAT,
        output_format=PARQUET_OUTPUT_FORMAT,
        columns=(HiveColumn("id", "bigint"), HiveColumn("geo", "struct<city:string>")),
    ),
    partition_columns=(HiveColumn("dt", "string"), HiveColumn("app", "int")),
    parameters={"EXTERNAL": "TRUE", LEDGER_PROPERTY: LEDGER},
    created_at_s=7,
)


class Metastore(MetastoreClient):
    """Tables in memory."""

    def __init__(self, *tables: MetastoreTable) -> None:
        super().__init__("thrift://127.0.0.1:9")
        self.tables = {str(table): table for table in tables}

    def get_table(self, database: str, table: str) -> MetastoreTable | None:
        return self.tables.get(f"{database}.{table}")

    def create_database_if_missing(self, database: str) -> str:
        return f"/{database}"

    def create_table(self, table: MetastoreTable) -> MetastoreTable:
        self.tables[str(table)] = replace(table, created_at_s=8)
        return table

    def alter_columns(
        self,
        database: str,
        table: str,
        columns: Sequence[HiveColumn],
        *,
        put: Mapping[str, str],
    ) -> MetastoreTable:
        held = self.tables[f"{database}.{table}"]
        layout = replace(held.layout, columns=tuple(columns))
        made = replace(held, layout=layout, parameters={**held.parameters, **put})
        self.tables[str(made)] = made
        return made


def opened(*tables: MetastoreTable, place: str = PLACE) -> tuple[LateTable, Metastore]:
    metastore = Metastore(OWN, *tables)
    return LateTable(metastore, "ods.orders", "ods.late", ledger=LEDGER, place=place), metastore


def made(**changes: object) -> MetastoreTable:
    """As it is made, with these fields changed; those of its layout too."""
    parts = {name: value for name, value in changes.items() if hasattr(OWN.layout, name)}
    layout = replace(OWN.layout, location=f"file://{PLACE}")
    rest = {name: value for name, value in changes.items() if name not in parts}
    late = replace(OWN, name="late", layout=replace(layout, **parts))  # type: ignore[arg-type]
    return replace(late, **rest)  # type: ignore[arg-type]


def test_late_table_is_made_as_the_routes_own_over_the_late_place() -> None:
    table, metastore = opened(place="/warehouse/late")
    assert not table.find()
    with pytest.raises(InvariantError):
        table.follow()
    table.make()
    late = metastore.tables["ods.late"]
    assert late.layout == replace(OWN.layout, location="file:///warehouse/late")
    assert (late.kind, late.partition_columns) == (OWN.kind, OWN.partition_columns)
    assert late.parameters[LEDGER_PROPERTY] == LEDGER
    assert late.parameters["external.table.purge"] == "false"
    assert (table.find(), table.created_at_s) == (True, 8)


@pytest.mark.parametrize(
    ("late", "error", "says"),
    [
        (made(parameters={}), LedgerMismatchError, "is not set"),
        (made(parameters={LEDGER_PROPERTY: "other"}), LedgerMismatchError, "is other"),
        (made(location="file:/elsewhere"), TableMismatchError, "location is file:/elsewhere"),
        (made(partition_columns=OWN.partition_columns[:1]), TableMismatchError, "partition col"),
        (made(columns=(HiveColumn("id", "int"),)), TableMismatchError, "column id int"),
        (made(kind="MANAGED_TABLE"), TableMismatchError, "MANAGED_TABLE"),
        (made(serde="x.Y"), TableMismatchError, "SerDe is x.Y"),
        (
            made(parameters={**OWN.parameters, "external.table.purge": "TRUE"}),
            TableMismatchError,
            "DROP TABLE would remove",
        ),
    ],
)
def test_table_that_is_none_over_these_late_rows_is_refused_and_left_alone(
    late: MetastoreTable, error: type[Exception], says: str
) -> None:
    table, metastore = opened(late)
    with pytest.raises(error, match=says):
        table.find()
    assert metastore.tables["ods.late"] == late
    with pytest.raises(InvariantError):
        table.show([])


def test_columns_of_the_routes_own_table_are_followed_and_only_then_asked_for() -> None:
    table, metastore = opened(made())
    longer = HiveColumn("geo", "struct<city:string,zip:int>")
    columns = (OWN.layout.columns[0], longer, HiveColumn("more", "string"))
    metastore.tables[str(OWN)] = replace(OWN, layout=replace(OWN.layout, columns=columns))
    assert table.find()
    assert metastore.tables["ods.late"].layout.columns == OWN.layout.columns
    table.follow()
    assert metastore.tables["ods.late"].layout.columns == columns


def test_late_table_without_the_routes_own_is_not_looked_at() -> None:
    table, metastore = opened(made())
    del metastore.tables[str(OWN)]
    with pytest.raises(TableMismatchError, match="the table is gone"):
        table.find()
