"""Job files of lake tables: what they say, and what this version refuses by name."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.routes import default_route_name
from sluiceway.jobfile.compile.compile import compile_route, compile_routes
from sluiceway.jobfile.loader import parse_job
from sluiceway.sinks.lake_options import LakeField, parse_stores

HMS = "hive: {uri: 'thrift://h:9083'}"
LAKE = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  lake: {iceberg: {rest: {uri: "https://c:8181", warehouse: w, token: "${env:T}"}}}
source: {connection: main, topics: [a]}
format: {json: {}}
table:
  iceberg: {connection: lake, name: ods.small, publish_interval: 5s, max_lag: 2h}
  columns: [{name: id, type: bigint}, {name: ts, type: timestamp}, {name: app, type: string}]
  partition_by: [{name: dt, event_time: yyyyMMdd}, {column: ts, transform: hour}, {column: app}]
event_time: {field: ts}
"""


def load(text: str) -> RouteSpec:
    (route,) = parse_job(text.encode(), Path("job.yaml"), {"T": "secret"}).spec.routes
    return route


def test_lake_table_is_compiled_with_its_catalog_and_partition_fields() -> None:
    config = compile_route(load(LAKE))
    lake = config.table.lake
    assert lake is not None
    assert (lake.publish_interval_s, lake.max_lag_s, lake.stored) == (5.0, 7200.0, ("dt",))
    assert lake.fields == (
        LakeField("dt", "dt"),
        LakeField("ts_hour", "ts", "hour"),
        LakeField("app", "app"),
    )
    assert config.catalog.kind == "iceberg"
    options = dict(config.catalog.options)
    assert (options["kind"], options["uri"], options["token"]) == (
        *("rest", "https://c:8181"),
        "secret",
    )
    assert "secret" not in repr(config.catalog)
    assert config.table.schema is not None
    assert [field.name for field in config.table.schema.fields] == ["id", "ts", "app"]


@pytest.mark.parametrize(
    ("name", "database", "table"),
    [
        ("Sales.Orders", "Sales", "Orders"),
        ("a.b.c", "a.b", "c"),
        ("eu-1.order-items", "eu-1", "order-items"),
    ],
)
def test_names_are_the_catalogs_own_where_it_keeps_them(
    name: str, database: str, table: str
) -> None:
    text = LAKE.replace("name: ods.small", f"name: {name}")
    config = compile_route(load(text))
    assert (config.table.database, config.table.table) == (database, table)
    hive = text.replace('rest: {uri: "https://c:8181", warehouse: w, token: "${env:T}"}', HMS)
    if name == "Sales.Orders":
        options = compile_route(load(hive)).table
        assert (options.database, options.table) == ("sales", "orders")
    else:
        with pytest.raises(JobFileError, match="of the kind hive has no other names"):
            load(hive)


def test_two_names_that_give_one_route_name_by_dots_are_told_apart() -> None:
    names = ["a.b.c", "a-b.c", "a.b-c", "a.b_c"]
    routes = {default_route_name(name) for name in names}
    assert len(routes) == len(names)
    assert default_route_name("a.b_c") == "a-b_c"


def test_a_pattern_keeps_the_case_of_topics_in_names_of_lake_tables() -> None:
    text = LAKE.replace("topics: [a]", 'topics: "shop_(.*)"')
    text = text.replace("ods.small", "'ods.{1}'").replace("name: small", "name: s")
    (template,) = compile_routes(
        parse_job(text.encode(), Path("job.yaml"), {"T": "x"}).spec
    ).templates
    found = template.expand(("shop_Orders", "shop_order-items", "shop_a b"))
    assert [(route.table.database, route.table.table) for route in found.routes] == [
        ("ods", "Orders"),
        ("ods", "order-items"),
    ]
    assert [each.topic for each in found.refused] == ["shop_a b"]


def test_routes_of_lake_tables_are_named_like_others() -> None:
    text = LAKE.replace(", topics: [a]", "").replace(", name: ods.small", "")
    text += "routes:\n  - {topics: [a], table: ods.a}\n  - {topics: [b], table: ods.b}\n"
    routes = parse_job(text.encode(), Path("job.yaml"), {"T": "x"}).spec.routes
    assert [(route.route, route.table.target.table) for route in routes] == [
        *(("ods-a", "a"), ("ods-b", "b")),
    ]
    assert {route.table.hive for route in routes} == {None}


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("retention: {partitions: 30d}\n", "`retention` of lake tables"),
        ("ready: {visible: on_ready}\n", "`visible: on_ready` of lake tables"),
        ("ready: {success_file: true}\n", "`success_file` of lake tables"),
        ("files: {compact: before_ready}\n", "`compact: before_ready` of lake tables"),
        ("dirty: {store: {table: ods.dirty}}\n", "a table of dirty rows with a lake table"),
    ],
)
def test_what_lake_tables_cannot_do_yet_is_refused_by_name(more: str, named: str) -> None:
    with pytest.raises((NotInThisVersionError, JobFileError)) as caught:
        load(LAKE + more)
    assert f"{named}" in caught.value.message
    assert "is not in this version" in caught.value.message


@pytest.mark.parametrize("evolution", ["follow_table", "add_columns"])
def test_lake_tables_are_followed(evolution: str) -> None:
    text = LAKE.replace("table:\n", f"table:\n  evolution: {evolution}\n")
    assert compile_route(load(text)).table.follows


def test_late_rows_cannot_reopen_a_lake_table() -> None:
    text = LAKE.replace("{field: ts}", "{field: ts, late: reopen}")
    with pytest.raises((NotInThisVersionError, JobFileError), match="late: reopen` of lake tables"):
        load(text)


