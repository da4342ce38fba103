from pathlib import Path

import pytest

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.cli.job_file import inspect_checked_job
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.transform import sql_places
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.sql_rule import DimensionRule, FunctionRule
from sluiceway.jobfile.loader import parse_job
from sluiceway.jobfile.problems import Mark

SMALL = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a]}
format: {json: {}}
transform:
  columns:
  - {name: id, type: bigint, required: true}
  - {name: ts, type: bigint}
  sql: |
    SELECT id, half(id) AS h
    FROM input LEFT JOIN users u ON u.id = input.id
  tables: {users: {table: dim.users, refresh: 1m}}
  functions: {half: {python: "acme.maths:half", returns: bigint}}
  timezone: Asia/Shanghai
table:
  hive: {connection: hms, name: ods.small}
  columns: from_sql
  partition_by: [{name: dt, event_time: yyyyMMdd}, {name: h, column: h}]
event_time: {field: ts, unit: ms}
"""


def load(text: str) -> RouteSpec:
    (route,) = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    return route


def replaced(old: str, new: str) -> str:
    assert SMALL.count(old) == 1, old
    return SMALL.replace(old, new)


def problems_of(text: str) -> list[str]:
    found = inspect_checked_job(text.encode(), Path("job.yaml")).problems
    return [f"{each.mark.line}:{each.mark.column}: {each.text}" for each in found]


def test_sql_of_a_route_passes_on_as_it_is_written() -> None:
    config = compile_route(load(SMALL))
    assert config.sql is not None
    assert config.sql.sql.startswith("SELECT id, half(id) AS h\nFROM input")
    assert config.sql.timezone == "Asia/Shanghai"
    (users,) = config.sql.tables
    assert users == DimensionRule("users", "dim.users", 60.0, users.access)
    assert users.access is not None
    assert dict(users.access.options)["metastore"] == "thrift://hms:9083"
    assert config.sql.functions == (
        FunctionRule("half", "acme.maths:half", "bigint", vectorised=False),
    )
    assert not config.sql.of_table
    assert config.columns is not None
    assert [field.name for field in config.columns.fields] == ["id", "ts"]
    # The table's columns are known once Spark has read the SQL.
    assert config.table.schema is None


def test_columns_may_be_those_of_a_table_that_exists() -> None:
    config = compile_route(load(replaced("from_sql", "from_table")))
    assert config.sql is not None
    assert config.sql.of_table


def test_small_table_may_be_in_another_catalog() -> None:
    lake = "connections:\n  lake: {iceberg: {sql: {uri: 'sqlite:///c.db', warehouse: /tmp/w}}}"
    named = replaced("{table: dim.users,", "{table: dim.Users, connection: lake,")
    config = compile_route(load(named.replace("connections:", lake)))
    assert config.sql is not None
    (users,) = config.sql.tables
    assert users.access is not None
    assert users.access.kind == LAKE_SOURCE
    found = LakeUpstream.of(dict(users.access.options))
    assert (found.name, dict(found.catalog)["uri"]) == ("dim.Users", "sqlite:///c.db")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("dim.users,", "dim.users, connection: main,", "15:50: expected a connection to a cat"),
        ("dim.users,", "dim.users, connection: none,", "15:50: expected a connection to a cat"),
        ("from_sql", "[{name: id, type: bigint}]", "20:12: expected `from_sql` or `from_table`"),
        ("  sql: |\n", "  sql: ''\n  x: |\n", "12:8: expected one query of Spark SQL"),
        ("{users: {", "{Input: {", "15:12: expected another name than `input`"),
        ("half: {python", "'a': {pandas: 'b:c', python", "16:20: expected exactly one of"),
        ("acme.maths:half", "acme.maths", "16:30: expected `module:function`"),
        ("name: ts", "name: ID", "11:12: expected names that differ in more than case"),
        ("columns: from_sql", "columns: from_sql\n  key: [id]", "21:3: `transform.sql` into a"),
        ("from_sql", "from_sql\n  evolution: follow_table", "21:14: expected `evolution: fail`"),
        ("field: ts", "field: tss", "22:21: expected the path of a declared column"),
        ("returns: bigint", "returns: bignt", "16:58: expected a Hive type, got `bignt`"),
        ("type: bigint}\n  sql", "type: bignt}\n  sql", "11:22: expected a Hive type"),
    ],
)
def test_wrong_transform_is_reported_where_it_is_written(old: str, new: str, problem: str) -> None:
    found = problems_of(replaced(old, new))
    assert any(each.startswith(problem) for each in found), found


def test_from_sql_needs_sql() -> None:
    before, _, after = SMALL.partition("transform:")
    text = before + after[after.index("table:\n  hive") :]
    text = text.replace("event_time: yyyyMMdd", "processing_time: yyyyMMdd")
    text = text[: text.index("event_time:")]
    assert problems_of(text) == ["10:12: expected `transform.sql` with `from_sql`, got none"]


def test_sql_over_a_topic_needs_the_columns_that_are_decoded() -> None:
    start, end = SMALL.index("  columns:\n"), SMALL.index("  sql: |")
    found = problems_of(SMALL[:start] + SMALL[end:])
    assert "8:1: expected `transform.columns`, the columns that are decoded, got none" in found


@pytest.mark.parametrize(
    ("file", "text", "mark", "expected"),
    [
        ("sql: |\n  SELECT\n   bad\n", "SELECT\n bad\n", Mark(1, 6), "f:3:4"),
        ("sql: 'it''s bad'\n", "it's bad", Mark(1, 6), "f:1:13"),
        ('sql: "a bad"\n', "a bad", Mark(1, 6), "f:1:9"),
        ("sql: a\n  bad\n", "a bad", Mark(1, 6), "f:2:3"),
        ("sql: >\n  a\n  bad\n", "a bad\n", Mark(1, 6), "f:3:3"),
        ("sql: ${env:X}\n", "not there bad", Mark(1, 6), "f:1:6"),
    ],
)
def test_place_of_a_character_of_the_sql(file: str, text: str, mark: Mark, expected: str) -> None:
    places = sql_places(file, text, mark, "f")
    index = text.index("bad")
    assert places.place(index if expected != "f:1:6" else None) == expected
    assert places.place(None) == f"f:{places.runs[0][1].line}:{places.runs[0][1].column}"


def test_later_characters_follow_the_place_of_their_run() -> None:
    assert sql_places("sql: SELECT id\n", "SELECT id", Mark(1, 6), "f").place(8) == "f:1:14"
