"""Which tables are refused, and that the message says why."""

import re
from dataclasses import replace
from typing import Any

import pytest
from pymetastore.hive_metastore import ttypes

from sluiceway.catalog.hive_table import HiveColumn, MetastoreTable
from sluiceway.catalog.thrift_values import raw_table, table_value
from sluiceway.errors import JobFileError, TableMismatchError
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.hive.table_check import (
    check_definition,
    check_readable,
    check_writable,
    file_choice,
    filled_columns,
    match_schema,
    schema_of,
    table_to_create,
    warnings_of,
)
from sluiceway.sinks.hive.table_format import creation_problem, format_warnings
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import (
    DecimalType,
    Field,
    IntegerType,
    ListType,
    Schema,
    StringType,
    StructType,
)

SCHEMA = Schema(
    (
        Field("id", IntegerType(64), required=True),
        Field("userName", StringType()),
        Field("price", DecimalType(18, 2), path=("p", "amount")),
        Field("tags", ListType(StructType((Field("k", StringType()),)))),
    )
)
OPTIONS = TableOptions(
    metastore="thrift://h:1",
    database="d",
    table="t",
    schema=SCHEMA,
    partition_columns=(PartitionColumn("dt"), PartitionColumn("Country", "int")),
    location="/wh/t",
)
TABLE = table_to_create(OPTIONS, SCHEMA)


def test_table_to_create_is_external_parquet_and_passes_its_own_checks() -> None:
    check_writable(TABLE)
    check_definition(TABLE, OPTIONS)
    assert TABLE.kind == "EXTERNAL_TABLE"
    assert TABLE.parameters == {"EXTERNAL": "TRUE", "parquet.compression": "ZSTD"}
    assert TABLE.layout.columns[3] == HiveColumn("tags", "array<struct<k:string>>")
    assert [column.name for column in TABLE.partition_columns] == ["dt", "country"]
    assert warnings_of(TABLE, ()) == ()


SORTED = "spark.sql.sources.schema.numSortCols"


def with_layout(**changes: object) -> MetastoreTable:
    return replace(TABLE, layout=replace(TABLE.layout, **changes))  # type: ignore[arg-type]


def with_parameter(key: str, value: str) -> MetastoreTable:
    return replace(TABLE, parameters={**TABLE.parameters, key: value})


def spark_table(
    properties: dict[str, str] | None = None, *, path: str = "file:/wh/t"
) -> MetastoreTable:
    """As Spark makes one of its own."""
    said = {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.partitionProvider": "catalog",
        "spark.sql.sources.schema.numPartCols": "2",
        **(properties or {}),
    }
    made = with_layout(serde_parameters={"path": path, "serialization.format": "1"})
    return replace(made, parameters={**made.parameters, **said})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"bucketCols": ["id"], "numBuckets": 0}, "bucketed into 1"),
        ({"numBuckets": 8}, "bucketed into 8"),
        ({"sortCols": [ttypes.Order(col="id", order=1)]}, "sorted by id"),
        ({"skewedInfo": ttypes.SkewedInfo(["id"], [], {})}, "skewed by id"),
        ({"storedAsSubDirectories": True}, "stored as directories"),
        ({"parameters": {"spark.sql.sources.schema.numBuckets": "2"}}, "for buckets"),
    ],
)
def test_what_a_storage_descriptor_promises_is_seen(changes: dict[str, Any], word: str) -> None:
    raw = raw_table(TABLE)
    check_writable(table_value(raw))
    for name, value in changes.items():
        setattr(raw.sd, name, value)
    with pytest.raises(TableMismatchError, match=word):
        check_writable(table_value(raw))


