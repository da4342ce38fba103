"""A route that computes units of a table: its keys, and what it takes over from the file."""

from pathlib import Path

import pytest

from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.chains.open_units import unit_upstream
from sluiceway.chains.units import UNITS, UnitRule, UnitWhen
from sluiceway.cli.views.job_summary import summary_for_people
from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job

FILE = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, start: earliest, max_rate: 5/s}
format: {json: {}}
table:
  hive: {connection: hms}
  columns: [{name: id, type: bigint}, {name: ts, type: bigint}]
  partition_by: [{name: dt, event_time: yyyyMMdd}, {name: hr, event_time: HH}]
  meta: [offset]
where: "id > 0"
event_time: {field: ts, unit: ms}
ready: {}
routes:
  - {topics: [a], table: ods.raw}
"""
SOURCE = "table: ods.raw, mode: recompute, unit: [dt, hr]"
SQL = '{sql: "SELECT count(*) AS n FROM input"}'


def route_of(source: str = SOURCE, transform: str = SQL, more: str = "") -> RouteSpec:
    text = f"  - {{source: {{{source}}}, transform: {transform}, table: dm.hourly{more}}}\n"
    _, route = parse_job((FILE + text).encode(), Path("job.yaml"), {}).spec.routes
    return route


def test_route_takes_over_nothing_that_the_file_says_of_single_rows() -> None:
    route = route_of()
    config = compile_route(route)
    assert (config.topics, config.event_time, config.ready) == (("table:ods.raw",), None, None)
    assert [(each.name, each.constant) for each in config.partitions] == [
        ("dt", "unit"),
        ("hr", "unit"),
    ]
    assert (config.meta, config.choices.where, route.table.columns_of_sql) == ((), None, True)
    rule = config.units
    assert rule is not None
    assert (rule.columns, rule.when, rule.settle_ms) == (("dt", "hr"), UnitWhen.READY, 600_000)
    assert UnitRule.of(dict(config.source.options)[UNITS]) == rule


def test_what_decides_the_rows_decides_the_fingerprint() -> None:
    def mark(**given: str) -> str:
        rule = compile_route(route_of(**given)).units
        assert rule is not None
        return rule.fingerprint

    marks = [
        mark(),
        mark(transform=SQL.replace("count(*)", "max(id)")),
        mark(transform=SQL.replace("}", ", timezone: Asia/Shanghai}")),
        mark(transform=SQL.replace("}", ", functions: {f: {python: 'm:f', returns: int}}}")),
    ]
    assert len(set(marks)) == len(marks)
    assert mark(transform=SQL.replace('"SELECT', '" SELECT')) == marks[0]
    assert mark(source=f"{SOURCE}, when: settled") == marks[0]


def test_announced_units_have_marks_and_receivers_but_no_times() -> None:
    hook = ", ready: {success_file: true, webhook: {url: 'https://h/x'}}"
    given = compile_route(route_of(more=hook))
    rule = given.unit_announcements
    assert rule is not None
    assert (given.ready, given.announcements) == (None, rule)
    assert (rule.success_file, rule.table_property, rule.topic) == (True, False, None)
    assert rule.webhook is not None
    file = FILE.replace("ready: {}", "ready: {allowed_lateness: 5m, success_file: true}")
    route = f"  - {{source: {{{SOURCE}}}, transform: {SQL}, table: dm.hourly}}\n"
    spec = parse_job((file + route).encode(), Path("job.yaml"), {}).spec
    above, units = spec.routes
    taken = compile_route(units).announcements
    assert taken is not None
    assert taken.success_file
    assert compile_route(above).unit_announcements is None
    assert "each unit, when it is computed: _SUCCESS\n" in summary_for_people("job.yaml", spec)


def test_property_of_an_iceberg_table_is_as_the_file_says_for_all_routes() -> None:
    lake = "  lake: {iceberg: {rest: {uri: 'http://c:8181'}}}\nsource:"
    route = f"  - {{source: {{{SOURCE}}}, transform: {SQL}, table: "
    route += "{iceberg: {connection: lake, name: dm.hourly}}}\n"
    for written, wanted in (("{}", True), ("{property: false}", False)):
        file = FILE.replace("ready: {}", f"ready: {written}").replace("\nsource:", f"\n{lake}", 1)
        _, units = parse_job((file + route).encode(), Path("job.yaml"), {}).spec.routes
        found = compile_route(units).table.lake
        assert found is not None
        assert found.ready_property is wanted


def test_corrections_that_the_file_names_are_not_those_of_units() -> None:
    file = FILE.replace("max_rate: 5/s", "on_correction: halt")
    file = file.replace("{topics: [a], ", "{source: {table: ods.old}, ")
    route = f"  - {{source: {{{SOURCE}}}, transform: {SQL}, table: dm.hourly}}\n"
    above, units = parse_job((file + route).encode(), Path("job.yaml"), {}).spec.routes
    assert (above.source.on_correction, units.source.on_correction) == ("halt", "follow")


def test_settled_units_have_a_time() -> None:
    rule = compile_route(route_of(f"{SOURCE}, when: settled, settle: 5m")).units
    assert rule is not None
    assert (rule.when, rule.settle_ms) == (UnitWhen.SETTLED, 300_000)


def test_route_that_appends_has_no_units() -> None:
    text = FILE + "  - {source: {table: ods.raw}, table: ods.refined}\n"
    _, route = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    assert compile_route(route).units is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"source": "table: ods.raw, unit: [dt]"}, "18:31: expected `unit` together with"),
        ({"source": "table: ods.raw, mode: recompute"}, "18:31: expected `unit` for"),
        ({"source": f"{SOURCE}, settle: 5m"}, "18:64: expected `settle` together with"),
        ({"source": SOURCE.replace("[dt, hr]", "[hr]")}, "18:54: expected leading partition"),
        ({"source": SOURCE.replace("[dt, hr]", "[dt]")}, "18:54: expected the times that"),
        ({"more": ', where: "n > 1"'}, "expected no `where` for `mode: recompute`"),
        ({"more": ", ready: {visible: on_ready}"}, "18:144: expected no `visible` for"),
        ({"more": ", ready: {allowed_lateness: 5m}"}, "expected no `allowed_lateness` for"),
        ({"more": ", ready: {on_all_idle: hold}"}, "expected no `on_all_idle` for"),
        ({"more": ", ready: {property: true}"}, "expected no `property` for"),
        ({"source": f"{SOURCE}, start: latest"}, "expected no `start` for `mode: recompute`"),
        (
            {"source": f"{SOURCE}, on_correction: ignore"},
            "18:64: expected no `on_correction` for `mode: recompute`; remove it: a unit whose",
        ),
        (
            {"transform": SQL.replace("}", ", columns: [{name: id, type: int}]}")},
            "expected no `columns` for `mode: recompute`",
        ),
    ],
)
def test_keys_that_do_not_fit_are_named_with_their_place(given: dict[str, str], told: str) -> None:
    with pytest.raises(JobFileError) as caught:
        route_of(**given)
    assert told in caught.value.message


def test_partition_of_an_event_time_is_not_asked_for_one_where_units_are_read_whole() -> None:
    text = f"""\