def test_ready_shows_rows_when_they_are_committed() -> None:
    config = compile_route(load(LAKE + "ready: {}\n"))
    assert config.ready is not None
    assert not config.ready.on_ready
    assert not config.compact_before_ready


def test_a_wrong_transform_is_told_where_it_stands() -> None:
    with pytest.raises(JobFileError, match=r"job.yaml:11:\d+: expected `identity`"):
        load(LAKE.replace("transform: hour", "transform: minute"))


def test_transforms_are_of_lake_tables_only() -> None:
    text = LAKE.replace("iceberg: {rest", "metastore: {uri: 'thrift://h:1'}}\n  x: {iceberg: {rest")
    table = "hive: {connection: lake, name: ods.small}"
    text = text.replace(
        "iceberg: {connection: lake, name: ods.small, publish_interval: 5s, max_lag: 2h}", table
    ).replace("{column: app}", "{name: p, column: app}")
    with pytest.raises(JobFileError, match="expected `transform` in tables of the kind iceberg"):
        load(text.replace("{column: ts, transform", "{name: h, column: ts, transform"))


def test_meta_columns_have_names_that_spark_reads() -> None:
    text = LAKE.replace("  partition_by", "  meta: [topic, partition, offset]\n  partition_by", 1)
    names = [column.name for column in load(text).table.meta]
    assert names == ["_topic", "_source_partition", "_offset"]
    named = LAKE.replace("  partition_by", "  meta: {partition: p}\n  partition_by", 1)
    assert [column.name for column in load(named).table.meta] == ["p"]


@pytest.mark.parametrize(
    "change",
    [
        ("{name: id, type: bigint}", "{name: _Pos, type: bigint}"),
        ("  partition_by", "  meta: {partition: _partition}\n  partition_by"),
    ],
)
def test_names_that_iceberg_keeps_for_itself_are_refused(change: tuple[str, str]) -> None:
    with pytest.raises(JobFileError, match="does not keep for itself"):
        load(LAKE.replace(*change, 1))


def test_a_tag_of_complete_hours_is_for_lake_tables() -> None:
    text = LAKE.replace("event_time: {field: ts}", "event_time: {field: ts}\nready: {tag: 7d}")
    shown = text.replace("{tag: 7d}", "{visible: on_commit, tag: 7d}")
    lake = compile_route(load(shown)).table.lake
    assert lake is not None
    assert (lake.ready_property, lake.ready_tag_ms) == (True, 7 * 86_400_000)
    quiet = compile_route(load(text.replace("{tag: 7d}", "{visible: on_commit, property: false}")))
    assert quiet.table.lake is not None
    assert (quiet.table.lake.ready_property, quiet.table.lake.ready_tag_ms) == (False, None)
    hive = text.replace(
        "iceberg: {connection: lake, name: ods.small, publish_interval: 5s, max_lag: 2h}",
        "hive: {connection: m, name: ods.small}",
    )
    hive = hive.replace("  lake: {", '  m: {metastore: {uri: "thrift://h:1"}}\n  lake: {').replace(
        ", {column: ts, transform: hour}", ""
    )
    with pytest.raises(JobFileError, match="expected `tag` with tables of the kind iceberg"):
        load(hive)


def test_metadata_files_on_s3_are_reached_as_the_job_file_reaches_data_files() -> None:
    store = '{s3: {endpoint: "http://s:9000", path_style: true, access_key: a, '
    store += 'secret_key: "${env:T}"}}'
    text = LAKE.replace("  lake: {", f"  bucket: {store}\n  lake: {{", 1)
    route = compile_route(load(text))
    options = dict(route.catalog.options)
    assert options["py-io-impl"].endswith("StoreFileIO")
    assert parse_stores(options["sluiceway.stores"]) == route.stores
    own = text.replace("warehouse: w,", "warehouse: w, properties: {s3.region: elsewhere},")
    options = dict(compile_route(load(own)).catalog.options)
    assert "py-io-impl" not in options
    assert options["s3.endpoint"] == "http://s:9000"
    assert (options["s3.access-key-id"], options["s3.secret-access-key"]) == ("a", "secret")
    assert options["s3.region"] == "elsewhere"
    assert "s3.force-virtual-addressing" not in options
    own = text.replace("warehouse: w,", "warehouse: w, properties: {s3.endpoint: 'http://other'},")
    assert dict(compile_route(load(own)).catalog.options)["s3.endpoint"] == "http://other"


def test_how_long_snapshots_stay_and_whether_files_are_merged() -> None:
    lake = compile_route(load(LAKE)).table.lake
    assert lake is not None
    assert (lake.compact, lake.keep_snapshots_s) == (True, None)
    text = LAKE.replace("max_lag: 2h", "max_lag: 2h, keep_snapshots: 1d")
    lake = compile_route(load(f"{text}files: {{compact: never}}\n")).table.lake
    assert lake is not None
    assert (lake.compact, lake.keep_snapshots_s) == (False, 86_400.0)
    with pytest.raises(JobFileError):
        load(text.replace("keep_snapshots: 1d", "keep_snapshots: 1m"))


def problems_of(text: str) -> str:
    with pytest.raises(JobFileError) as failure:
        load(text)
    return f"{failure.value.message} {failure.value.hint}"


def test_a_transform_that_is_none_is_the_only_problem() -> None:
    told = problems_of(LAKE.replace("transform: hour", "transform: bucket(16)"))
    assert "`bucket[N]` or `truncate[W]`, got `bucket(16)`" in told
    assert "a name of letters" not in told


def test_a_lake_connection_below_hive_is_told_with_the_key_to_write() -> None:
    told = problems_of(LAKE.replace("iceberg: {connection: lake", "hive: {connection: lake"))
    assert "got `lake`; write `iceberg:` in place of `hive:`" in told