def test_tables_of_spark_without_a_promise_are_written() -> None:
    whole = spark_table({"spark.sql.partitionProvider": ""})
    for table in (spark_table(), replace(whole, partition_columns=())):
        check_writable(table)
        assert table.parameters["spark.sql.sources.provider"] == "parquet"


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.sources.schema.numBuckets", "0"), ("projection.enabled", "false"),
     ("parquet.mr.int96.write.zone", "UTC"), ("bucketing_version", "2"),
     ("discover.partitions", "true")],
)  # fmt: skip
def test_properties_that_promise_nothing_are_taken(name: str, value: str) -> None:
    check_writable(table := with_parameter(name, value))
    assert table.parameters[name] == value


def partitioned_by(*names: str) -> MetastoreTable:
    return replace(TABLE, partition_columns=tuple(HiveColumn(each, "string") for each in names))


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (replace(TABLE, kind="VIRTUAL_VIEW"), "VIRTUAL_VIEW"),
        (replace(TABLE, kind="MATERIALIZED_VIEW"), "MATERIALIZED_VIEW"),
        (with_parameter("transactional", "TRUE"), "transactional"),
        (with_parameter("storage_handler", "org.hbase.X"), "org.hbase.X"),
        (with_parameter("table_type", "ICEBERG"), "Iceberg"),
        (with_parameter("spark.sql.sources.provider", "delta"), "delta"),
        (with_layout(bucket_count=4), "bucketed into 4"),
        (with_layout(sort_columns=("id",)), "sorted by id"),
        (with_layout(skewed_columns=("id",)), "skewed by id"),
        (with_layout(sub_directories=True), "stored as directories"),
        (with_parameter("spark.sql.sources.schema.numBuckets", "8"), "for buckets"),
        (with_parameter("spark.sql.sources.schema.numBucketCols", "1"), "for buckets"),
        (with_layout(storage_parameters={SORTED: "1"}), "as sorted"),
        (with_parameter("projection.enabled", "TRUE"), "projection.enabled=TRUE: Trino"),
        (with_parameter("parquet.mr.int96.write.zone", "Asia/Shanghai"), "Asia/Shanghai: readers"),
        (with_layout(serde_parameters={"timestamp.formats": "yyyy-dd-MM"}), "another pattern"),
        (with_layout(serde_parameters={"pathGlobFilter": "*.orc"}), "by their names"),
        (with_layout(serde_parameters={"modifiedAfter": "2026-01-01T00:00:00"}), "their age"),
        (with_layout(serde_parameters={"recursiveFileLookup": "true"}), "no partitions"),
        (with_layout(serde_parameters={"datetimeRebaseMode": "LEGACY"}), "before 1582"),
        (with_layout(serde_parameters={"int96RebaseMode": "EXCEPTION"}), "before 1582"),
        (spark_table({"spark.sql.sources.provider": "orc"}), "as orc, and they are parquet"),
        (spark_table(path="/elsewhere/t"), "Spark reads it at /elsewhere/t"),
        (spark_table({"spark.sql.partitionProvider": "filesystem"}), "not in the metastore"),
        (with_layout(serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde"), "OrcSerde"),
        (with_layout(serde="org.apache.hadoop.hive.serde2.RegexSerDe"), "RegexSerDe"),
        (with_layout(location="file:wh/t"), "not absolute"),
        (with_parameter("parquet.column.index.access", "true"), "by position"),
        (partitioned_by("_dt"), "'_dt' has a name"),
        (partitioned_by("dt", ".hr"), "hide folders"),
        (partitioned_by("日期"), "filters"),
        (replace(with_layout(location="file:///wh/_t/"), partition_columns=()), "readers hide"),
    ],
)
def test_check_writable_unfit_table_is_refused(table: MetastoreTable, word: str) -> None:
    with pytest.raises(TableMismatchError, match=word) as caught:
        check_writable(table)
    assert caught.value.hint
    assert caught.value.where == "d.t"


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (with_parameter("table_type", "ICEBERG"), "it is an Iceberg table"),
        (with_parameter("transactional", "true"), "it is transactional"),
    ],
)
def test_table_whose_rows_are_not_those_of_its_files_is_no_source(
    table: MetastoreTable, word: str
) -> None:
    with pytest.raises(TableMismatchError, match=f"a route cannot read it: {word}") as caught:
        check_readable(table)
    assert (caught.value.where, "read the topic" in caught.value.hint) == ("d.t", True)


