"""A table whose column was given more bits: partitions may follow, and a job file is told how."""

import pytest

from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.hive.table_check import match_schema
from sluiceway.types.evolution import is_wider
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema


def layout(**types: str) -> HiveLayout:
    columns = tuple(HiveColumn(name, kind) for name, kind in types.items())
    return HiveLayout("/t", "", "", "", columns)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("int", "bigint", True),
        ("TINYINT", "smallint", True),
        ("smallint", "bigint", True),
        ("float", "double", True),
        ("bigint", "int", False),
        ("int", "int", False),
        ("int", "double", False),
        ("int", "string", False),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("struct<a:int>", "struct<a:bigint>", False),
        ("uniontype<int>", "bigint", False),
    ],
)
def test_numbers_with_more_bits_hold_all_values(before: str, now: str, *, expected: bool) -> None:
    assert is_wider(before, now) is expected


def test_partition_of_a_widened_table_is_its_own_and_owes_the_type() -> None:
    table, partition = layout(n="bigint", f="double"), layout(N="int", f="float")
    assert partition.differences(table, narrower=True) == ()
    assert partition.lacks_columns(table)
    # Neither the other way round, nor where nobody says that it may be narrower.
    assert len(table.differences(partition, narrower=True)) == 2
    assert not table.lacks_columns(partition)
    assert len(partition.differences(table)) == 2


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ("int", "ALTER TABLE ods.t CHANGE n n bigint CASCADE"),
        ("string", "change the table or the columns in the job file"),
    ],
)
def test_job_file_that_is_wider_is_told_what_widens_the_table(held: str, told: str) -> None:
    table = MetastoreTable("ods", "t", "EXTERNAL_TABLE", layout(n=held), (), {})
    with pytest.raises(TableMismatchError) as refused:
        match_schema(table, Schema((Field("n", parse_hive_type("bigint")),)))
    assert told in refused.value.hint
    assert ("docs/guides/hive-tables.md#a-wider-type" in refused.value.hint) is (held == "int")


def test_column_that_the_table_lacks_is_told_with_its_statement() -> None:
    table = MetastoreTable("ods", "t", "EXTERNAL_TABLE", layout(n="int"), (), {})
    wanted = [Field("n", parse_hive_type("int")), Field("name", parse_hive_type("string"))]
    with pytest.raises(TableMismatchError) as refused:
        match_schema(table, Schema(tuple(wanted)))
    assert "ALTER TABLE ods.t ADD COLUMNS (name string) CASCADE" in refused.value.hint
    wanted[0] = Field("n", parse_hive_type("string"))
    with pytest.raises(TableMismatchError) as refused:
        match_schema(table, Schema(tuple(wanted)))
    assert "ADD COLUMNS" not in refused.value.hint
