"""`route_by`: one source, a table for each value; what cannot be is refused where it is written."""

from pathlib import Path

import pytest

from sluiceway.audit.pick_route import routes_without_brokers
from sluiceway.driver import discovery
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import inspect_job
from sluiceway.ledger.value_tables import ValueStart, ValueTable
from sluiceway.observe.log import WarningsOnDemand
from sluiceway.types.strict_json import BigInt

JOB = """\
version: 1
name: events
connections:
  main: {kafka: {bootstrap_servers: "localhost:9092"}}
  hms: {metastore: {uri: "thrift://localhost:9083"}}
source: {connection: main, topics: [events]}
format: {json: {}}
route_by: $.head.type
table:
  hive: {connection: hms, name: "ods.e_{value}"}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""


def problems(text: str) -> list[str]:
    found = inspect_job(text.encode(), Path("job.yaml"), {})
    return [f"{each.mark.line}: {each.text}" for each in found.problems]


def test_rest_reads_the_value_into_a_column_that_no_file_holds() -> None:
    found = inspect_job(JOB.encode(), Path("job.yaml"), {})
    assert found.job is not None
    (rest,) = compile_routes(found.job.spec).routes
    assert (rest.route, rest.table.table, rest.max_tables) == ("ods-e_unrouted", "e_unrouted", 100)
    assert rest.columns is not None
    assert [field.path for field in rest.columns.fields] == [(), ("head", "type")]
    assert rest.table.schema is not None
    assert "_route_by" not in [field.name for field in rest.table.schema.fields]
    share = rest.share
    assert share is not None
    assert (share.table, share.path, share.room) == (None, "$.head.type", 0)


def test_route_of_a_value_begins_where_its_rows_may() -> None:
    found = inspect_job(JOB.encode(), Path("job.yaml"), {})
    assert found.job is not None
    (rest,) = compile_routes(found.job.spec).routes
    made = rest.of_value(ValueTable("ods.e_paid", (ValueStart("events", 0, BigInt(7)),)))
    assert (made.route, made.table.table, made.max_tables) == ("ods-e_paid", "e_paid", 0)
    assert made.start.offsets == (("events", 0, 7),)
    assert made.share is not None
    assert made.share.table == "ods.e_paid"


def test_commands_find_the_tables_that_values_have_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = inspect_job(JOB.encode(), Path("job.yaml"), {})
    assert found.job is not None
    spec, asked = found.job.spec, list[str]()
    paid = ValueTable("ods.e_paid", (ValueStart("events", 0, BigInt(7)),))

    def tables(rest: RouteConfig) -> tuple[ValueTable, ...]:
        asked.append(rest.route)
        return (paid,)

    monkeypatch.setattr(discovery, "_value_tables", tables)
    for name in (None, "ods-e_paid"):
        names = [each.route for each in routes_without_brokers(spec, WarningsOnDemand(), name)]
        assert names == ["ods-e_unrouted", "ods-e_paid"]
    assert len(asked) == 2
    # The rest itself is listed: no catalog is asked.
    (rest,) = routes_without_brokers(spec, WarningsOnDemand(), "ods-e_unrouted")
    assert (rest.route, len(asked)) == ("ods-e_unrouted", 2)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("e_{value}", "e", ["10: expected a name with {value} in it, got `ods.e`"]),
        ("ods.e_{value}", "{value}.e", ["10: expected {value} in the table's own name"]),
        ("e_{value}", "e_{1}", ["10: expected a name with {value} in it", "10: expected a plain"]),
        ("[events]", '"ev.*"', ["6: expected a list of topics with `route_by`"]),
        ("route_by: $.head.type", "max_tables: 3", ["8: expected `max_tables` with `route_by`"]),
        ("  columns: [{name: id, type: bigint}]\n", "", ["8: expected a list of `columns`"]),
        ("  partition_by", "  key: [id]\n  partition_by", ["12: expected no `table.key`"]),
        ("$.head.type", "$.head.type\nmax_tables: 0", ["9: "]),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, expected: list[str]) -> None:
    assert old in JOB
    found = problems(JOB.replace(old, new, 1))
    for text in expected:
        assert any(each.startswith(text) for each in found), found


def test_job_file_is_valid() -> None:
    assert problems(JOB) == []