def test_other_layouts_than_ours_are_sources() -> None:
    check_readable(with_parameter("parquet.column.index.access", "true"))


FIELDS_HIVE_READS = ("a b", "a.b", "a$b", "1a", "é", "日本", "select", "A1")
"""Tried with the type parsers and SerDes of Hive 2.3, as Spark 4.1 brings them, and its own."""
FIELDS_HIVE_REFUSES = (*"!#%&'*+-/;=?@[]^{|}~\t", "😀", "\u0301", "½")


def field_table(
    kind: str, name: str, file_format: FileFormat = FileFormat.PARQUET
) -> MetastoreTable:
    inner = StructType((Field(name, IntegerType(32)),))
    columns = Schema((Field("geo", inner), Field("z", ListType(inner))))
    options = replace(OPTIONS, metastore=kind, schema=columns, file_format=file_format)
    problem = creation_problem(options)
    table = table_to_create(options, columns)
    if problem is not None:
        with pytest.raises(TableMismatchError, match="its readers cannot use it"):
            file_choice(table, options, columns)
        raise JobFileError(problem)
    file_choice(table, options, columns)
    return table


@pytest.mark.parametrize("name", FIELDS_HIVE_READS)
def test_field_names_that_hive_reads_are_spelt_as_it_does(name: str) -> None:
    table = field_table("thrift://h:1", name)
    assert table.layout.columns[0].type == f"struct<{name}:int>"
    assert schema_of(table).fields[0].type == StructType((Field(name, IntegerType(32)),))


@pytest.mark.parametrize("name", [*(f"x{each}y" for each in FIELDS_HIVE_REFUSES), " a", "a "])
def test_field_names_that_hive_does_not_read_are_refused_with_their_path(name: str) -> None:
    with pytest.raises(JobFileError, match=re.escape(f"field geo.{name}: Hive reads")):
        field_table("thrift://h:1", name)
    assert field_table("folder:/wh", name).layout.columns[1].name == "z"


@pytest.mark.parametrize("name", ["1a", "a b", "a.b", "a$b", "x-y"])
def test_field_names_that_avro_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(JobFileError, match="no digit first"):
        field_table("folder:/wh", name, FileFormat.AVRO)
    made = field_table("folder:/wh", "Été_1", FileFormat.AVRO)
    assert made.layout.columns[0].type == "struct<Été_1:int>"


def test_column_of_a_table_of_avro_that_has_no_name_there_is_refused_though_it_stays_null() -> None:
    options = replace(OPTIONS, file_format=FileFormat.AVRO)
    made = table_to_create(options, SCHEMA)
    columns = (*made.layout.columns, HiveColumn("1a", "int"))
    table = replace(made, layout=replace(made.layout, columns=columns))
    with pytest.raises(TableMismatchError, match="column 1a"):
        file_choice(table, options, SCHEMA)


@pytest.mark.parametrize(
    "text", ["struct<`k`:int>", "struct<k:int, n:int>", "struct< k:int>", "array<struct<k :int>>"]
)
def test_type_whose_text_readers_take_otherwise_is_refused(text: str) -> None:
    table = with_layout(columns=(HiveColumn("tags", text), HiveColumn("d", "decimal(10, 2)")))
    for schema in (None, Schema((Field("tags", parse_hive_type(text)),))):
        with pytest.raises(TableMismatchError, match="column tags") as caught:
            filled_columns(table, replace(OPTIONS, schema=schema))
        assert "ALTER TABLE" in (caught.value.hint or "")
    follows = replace(OPTIONS, schema=Schema((Field("d", DecimalType(10, 2)),)), follows=True)
    assert filled_columns(table, follows).null == ("tags",)


