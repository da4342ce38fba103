"""What a job file has different from a registry's columns, as far as no server is asked."""

from pathlib import Path

import pytest

from sluiceway.jobfile.blocks.columns import ColumnSpec, FieldOverride
from sluiceway.jobfile.loader import parse_job
from unit.jobfile.test_spec_loader import load, problems_of
from unit.jobfile.test_spec_subject import LISTED, job

JSON = "{json: {registry: reg}}"


def changed(changes: str, fmt: str = "{avro: {registry: reg}}", more: str = "") -> str:
    """A job file; `changes` begin in column 29 of line 11."""
    return job(fmt, columns=f"{{from_registry: {{{changes}}}}}", more=more)


def test_word_alone_and_empty_changes_say_the_same() -> None:
    for text in (job(), changed("")):
        table = load(text).table
        assert table.columns is None
        assert table.subject is not None
        assert (table.changes.left_out, table.changes.override, table.changes.add) == ((), {}, ())


def test_fields_are_left_out_overridden_and_added() -> None:
    changes = load(
        changed(
            "except: [trace, debug], override: {amount: {name: total, type: 'decimal(18,2)', "
            "on_lossy: round(half_up), on_overflow: null}, at: {required: true, redact: true}}, "
            "add: [{name: source, type: string, constant: web}, "
            "{name: city, type: string, path: geo.city}]"
        )
    ).table.changes
    assert changes.left_out == ("trace", "debug")
    assert changes.override == {
        "amount": FieldOverride(
            name="total", type="decimal(18,2)", on_lossy="round(half_up)", on_overflow="null"
        ),
        "at": FieldOverride(required=True, redact=True),
    }
    assert [(column.name, column.constant, column.path) for column in changes.add] == [
        ("source", "web", None),
        ("city", None, "geo.city"),
    ]


def test_overridden_field_makes_a_column() -> None:
    renamed = FieldOverride(name="total", type="double", on_lossy="text").column("amount", "int")
    assert renamed == ColumnSpec(name="total", type="double", path="amount", on_lossy="text")
    kept = FieldOverride(required=True).column("amount", "int")
    assert kept == ColumnSpec(name="amount", type="int", required=True)


def test_listed_columns_are_no_changes() -> None:
    table = load(job(columns=LISTED, fmt="{json: {}}")).table
    assert [column.name for column in table.columns or ()] == ["id", "app"]
    assert table.changes.add == ()


def test_changes_reach_the_route_with_their_places_and_no_values() -> None:
    spec = load(changed("add: [{name: a, type: string, constant: '${env:C}'}]"), C="hush")
    assert spec.places is not None
    path = ("table", "columns", "from_registry", "add", 0)
    assert spec.places.place((*path, "constant")) == "job.yaml:11:59"
    assert spec.places.place((*path, "type")) == "job.yaml:11:45"
    assert spec.places.place((*path, "nope", 3)) == "job.yaml:11:35"
    assert "hush" not in repr(spec.places) + str(dict(spec.places.marks))
    assert load(job(columns=LISTED, fmt="{json: {}}")).places is None


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("from_regstry", "11:12: expected `from_table`, `from_registry`, `from_sql`, a list"),
        ("[]", "11:12: expected `from_table`, `from_registry`, `from_sql`, a list"),
        ("5", "11:12: expected `from_table`, `from_registry`, `from_sql`, a list"),
        ("{from_regstry: {}}", "11:13: unknown key `from_regstry`; did you mean `from_registry`?"),
        ("{from_registry: true}", "11:28: expected a mapping, got `true`; write keys and values"),
        ("{}", "expected the key `from_registry`, got none; add it"),
        ("[{name: a}]", "expected the key `type`, got none; add it"),
    ],
)
def test_columns_of_another_shape_are_told(columns: str, problem: str) -> None:
    assert any(problem in found for found in problems_of(job(columns=columns))), problems_of(
        job(columns=columns)
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ("excpt: [a]", "11:29: unknown key `excpt`; did you mean `except`?"),
        ("except: a", "11:37: expected a list, got `a`"),
        ("except: [5]", "11:38: expected text, got `5`; put it into quotes"),
        ("except: [a, a]", "11:41: expected each field once, got `a` again; remove one"),
        (
            "except: [a], override: {a: {type: int}}",
            "11:38: expected fields that are not overridden, got `a`; remove it here or on line 11",
        ),
        ("override: [a]", "11:39: expected a mapping, got a list"),
        ("override: {a: int}", "11:43: expected a mapping, got `int`"),
        ("override: {a: {path: b}}", "11:44: unknown key `path`"),
        ("override: {a: {constant: b}}", "11:44: unknown key `constant`"),
        ("override: {a: {on_lossy: maybe}}", "11:54: expected one of dirty, null, truncate, text,"),
        ("override: {a: {name: 5x}}", "11:50: expected a name of letters, digits and `_`"),
        ("override: {a: {}, a: {}}", "11:47: "),
        (
            "override: {geo.city: {type: int}}",
            "11:40: expected a field at the top of the schema, got `geo.city`; override `geo` as "
            "a whole, or add a column with `path: geo.city`",
        ),
        (
            "override: {order-id: {type: int}}",
            "11:40: expected a `name` for `order-id`, which no column can be called; add one",
        ),
        ("override: {a: {type: int, unit: ms}}", "expected `unit` with types of times only"),
        (
            "add: [{name: a, type: int}]",
            "11:35: expected `path`, `constant` or `expression` for `a`, got none; add one of them",
        ),
        ("add: [{name: a, constant: 5}]", "expected the key `type`, got none"),
        (
            "add: [{name: a, type: int, constant: 5}, {name: A, type: int, constant: 5}]",
            "11:77: expected names that differ in more than case, got `A` again; rename one; Hive "
            "keeps columns and partitions together (line 11)",
        ),
        (
            "override: {x: {name: a}}, add: [{name: a, type: int, constant: 5}]",
            "11:68: expected names that differ in more than case, got `a` again",
        ),
        (
            "override: {x: {name: b}, b: {type: int}}",
            "11:54: expected names that differ in more than case, got `b` again",
        ),
    ],
)
def test_changes_that_cannot_be_are_told_where_they_are_written(changes: str, problem: str) -> None:
    found = problems_of(changed(changes))
    assert any(line.startswith(problem) or problem in line for line in found), found