version: 1
name: units
connections:
  hms: {{metastore: {{uri: "thrift://127.0.0.1:9"}}}}
source: {{{SOURCE}}}
transform: {SQL}
table:
  hive: {{connection: hms, name: dm.hourly}}
  partition_by: [{{name: dt, event_time: yyyyMMdd}}, {{name: hr, event_time: HH}}]
"""
    with pytest.raises(JobFileError, match="remove `partition_by`: the columns of") as caught:
        parse_job(text.encode(), Path("job.yaml"), {})
    assert "add event_time" not in caught.value.message
    without, _, _ = text.partition("  partition_by")
    assert parse_job(without.encode(), Path("job.yaml"), {}).spec.routes


def test_tables_that_a_unit_joins_decide_its_result_by_their_names() -> None:
    rules = [
        compile_route(route_of(transform=SQL.replace("}", more))).units
        for more in ("}", ", tables: {u: {table: dim.u}}}", ", tables: {u: {table: dim.v}}}")
    ]
    assert len({rule.fingerprint for rule in rules if rule is not None}) == 3


def test_units_need_sql_and_a_table_that_announces() -> None:
    text = FILE + f"  - {{source: {{{SOURCE}}}, table: dm.hourly}}\n"
    with pytest.raises(JobFileError, match=r"expected `transform.sql` for `mode: recompute`"):
        parse_job(text.encode(), Path("job.yaml"), {})
    text = FILE.replace("ready: {}\n", "") + (
        f"  - {{source: {{{SOURCE}}}, transform: {SQL}, table: dm.hourly}}\n"
    )
    with pytest.raises(JobFileError, match="expected a table with the block `ready`"):
        parse_job(text.encode(), Path("job.yaml"), {})
    settled = text.replace("hr]}", "hr], when: settled}")
    assert len(parse_job(settled.encode(), Path("job.yaml"), {}).spec.routes) == 2


def test_other_partition_columns_than_the_units_are_refused() -> None:
    more = ", table: {hive: {name: dm.hourly}, partition_by: [{name: day, constant: x}]}"
    text = f"  - {{source: {{{SOURCE}}}, transform: {SQL}{more}}}\n"
    with pytest.raises(JobFileError, match="expected the columns of `unit` as `partition_by`"):
        parse_job((FILE + text).encode(), Path("job.yaml"), {})


def test_job_of_the_guide_computes_units() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/chains.md").read_text("utf-8")
    text = guide.partition("```yaml\nversion: 1")[2].partition("```")[0]
    named = {"SLUICEWAY_METASTORE": "thrift://hms:9083"}
    refined, hourly = parse_job(f"version: 1{text}".encode(), Path("chain.yaml"), named).spec.routes
    assert (compile_route(refined).units, hourly.source.table) == (None, "shop.refined")
    assert compile_route(hourly).units is not None


ICE = FILE.replace(
    "connections:\n", 'connections:\n  ice: {iceberg: {rest: {uri: "http://r:1"}}}\n'
)


def test_units_are_those_of_an_iceberg_table_where_the_connection_is_its_catalog() -> None:
    # The Hive table of the same name, which has other units, is another table.
    source = SOURCE.replace("[dt, hr]", "[dt]")
    route = f"  - {{source: {{connection: ice, {source}}}, transform: {SQL}, table: dm.hourly}}\n"
    _, units = parse_job((ICE + route).encode(), Path("job.yaml"), {}).spec.routes
    access = compile_route(units).source
    found = unit_upstream(dict(access.options), access.kind)
    assert isinstance(found, LakeUpstream)
    assert (found.name, UnitRule.of(dict(access.options)[UNITS]).columns) == ("ods.raw", ("dt",))
    by_file = route.replace("[dt]", "[dt], when: success")
    with pytest.raises(JobFileError, match="expected `ready` or `settled` for an Iceberg table"):
        parse_job((ICE + by_file).encode(), Path("job.yaml"), {})