def test_blank_in_a_name_is_a_warning_in_parquet_which_hive_reads_otherwise() -> None:
    inner = StructType((Field("a b", IntegerType(32)),))
    written = Schema((Field("geo", ListType(inner)), Field("plain", inner.fields[0].type)))
    (warning,) = format_warnings(FileChoice(FileFormat.PARQUET), written)
    assert "geo[].a b" in warning
    assert format_warnings(FileChoice(FileFormat.ORC), written) == ()


@pytest.mark.parametrize(
    "columns",
    [
        (),
        (HiveColumn("dt", "string"),),
        (HiveColumn("country", "int"), HiveColumn("dt", "string")),
        (HiveColumn("dt", "date"), HiveColumn("country", "int")),
    ],
)
def test_check_definition_other_partition_columns_are_refused(
    columns: tuple[HiveColumn, ...],
) -> None:
    with pytest.raises(TableMismatchError, match="the job file says"):
        check_definition(replace(TABLE, partition_columns=columns), OPTIONS)


def test_check_definition_other_location_is_refused() -> None:
    check_definition(with_layout(location="file:///wh/t/"), OPTIONS)
    with pytest.raises(TableMismatchError, match="/other"):
        check_definition(with_layout(location="/other"), OPTIONS)


def test_a_copy_in_the_catalog_of_another_room_is_refused_with_what_it_needs() -> None:
    with pytest.raises(TableMismatchError, match="location is /other") as refused:
        check_definition(with_layout(location="/other"), replace(OPTIONS, copied=True))
    assert "each room needs a metastore of its own" in refused.value.hint
    assert "copy no `_catalog`" in refused.value.hint


def test_match_schema_takes_the_tables_names_and_keeps_the_payloads_keys() -> None:
    schema, unfilled = match_schema(TABLE, SCHEMA)
    assert [field.name for field in schema.fields] == ["id", "username", "price", "tags"]
    assert schema.fields[1].path == ("userName",)
    assert schema.fields[2].path == ("p", "amount")
    assert schema.fields[0].required
    assert unfilled == ()


def test_match_schema_all_differences_are_named_at_once() -> None:
    columns = (HiveColumn("id", "int"), HiveColumn("extra", "uniontype<int>"))
    with pytest.raises(TableMismatchError) as caught:
        match_schema(with_layout(columns=columns), SCHEMA)
    assert "column id is int, expected bigint" in caught.value.message
    assert "column userName string is missing" in caught.value.message
    assert "column price decimal(18,2) is missing" in caught.value.message


def test_match_schema_further_columns_stay_null_with_a_warning() -> None:
    table = with_layout(columns=(*TABLE.layout.columns, HiveColumn("extra", "int")))
    _, unfilled = match_schema(table, SCHEMA)
    assert unfilled == ("extra",)
    assert "extra" in warnings_of(table, unfilled)[0]


def test_schema_of_table_reads_types_and_refuses_others() -> None:
    assert schema_of(TABLE).fields[2].type == DecimalType(18, 2)
    odd = with_layout(columns=(HiveColumn("u", "uniontype<int,string>"),))
    with pytest.raises(TableMismatchError, match="column u has the type uniontype"):
        schema_of(odd)


def test_warnings_of_managed_table_says_what_drop_does() -> None:
    managed = replace(TABLE, kind="MANAGED_TABLE", parameters={})
    check_writable(managed)
    assert "DROP TABLE" in warnings_of(managed, ())[0]


def test_compression_of_follows_the_table_where_it_can() -> None:
    own = file_choice(with_parameter("parquet.compression", "SNAPPY"), OPTIONS, SCHEMA)
    assert own.compression == "snappy"
    ours = replace(OPTIONS, compression="gzip")
    assert (
        file_choice(with_parameter("parquet.compression", "LZO"), ours, SCHEMA).compression
        == "gzip"
    )
