from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.routes import MAX_ROUTES, default_route_name, is_route_name
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.jobfile.loader import LoadedJob, parse_job

SHARED = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, start: {group: old}}
format: {json: {tombstones: skip}}
table:
  hive: {connection: hms, compression: snappy}
  columns: [{name: id, type: bigint}, {name: ts, type: bigint}]
  partition_by: [{name: dt, event_time: yyyyMMdd}]
event_time: {field: ts, unit: ms}
routes:
"""
FIRST = SHARED.count("\n") + 1


def job_of(*routes: str, shared: str = SHARED) -> LoadedJob:
    text = shared + "".join(f"  - {route}\n" for route in routes)
    return parse_job(text.encode(), Path("job.yaml"), {})


def routes_of(*routes: str) -> tuple[RouteSpec, ...]:
    return job_of(*routes).spec.routes


def problems_of(*routes: str, shared: str = SHARED) -> list[str]:
    """Problem lines; a line in the routes is counted from the first route."""
    with pytest.raises((JobFileError, NotInThisVersionError)) as caught:
        job_of(*routes, shared=shared)
    found = []
    for line in caught.value.message.splitlines()[1:]:
        row, column, text = line.removeprefix("  job.yaml:").split(":", 2)
        at = f"+{int(row) - FIRST}" if int(row) >= FIRST else row
        found.append(f"{at}:{column}:{text}")
    return found


def test_routes_take_the_files_blocks_and_lay_their_own_over_them() -> None:
    plain, own = routes_of(
        "{topics: [a, b], table: Ods.A}",
        "{topics: [c], name: c, table: {hive: {name: ods.c, location: /x},"
        " columns: [{name: id, type: int}], partition_by: [], meta: [offset]},"
        " source: {start: earliest}, format: {json: {tombstones: dirty}}}",
    )
    assert (plain.route, plain.source.names, plain.table.target.table) == ("ods-a", ("a", "b"), "a")
    assert plain.start_at == StartAt("group", group="old")
    assert plain.event_time is not None
    hive = own.table.hive
    assert hive is not None
    assert (own.route, hive.location, hive.compression) == ("c", "/x", "snappy")
    assert own.table.columns is not None
    assert [column.name for column in own.table.columns] == ["id"]
    assert (own.table.partition_by, own.event_time) == ((), None)
    assert own.start_at == StartAt("earliest")
    assert own.format.json_ is not None
    assert own.format.json_.tombstones == "dirty"


def test_start_of_another_kind_takes_the_place_of_the_files() -> None:
    by_time, by_offsets = routes_of(
        '{topics: [a], table: ods.a, source: {start: {timestamp: "1970-01-01T00:00:01.0005Z"}}}',
        "{topics: [b], table: ods.b, source: {start: {offsets: {b: {1: 7, 0: 5}}}}}",
    )
    assert by_time.start_at == StartAt("timestamp", timestamp_ms=1001)
    assert str(by_time.start_at) == "timestamp 1970-01-01T00:00:01.001+00:00"
    assert by_offsets.start_at == StartAt("offsets", offsets=(("b", 0, 5), ("b", 1, 7)))
    assert str(by_offsets.start_at) == "offsets b[0]=5 b[1]=7"


def test_pattern_names_its_tables_and_its_routes() -> None:
    many, one = routes_of(
        '{topics: "app_(?P<app>.*)", table: "ods.app_{app}_{1}_{0}"}',
        '{topics: "log_.*", table: ods.logs}',
    )
    assert (many.source.pattern, many.route) == ("app_(?P<app>.*)", "")
    assert many.table.target.is_template
    assert (one.source.pattern, one.route, one.source.names) == ("log_.*", "ods-logs", ())


def test_file_without_the_block_is_one_route_and_may_have_a_pattern() -> None:
    text = SHARED.replace("routes:\n", "").replace("main, start", 'main, topics: "a_(.*)", start')
    named = text.replace("connection: hms, ", 'connection: hms, name: "ods.{1}", ')
    (route,) = parse_job(named.encode(), Path("job.yaml"), {}).spec.routes
    assert (route.source.pattern, route.route) == ("a_(.*)", "")
    plain = text.replace("connection: hms, ", "connection: hms, name: ods.all, ")
    (route,) = parse_job(plain.encode(), Path("job.yaml"), {}).spec.routes
    assert (route.source.pattern, route.route) == ("a_(.*)", "many")


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ("{table: ods.a}", "+0:5: expected the key `topics`, got none; add it"),
        ("{topics: [a]}", "+0:5: expected the key `table`, got none; add it"),
        ("{topcs: [a], table: ods.a}", "+0:6: unknown key `topcs`; did you mean `topics`?"),
        ("{topics: [a], table: ods.a, run: {}}", "+0:33: unknown key `run`; known here: name"),
        ("{topics: [a], table: ods.a, files: {rol: 1}}", "+0:41: unknown key `rol`"),
        ("{topics: [], table: ods.a}", "+0:14: expected at least one item, got an empty list"),
        ("{topics: [a.*], table: ods.a}", "+0:15: expected a topic name of letters"),
        ("{topics: [a, a], table: ods.a}", "+0:18: expected each topic once, got `a` again"),
        ('{topics: "(", table: ods.a}', "+0:14: expected a regular expression such as"),
        ("{topics: [a], table: a}", "+0:26: expected `database.table`, both of letters"),
        ("{topics: [a], table: [a]}", "+0:26: expected text, got a list"),
        ("{topics: [a], table: null}", "+0:19: expected a value, got nothing"),
        ('{topics: [a], table: "o.{1}"}', "+0:26: expected a plain name for topics that are"),
        ('{topics: a, table: "o.{1}"}', "+0:24: expected groups of the pattern, got `{1}`; `a`"),
        ('{topics: (a), table: "o.{x}"}', "+0:26: expected groups of the pattern, got `{x}`"),
        ('{topics: a, table: "o.{0}", name: n}', "+0:33: expected no name for routes that a"),
        ("{topics: [a], table: ods.a, name: A}", "+0:39: expected 1 to 64 of a-z, 0-9"),
        ("{topics: [a], table: ods.a, name: ../a}", "+0:39: expected 1 to 64 of a-z, 0-9"),
        ("{topics: [a], table: ods.a, source: {topics: [b]}}", "+0:42: expected `topics` next to"),
        (
            "{topics: [a], table: ods.a, source: {start: {offsets: {b: {0: 1}}}}}",
            "+0:60: expected offsets of topics that are read, got `b`",
        ),
        (
            '{topics: a.*, table: {hive: {name: "o.{0}", location: /x}}}',
            "+0:49: expected no location for the tables of `o.{0}`",
        ),
        ("{topics: [a], table: ods.a, event_time: {field: x, unit: ms}}", "+0:53: expected the"),
        ("5", "+0:5: expected a mapping, got `5`"),
    ],
)
def test_wrong_route_is_told_with_its_place(route: str, problem: str) -> None:
    (line,) = problems_of(route)
    assert line.startswith(problem)


def test_one_table_has_one_route_and_a_name_is_given_once() -> None:
    assert problems_of(
        "{topics: [a], table: ods.a}",
        "{topics: [b], table: ODS.A}",
        "{topics: [c], table: ods.c, name: ods-a}",
        "{topics: [d], table: {hive: {name: ods.d, location: /x/}}}",
        "{topics: [e], table: {hive: {name: ods.e, location: 'file:///x'}}}",
    ) == [
        f"+1:26: expected each table in one route, got `ODS.A` again; "
        f"list all its topics in one route, or a pattern (line {FIRST})",
        f"+2:5: expected each route's name once, got `ods-a` again; "
        f"name one of them; the other is on line {FIRST}",
        f"+4:57: expected each location in one route, got `file:///x` again; "
        f"give each table a folder of its own (line {FIRST + 3})",
    ]


def test_what_is_each_routes_own_is_refused_for_all_of_them() -> None:
    shared = SHARED.replace("main, start", "main, topics: [x], start").replace(
        "snappy}", "snappy, name: ods.x, location: /x}"
    )
    assert problems_of("{topics: [a], table: ods.a}", shared=shared) == [
        "6:28: expected `topics` in each route, got `source.topics` for all of them; "
        "move it into the routes",
        "9:48: expected `table` in each route, got `table.hive.name` for all of them; "
        "move it into the routes",
        "9:61: expected `table.hive.location` in each route, got `table.hive.location` "
        "for all of them; move it into the routes",
    ]


def test_problem_of_the_file_is_told_once_and_of_a_route_for_each() -> None:
    shared = SHARED.replace("snappy", "lzo").replace("name: many", "nmae: many")
    shared = shared.replace("  partition_by: [{name: dt, event_time: yyyyMMdd}]\n", "")
    lines = problems_of("{topics: [a], table: o.a}", "{topics: [b], table: o.b}", shared=shared)
    assert [line.split(":")[0] for line in lines] == ["2", "9", "13", "+0"]
    assert lines[2].endswith("expected the key `partition_by`, got none; add it")


def test_default_that_every_route_overrides_is_checked_too() -> None:
    shared = SHARED.replace("unit: ms", "unit: mss")
    route = "{topics: [a], table: o.a, event_time: {field: ts, unit: ms}}"
    (line,) = problems_of(route, shared=shared)
    assert line.startswith("12:31: expected `s`, `ms`, `us`, `ns` or `iso8601`, got `mss`")


@pytest.mark.parametrize("block", ["[]", "5", "{}"])
def test_block_that_lists_no_routes_is_refused(block: str) -> None:
    with pytest.raises(JobFileError, match=f"expected a list of 1 to {MAX_ROUTES} routes"):
        parse_job(f"{SHARED}  {block}\n".encode(), Path("job.yaml"), {})


def test_thousand_routes_are_read() -> None:
    found = routes_of(*(f"{{topics: [t{n}], table: ods.t{n}}}" for n in range(1000)))
    assert len({route.route for route in found}) == 1000


def test_position_of_a_later_check_is_the_routes_own() -> None:
    job = job_of(
        "{topics: [a], table: ods.a}",
        "{topics: [b], table: {hive: {name: ods.b}, columns: [{name: ts, type: bigint}]}}",
    )
    path = ("table", "columns", 0, "type")
    marks = [job.wrong_value(path, "x", "y", route=number).mark for number in (0, 1)]
    assert [mark.line for mark in marks] == [10, FIRST + 1]


def test_route_names_from_tables_are_fit_for_paths_and_differ() -> None:
    assert default_route_name("Ods.Orders") == "ods-orders"
    tables = ["_a.b", "a._b", "a_b.c", "a.b_c", f"ods.{'x' * 128}", f"ods.{'x' * 127}y", "_._"]
    names = [default_route_name(table) for table in tables]
    assert len(set(names)) == len(tables)
    assert all(is_route_name(name) for name in names)


LAKE = SHARED.replace(
    "connections:\n",
    "connections:\n  lake: {iceberg: {sql: {uri: 'sqlite:////c.db', warehouse: /w}}}\n",
)
TO_LAKE = "{topics: [b], table: {iceberg: {connection: lake, name: ods.b, create: if_missing}}}"


def test_route_into_a_lake_table_stands_beside_routes_into_hive_tables() -> None:
    hive, lake = job_of("{topics: [a], table: ods.a}", TO_LAKE, shared=LAKE).spec.routes
    assert (hive.table.hive is None, hive.table.iceberg is None) == (False, True)
    assert (lake.table.hive is None, lake.table.iceberg is None) == (True, False)
    assert lake.table.target.name == "ods.b"
    assert [column.name for column in lake.table.columns or ()] == ["id", "ts"]


def test_file_may_leave_the_kind_of_table_to_its_routes() -> None:
    shared = LAKE.replace("  hive: {connection: hms, compression: snappy}\n", "")
    to_hive = "{topics: [a], table: {hive: {connection: hms, name: ods.a}}}"
    hive, lake = job_of(to_hive, TO_LAKE, shared=shared).spec.routes
    assert (hive.table.target.name, lake.table.target.name) == ("ods.a", "ods.b")
    assert problems_of(to_hive, "{topics: [b]}", shared=shared) == [
        "10:3: expected exactly one of hive, iceberg, got none; add one",
        "+1:5: expected the key `table`, got none; add it",
    ]


def test_route_of_both_kinds_is_refused() -> None:
    both = TO_LAKE.replace("table: {", "table: {hive: {connection: hms, name: ods.b}, ")
    (problem, *_) = problems_of(both, shared=LAKE)
    assert "expected exactly one of hive, iceberg, got `hive` and `iceberg`; keep one" in problem