PARTED = "\n  partition_by: [{name: dt, column: %s}]"


@pytest.mark.parametrize(
    ("changes", "column", "problem"),
    [
        (
            "except: [day]",
            "Day",
            "12:37: expected a column, got `Day`, a field that is left out; correct it, or line 11",
        ),
        (
            "override: {day: {name: d}}",
            "day",
            "12:37: expected a column, got `day`, a field that is called `d`; correct it, or "
            "line 11",
        ),
        (
            "add: [{name: DT, type: int, constant: 5}]",
            "day",
            "12:25: expected names that differ in more than case, got `dt` again",
        ),
    ],
)
def test_partition_by_what_is_no_column_any_more_is_told(
    changes: str, column: str, problem: str
) -> None:
    text = changed(changes, more=PARTED % column).replace("\n  partition_by: []", "")
    found = problems_of(text)
    assert any(line.startswith(problem) for line in found), found


def test_partition_by_the_new_name_and_by_one_that_takes_the_place_go() -> None:
    for changes in (
        "override: {x: {name: day}}",
        "except: [day], add: [{name: day, type: string, path: geo.day}]",
    ):
        text = changed(changes, more=PARTED % "day").replace("\n  partition_by: []", "")
        assert load(text).table.partition_by[0].column == "day"


def test_event_time_of_a_field_that_is_left_out_is_told() -> None:
    parts = '\n  partition_by: [{name: dt, event_time: "yyyyMMdd"}]'
    text = changed("except: [ts]", more=parts).replace("\n  partition_by: []", "")
    (found,) = problems_of(text + "event_time: {field: ts.at, unit: ms}\n")
    assert found.startswith("13:21: expected a column, got `ts`, a field that is left out")


@pytest.mark.parametrize(
    ("fmt", "more", "rule"),
    [
        (JSON, "\n  evolution: add_columns", "evolution: add_columns"),
        (JSON, "\n  evolution: quarantine", "evolution: quarantine"),
        ("{json: {registry: reg, unknown_fields: dirty}}", "", "unknown_fields: dirty"),
    ],
)
def test_fields_that_are_left_out_do_not_go_with_rules_for_unread_ones(
    fmt: str, more: str, rule: str
) -> None:
    (found,) = problems_of(changed("except: [a]", fmt, more))
    assert found.startswith(f"11:29: expected no `except` with `{rule}`")
    assert "`transient: true`" in found
    kept = load(changed("override: {a: {transient: true}}", fmt, more))
    assert kept.table.changes.override["a"].transient


def test_column_of_what_no_column_reads_needs_no_origin() -> None:
    fmt = "{json: {registry: reg, unknown_fields: keep, extra_column: more}}"
    text = changed("add: [{name: more, type: 'map<string,string>'}]", fmt)
    assert [column.name for column in load(text).table.changes.add] == ["more"]


SHARED = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
  reg: {schema_registry: {url: "http://reg:8081"}}
source: {connection: main}
format: {avro: {registry: reg}}
table:
  hive: {connection: hms}
  columns: {from_registry: {except: [a], override: {b: {name: c}}}}
  partition_by: []
routes:
"""


def test_routes_lay_their_changes_over_those_of_the_file() -> None:
    own = "{from_registry: {except: [d], override: {e: {trim: true}}}}"
    text = (
        f"{SHARED}  - {{topics: [x], table: o.x}}\n"
        f"  - {{topics: [y], table: {{hive: {{name: o.y}}, columns: {own}}}}}\n"
        "  - {topics: [z], table: {hive: {name: o.z}, columns: from_registry}}\n"
    )
    routes = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    told = [(route.table.changes.left_out, set(route.table.changes.override)) for route in routes]
    assert told == [(("a",), {"b"}), (("d",), {"b", "e"}), ((), set())]
    place = ("table", "columns", "from_registry", "override")
    assert [
        route.places.place((*place, name))
        for route, name in zip(routes, ("b", "e", "b"), strict=True)
        if route.places is not None
    ] == ["job.yaml:11:53", "job.yaml:15:96", "job.yaml:16:46"]
