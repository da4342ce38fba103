"""The table over late rows: its name, and what no two routes may share."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.compile import compile_routes, late_rule
from sluiceway.jobfile.compile.config import CompiledJob
from sluiceway.jobfile.loader import parse_job
from sluiceway.worker.plan import LatePolicy

ONE = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
  other: {{metastore: {{uri: "thrift://other:9083"}}}}
source: {{connection: main, topics: {topics}}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: "{table}"}}
  columns: [{{name: ts, type: bigint}}]
  partition_by: [{{name: dt, event_time: yyyyMMdd}}]
event_time: {{field: ts, unit: ms, {late}}}
dirty: {dirty}
"""

MANY = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
  other: {metastore: {uri: "thrift://other:9083"}}
source: {connection: main}
format: {json: {}}
table:
  hive: {connection: hms}
  columns: [{name: ts, type: bigint}]
  partition_by: [{name: dt, event_time: yyyyMMdd}]
event_time: {field: ts, unit: ms, late_table: SHARED}
routes:
"""


def job_of(text: str) -> CompiledJob:
    return compile_routes(parse_job(text.encode(), Path("job.yaml"), {}).spec)


def one(late: str, *, table: str = "ods.small", topics: str = "[a]", dirty: str = "{}") -> str:
    return ONE.format(late=late, table=table, topics=topics, dirty=dirty)


def many(shared: str, *routes: str) -> str:
    return MANY.replace("SHARED", shared) + "".join(f"  - {route}\n" for route in routes)


def problems(text: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        job_of(text)
    return [line.removeprefix("  job.yaml:") for line in caught.value.message.splitlines()[1:]]


def at(text: str, key: str, occurrence: int = 1) -> str:
    """`line:column` of the value behind a key."""
    place = -1
    for _ in range(occurrence):
        place = text.index(f"{key}: ", place + 1)
    place += len(key) + 2
    before = text[:place]
    return f"{before.count(chr(10)) + 1}:{place - before.rfind(chr(10))}:"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Ods.Late", "ods.late"),
        ('"late.{table}"', "late.small"),
        ('"ods.{table}_late"', "ods.small_late"),
    ],
)
def test_late_table_is_named_outright_or_by_the_routes_own(written: str, name: str) -> None:
    (route,) = job_of(one(f"late_table: {written}")).routes
    assert route.late_table_name == name


def test_route_without_one_has_none() -> None:
    (route,) = job_of(one("late: side_output")).routes
    assert route.late_table_name is None


def test_late_table_alone_asks_for_late_rows_to_be_put_aside() -> None:
    spec = parse_job(one("late_table: ods.late").encode(), Path("job.yaml"), {}).spec
    rule = late_rule(spec.routes[0])
    assert (rule.policy, rule.window_us) == (LatePolicy.SIDE, 86_400_000_000)


@pytest.mark.parametrize(
    "written", ["late", "a.b.c", '"ods.{app}"', '"{table}"', '"ods.la te"', "[a]", '"ods.{table"']
)
def test_late_table_that_is_no_name_is_told_where_it_stands(written: str) -> None:
    text = one(f"late_table: {written}")
    (problem,) = problems(text)
    assert problem.startswith(at(text, "late_table")), problem


def test_late_table_beside_dirty_late_rows_has_nothing_to_show() -> None:
    text = one("late: dirty, late_table: ods.late")
    (problem,) = problems(text)
    assert problem.startswith("13:")
    assert "nothing is put aside" in problem


@pytest.mark.parametrize("written", ["ods.small", "ODS.Small", '"ods.{table}"'])
def test_routes_own_table_shows_no_late_rows(written: str) -> None:
    text = one(f"late_table: {written}")
    (problem,) = problems(text)
    assert problem.startswith(at(text, "late_table"))
    assert "own table; name another one (line 10)" in problem


@pytest.mark.parametrize("taken", ["ods.small", "Ods.Late"])
def test_dirty_rows_go_to_neither_of_the_other_two(taken: str) -> None:
    text = one("late_table: ods.late", dirty=f"{{store: {{table: {taken}}}}}")
    (problem,) = problems(text)
    assert problem.startswith(at(text, "{table"))
    assert "expected a table of its own for dirty rows" in problem


def test_table_of_another_route_shows_no_late_rows_whichever_comes_first() -> None:
    text = many(
        '"late.{table}"',
        "{topics: [a], table: ods.a, event_time: {late_table: ods.b}}",
        "{topics: [b], table: ods.b, event_time: {late_table: ods.a}}",
    )
    first, second = problems(text)
    assert first.startswith(at(text, "late_table", 2))
    assert second.startswith(at(text, "late_table", 3))


def test_two_routes_do_not_share_a_late_table() -> None:
    text = many("ods.late", "{topics: [a], table: ods.a}", "{topics: [b], table: ods.b}")
    (problem,) = problems(text)
    assert problem.startswith(at(text, "late_table"))
    assert "{table}" in problem
    text = many(
        '"late.{table}"',
        "{topics: [a], table: x.t}",
        "{topics: [b], table: y.t}",
    )
    (problem,) = problems(text)
    assert "got `late.t` again" in problem


def test_routes_with_late_tables_of_their_own_or_other_metastores_go_together() -> None:
    text = many(
        '"late.{table}"',
        "{topics: [a], table: ods.a}",
        "{topics: [b], table: ods.b}",
        "{topics: [c], table: {hive: {name: ods.a, connection: other}}}",
        "{topics: [d], table: ods.d, dirty: {store: {table: ops.bad}}}",
        "{topics: [e], table: ods.e, dirty: {store: {table: ops.bad}}}",
    ).replace("topics: [c], table", "topics: [c], name: c, table")
    names = [route.late_table_name for route in job_of(text).routes]
    assert names == ["late.a", "late.b", "late.a", "late.d", "late.e"]


def test_routes_of_a_pattern_have_late_tables_named_by_their_own() -> None:
    (made,) = job_of(one('late_table: "late.{table}"', table="ods.{1}", topics="t_(.*)")).templates
    routes = made.expand(("t_a", "t_b")).routes
    assert [route.late_table_name for route in routes] == ["late.a", "late.b"]
    for late in ("late_table: ods.late", 'late_table: "ods.{table}"'):
        text = one(late, table="ods.{1}", topics="t_(.*)")
        (problem,) = problems(text)
        assert problem.startswith(at(text, "late_table"))


def test_one_route_of_a_pattern_may_name_its_late_table() -> None:
    (made,) = job_of(one("late_table: ods.late", topics="t_.*")).templates
    assert [route.late_table_name for route in made.expand(("t_a", "t_b")).routes] == ["ods.late"]
