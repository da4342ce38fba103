"""A route that reads a table: what goes without saying, and what means something of topics only."""

import json
from pathlib import Path

import fastjsonschema
import pytest
from ruamel.yaml import YAML

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.options import UpstreamOptions
from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.followers.lineage_events import source_namespace
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.json_schema import job_file_schema
from sluiceway.jobfile.loader import LoadedJob, parse_job
from sluiceway.sources.registry import SourceAccess

ALONE = """\
version: 1
name: refined
connections: {hms: {metastore: {uri: "thrift://hms:9083"}}}
source: {table: Ods.Raw}
table:
  hive: {connection: hms, name: ods.refined}
  columns: [{name: id, type: bigint}, {name: city, type: string, path: Geo.city}]
  partition_by: []
"""
MANY = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
  old: {metastore: {uri: "thrift://old:9083"}}
  sr: {schema_registry: {url: "http://sr:8081"}}
source: {connection: main, start: {group: old}, max_rate: 5/s}
format: {avro: {registry: sr}}
table:
  hive: {connection: hms}
  columns: [{name: id, type: bigint}, {name: ts, type: bigint}]
  partition_by: [{name: dt, event_time: yyyyMMdd}]
event_time: {field: ts, unit: ms}
ready: {}
routes:
  - {topics: [a], table: ods.raw}
"""
TABLE_ROUTE = "  - {source: {table: ods.raw}, table: ods.refined}\n"


def job_of(text: str) -> LoadedJob:
    return parse_job(text.encode(), Path("job.yaml"), {})


def problems_of(text: str) -> str:
    with pytest.raises((JobFileError, NotInThisVersionError)) as caught:
        job_of(text)
    return caught.value.message


def test_table_alone_says_what_is_read_and_how() -> None:
    (route,) = job_of(ALONE).spec.routes
    config = compile_route(route)
    assert (config.topics, config.pattern) == (("table:ods.raw",), "")
    assert (config.format.name, config.format.options) == ("table", ())
    assert config.start == StartAt("earliest")
    assert route.start_reason == "tables are read whole"
    options = UpstreamOptions.of(dict(config.source.options))
    assert (options.name, options.metastore) == ("ods.raw", "thrift://hms:9083")
    assert options.columns == ("geo", "id")


def test_route_leaves_out_what_the_file_says_of_topics() -> None:
    raw, refined = job_of(MANY + TABLE_ROUTE).spec.routes
    assert (raw.source.connection, raw.source.names) == ("main", ("a",))
    assert (refined.source.connection, refined.source.names) == ("hms", ("table:ods.raw",))
    assert refined.start_at == StartAt("earliest")
    assert refined.source.max_rate_per_s == 5
    given = "  - {source: {table: ods.raw, connection: old, start: latest}, table: ods.refined}\n"
    _, other = job_of(MANY + given).spec.routes
    assert (other.source.connection, other.start_at) == ("old", StartAt("latest"))


def test_columns_of_the_table_are_all_read_where_the_own_table_decides() -> None:
    text = ALONE.replace("  columns:", "  evolution: follow_table\n  columns:")
    options = UpstreamOptions.of(dict(compile_route(job_of(text).spec.routes[0]).source.options))
    assert options.columns == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{table: Ods.Raw}", "{table: Ods.Raw, topics: [a]}", "4:10: expected either `topics` or"),
        ("table:\n", "format: {csv: {}}\ntable:\n", "5:1: expected no `format`"),
        ("table:\n", "format: {json: {}}\ntable:\n", "5:1: expected no `format`"),
        ("{table: Ods.Raw}", "{table: Ods.Raw, start: {offsets: {a: {0: 1}}}}", "4:33: expected"),
        ("{table: Ods.Raw}", "{table: ods.refined}", "another table than the route's own"),
        ("{table: Ods.Raw}", "{table: raw}", "4:17: expected `database.table`"),
        (
            "{table: Ods.Raw}",
            "{table: Ods.Raw, connection: no}",
            "metastore or folder or iceberg connection",
        ),
        ("  columns:", "  evolution: quarantine\n  columns:", "expected `fail` or `follow_table`"),
    ],
)
def test_what_means_something_of_topics_only_is_told(old: str, new: str, told: str) -> None:
    assert told in problems_of(ALONE.replace(old, new, 1))


def test_keyed_table_is_not_in_this_version() -> None:
    told = problems_of(ALONE.replace("  columns:", "  key: [id]\n  columns:"))
    assert "a table with a `key` that is filled from another table is not in this version" in told


FIRST = """\
version: 1
name: anew
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a], bootstrap: {table: Ods.Raw}}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.anew}
  columns: [{name: id, type: bigint, path: order.id}]
  partition_by: []
"""


def test_route_reads_a_table_before_its_topics_by_the_names_of_its_columns() -> None:
    config = compile_route(job_of(FIRST).spec.routes[0])
    first = config.followed
    assert (config.topics, config.source.kind, config.format.name) == (("a",), "kafka", "json")
    assert first is not None
    assert (first.topics, first.source.kind, first.format.name) == (
        ("table:ods.raw",),
        "table",
        "table",
    )
    options = UpstreamOptions.of(dict(first.source.options))
    assert (options.name, options.metastore, options.columns) == (
        "ods.raw",
        "thrift://hms:9083",
        ("id",),
    )
    assert (first.table.table, first.group) == (config.table.table, config.group)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("topics: [a]", "topics: a.*", "6:41: expected a list of `topics`"),
        ("topics: [a]", "topics: [a], start: latest", "6:41: expected no `start`"),
        ("Ods.Raw", "Ods.Anew", "6:60: expected another table than the route's own"),
        ("Ods.Raw", "Ods.Raw, connection: main", "6:81: expected the metastore or folder"),
        ("Ods.Raw", "Ods.Raw, then: nothing", "6:75: expected"),
        ("  columns:", "  evolution: add_columns\n  columns:", "10:14: expected `fail` or"),
        ("  columns:", "  key: [id]\n  columns:", "not in this version: a table with a `key`"),
        ("json: {}", "canal: {}", "not in this version: a change log"),
        ("table:\n", "ready: {}\ntable:\n", "not in this version: announced hours"),
    ],
)
def test_what_a_route_cannot_have_that_reads_a_table_first(old: str, new: str, told: str) -> None:
    assert told in problems_of(FIRST.replace(old, new, 1))


def test_both_tables_of_a_chain_have_the_same_leading_times() -> None:
    other = "  - {source: {table: ods.raw}, table: {hive: {name: ods.refined}, partition_by: "
    told = problems_of(MANY + other + "[{name: day, event_time: yyyyMMdd}]}}\n")
    assert ":18:" in told
    assert (
        "expected the leading time columns of ods.raw, for the block `ready`: dt: yyyyMMdd" in told
    )
    more = "[{name: dt, event_time: yyyyMMdd}, {name: id, column: id}]}}\n"
    assert len(job_of(MANY + other + more).spec.routes) == 2


@pytest.mark.parametrize("ready", ["ready: {}\n", ""])
def test_tables_that_are_filled_from_each_other_are_refused_by_name(ready: str) -> None:
    a, b, c = (
        f"  - {{source: {{table: ods.{read}}}, table: ods.{filled}}}\n"
        for filled, read in (("a", "B"), ("b", "c"), ("c", "a"))
    )
    routes = MANY.replace("ready: {}\n", ready) + a + b
    with_end = routes + c.replace("table: ods.a}", "table: ods.d}")
    assert len(job_of(with_end).spec.routes) == 4
    told = problems_of(routes + c).splitlines()[1:]
    line = len(MANY.replace("ready: {}\n", ready).splitlines()) + 1
    assert told == [
        f"  job.yaml:{line}:22: expected tables that are not filled from themselves, got a cycle: "
        "ods.a from ods.b from ods.c from ods.a; let one of them read topics"
    ]
    own = "  - {source: {table: ods.a}, table: ods.a}\n"
    assert "a cycle" not in problems_of(MANY + own)


def test_schema_for_editors_knows_both_forms() -> None:
    schema = fastjsonschema.compile(job_file_schema())
    for text in (ALONE, MANY + TABLE_ROUTE):
        assert schema(json.loads(json.dumps(YAML(typ="safe").load(text))))
    data = YAML(typ="safe").load(ALONE)
    data["source"] = {"start": "latest"}
    with pytest.raises(fastjsonschema.JsonSchemaValueException, match="any definition"):
        schema(data)


LAKE = ALONE.replace(
    "connections: {", 'connections: {ice: {iceberg: {rest: {uri: "http://r:1"}}}, '
).replace("{table: Ods.Raw}", "{connection: ice, table: Ods.Raw}")


def test_iceberg_table_is_read_by_its_own_catalog() -> None:
    config = compile_route(job_of(LAKE).spec.routes[0])
    assert config.source.kind == LAKE_SOURCE
    found = LakeUpstream.of(dict(config.source.options))
    assert (found.name, found.topic, found.columns) == ("ods.raw", "table:ods.raw", ("geo", "id"))
    assert {("kind", "rest"), ("uri", "http://r:1")} <= set(found.catalog)
    assert config.topics == ("table:ods.raw",)
    assert source_namespace(config.source) == "http://r:1"


def test_lineage_names_the_catalog_of_an_iceberg_table_without_its_login() -> None:
    for uri, wanted in (
        ("thrift://hms:9083", "hive://hms:9083"),
        ("postgresql://u:s3cret@db:5432/ice", "postgresql://db:5432/ice"),
    ):
        made = LakeUpstream("ods.raw", (("kind", "sql"), ("uri", uri)))
        assert source_namespace(SourceAccess(LAKE_SOURCE, made.texts())) == wanted


def test_iceberg_table_whose_rows_are_replaced_is_not_followed() -> None:
    text = LAKE.replace("table: Ods.Raw}", "table: Ods.Raw, on_correction: follow}")
    told = problems_of(text)
    assert "whose rows are replaced is not followed" in told
    assert "write `ignore`" in told


def test_removed_rows_of_an_iceberg_table_are_passed_over_where_the_file_says_so() -> None:
    def rule(more: str) -> str:
        (route,) = job_of(LAKE.replace("table: Ods.Raw}", f"table: Ods.Raw{more}}}")).spec.routes
        return LakeUpstream.of(dict(compile_route(route).source.options)).on_correction

    assert [rule(""), rule(", on_correction: ignore")] == ["halt", "ignore"]


def test_iceberg_table_may_be_halted_at_and_read_from_its_end() -> None:
    more = "table: Ods.Raw, start: latest, on_correction: halt}"
    (route,) = job_of(LAKE.replace("table: Ods.Raw}", more)).spec.routes
    assert route.start_at == StartAt("latest")
    assert "start_ms" not in dict(compile_route(route).source.options)


@pytest.mark.parametrize(
    ("time", "start_ms"), [("2026-11-20T00:00:00Z", 1_795_132_800_000), ("1970-01-01T00:00:00Z", 0)]
)
def test_iceberg_table_is_read_from_a_time_on(time: str, start_ms: int) -> None:
    timed = f"table: Ods.Raw, start: {{timestamp: {time}}}}}"
    (route,) = job_of(LAKE.replace("table: Ods.Raw}", timed)).spec.routes
    access = compile_route(route).source
    assert LakeUpstream.of(dict(access.options)).start_ms == start_ms


def test_redirected_late_rows_and_followed_corrections_do_not_go_together() -> None:
    days = ALONE.replace("partition_by: []", "partition_by: [{name: dt, event_time: yyyyMMdd}]")
    text = f"{days}event_time: {{field: id, unit: ms, late: redirect}}\nready: {{}}\n"
    assert "`late: redirect` with `on_correction: follow` is not in this" in problems_of(text)
    assert job_of(text.replace("Ods.Raw}", "Ods.Raw, on_correction: halt}")).spec.routes
