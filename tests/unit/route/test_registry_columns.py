"""Columns that a registry's schema says, what a job file has different, and what cannot be."""

import json

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.route.registry_columns import registry_columns
from sluiceway.types.hive_types import format_hive_type
from tools.registry_server import registry_server
from unit.jobfile.test_spec_loader import load
from unit.jobfile.test_spec_subject import job

AVRO = "{avro: {registry: reg}}"
JSON = "{json: {registry: reg}}"
ORDER_FIELDS: list[tuple[str, object]] = [
    ("id", "long"),
    ("amount", "double"),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("open", {"type": "int", "logicalType": "time-millis"}),
    (
        "geo",
        {
            "type": "record",
            "name": "Geo",
            "fields": [
                {"name": "city", "type": "string"},
                {"name": "tags", "type": {"type": "map", "values": "string"}},
            ],
        },
    ),
    ("note", "string"),
]


def started(
    schema: object, columns: str = "from_registry", *, more: str = "", tail: str = ""
) -> RouteConfig:
    """A route whose subject has this schema, as it starts; `more` and `tail` are of its job."""
    is_record = isinstance(schema, dict) and "fields" in schema
    with registry_server() as registry:
        registry.add("orders-value", json.dumps(schema), "AVRO" if is_record else "JSON")
        text = job(AVRO if is_record else JSON, columns=columns, more=more) + tail
        if "partition_by" in more:
            text = text.replace("\n  partition_by: []", "")
        return registry_columns(compile_route(load(text.replace("http://reg:8081", registry.url))))


def refusal(schema: object) -> str:
    """What is told of a schema, of which the route's columns cannot be made."""
    with pytest.raises(JobFileError) as caught:
        started(schema)
    return caught.value.message


def changed(changes: str, *, more: str = "", tail: str = "") -> RouteConfig:
    """A route that has something different from the fields of an order, as it starts."""
    schema = record(*ORDER_FIELDS, name="Order")
    return started(schema, f"{{from_registry: {{{changes}}}}}", more=more, tail=tail)


def columns_of(config: RouteConfig) -> list[str]:
    """Name and type of each column of the table's files."""
    assert config.table.schema is not None
    return [f"{each.name} {format_hive_type(each.type)}" for each in config.table.schema.fields]


def record(*fields: tuple[str, object], name: str = "R") -> dict[str, object]:
    made = [{"name": field, "type": of} for field, of in fields]
    return {"type": "record", "name": name, "fields": made}


def test_record_without_fields_is_no_table() -> None:
    assert "the record R has no fields" in refusal(record())


def test_type_that_is_longer_than_any_column_s_is_refused() -> None:
    wide = record(*((f"field_{n}", "int") for n in range(9_000)), name="Wide")
    told = refusal(record(("id", "long"), ("a", wide)))
    assert "a: its type has 133,897 characters, of 65,536 that a type can have" in told
    assert "id:" not in told


def test_names_of_a_schema_stay_on_one_line() -> None:
    told = refusal(record(("a\nb", "int"), ("c", record(("d", "R\nS"), name="R\nS"))))
    assert told.isprintable()
    assert r"the record R\nS holds itself" in told


def test_fields_are_left_out_renamed_retyped_and_columns_added() -> None:
    config = changed(
        "except: [open], override: {amount: {name: total, type: 'decimal(18,2)', on_lossy: "
        "round(half_up)}, note: {required: true, on_bad_text: replace}, "
        "geo: {type: 'struct<city:string>'}}, add: [{name: city, type: string, path: geo.city}, "
        "{name: tag, type: string, path: geo.tags.x}, "
        "{name: source, type: string, constant: web}, "
        "{name: cents, type: bigint, expression: cast(total * 100 AS bigint)}]"
    )
    assert columns_of(config) == [
        "id bigint",
        "total decimal(18,2)",
        "at timestamp",
        "geo struct<city:string>",
        "note string",
        "city string",
        "tag string",
        "source string",
        "cents bigint",
    ]
    assert config.columns is not None
    read = {each.name: each for each in config.columns.fields}
    assert list(read) == ["id", "total", "at", "geo", "note", "city", "tag"]
    assert (read["total"].path, read["total"].policy.on_lossy) == (("amount",), "round(half_up)")
    assert (read["note"].required, read["note"].policy.on_bad_text) == (True, "replace")
    assert (read["id"].path, read["city"].path) == ((), ("geo", "city"))
    assert config.left_out == {"open", "amount"}


def test_field_without_a_type_gets_one_and_one_without_a_name_too() -> None:
    schema = record(
        ("a-b", "int"), ("t", {"type": "int", "logicalType": "time-millis"}), ("T", "int")
    )
    told = "a-b: its name is no name of a column; t: its name differs from another in case only"
    assert told in refusal(schema)
    changes = "override: {a-b: {name: a_b}, t: {name: time, type: string, on_lossy: text}}"
    config = started(schema, f"{{from_registry: {{{changes}}}}}")
    assert columns_of(config) == ["a_b int", "time string", "T int"]


def test_renamed_and_added_columns_make_partitions() -> None:
    more = "\n  partition_by: [{name: d, column: day}, {name: source, column: source}]"
    config = changed(
        "except: [open], override: {id: {name: day, type: string}}, "
        "add: [{name: source, type: string, constant: web}]",
        more=more,
    )
    assert [(each.name, each.hive_type) for each in config.table.partition_columns] == [
        ("d", "string"),
        ("source", "string"),
    ]
    assert "source string" not in columns_of(config)


@pytest.mark.parametrize(
    ("changes", "where", "text", "todo"),
    [
        (
            "except: [open, amout]",
            "11:44",
            "expected a field of the schema, got `amout`",
            "did you mean `amount`?",
        ),
        (
            "except: [open, zzz]",
            "11:44",
            "expected a field of the schema, got `zzz`",
            "it has `id`, `amount`, `at`, `open`, `geo`, `note`",
        ),
        (
            "except: [open, geo.city]",
            "11:44",
            "expected a field of the schema, got `geo.city`",
            "for a part of `geo` override its type",
        ),
        (
            "except: [open], override: {Amount: {type: int}}",
            "11:56",
            "expected a field of the schema, got `Amount`",
            "did you mean `amount`?",
        ),
        (
            "except: [open], override: {amount: {name: ID}}",
            "11:65",
            "expected a name that no field has, got `ID`",
            "name it otherwise, or leave the field out",
        ),
        (
            "except: [open], add: [{name: note, type: int, constant: 5}]",
            "11:52",
            "expected a name that no field has, got `note`",
            "name it otherwise, or leave the field out",
        ),
        (
            "except: [open], add: [{name: c, type: int, path: gea.city}]",
            "11:72",
            "expected the path of a field, got `gea.city`: the schema has no field `gea`",
            "correct it",
        ),
        (
            "except: [open], add: [{name: c, type: int, path: geo.town}]",
            "11:72",
            "expected the path of a field, got `geo.town`: `geo` has no field `town`",
            "correct it",
        ),
        (
            "except: [open], add: [{name: c, type: int, path: id.x}]",
            "11:72",
            "expected the path of a field, got `id.x`: `id` has no fields",
            "correct it",
        ),
        (
            "except: [open], override: {id: {trim: true}, note: {on_overflow: null}}",
            "11:81",
            "expected no `on_overflow`",
            "",
        ),
        (
            "except: [open], override: {note: {default: 5}}",
            "11:63",
            "expected a value of type string",
            "",
        ),
        (
            "except: [open], add: [{name: c, type: int, expression: nope + 1}]",
            "11:72",
            "expected an expression of type int over columns of the payload",
            "",
        ),
        (
            "except: [open], override: {amount: {name: total}}, "
            "add: [{name: c, type: int, expression: cast(amount AS int)}]",
            "11:107",
            "expected an expression of type int over columns of the payload",
            "correct it: character 6: there is no column amount here; there are id, total, at",
        ),
        (
            "except: [id, amount, at, open, geo, note]",
            "11:29",
            "expected a field that is left, got none",
            "leave out fewer",
        ),
        (
            "except: [note]",
            "11:3",
            "no column holds open: a time of day, and Hive has no such type",
            "leave them out or override their type or name: "
            "`columns: {from_registry: {except: [...], override: {...}}}`",
        ),
    ],
)
def test_what_the_schema_does_not_allow_is_told_with_subject_and_place(
    changes: str, where: str, text: str, todo: str
) -> None:
    with pytest.raises(JobFileError) as caught:
        changed(changes)
    error = caught.value
    assert (error.code, error.exit_code, error.where) == ("SW401", 3, f"job.yaml:{where}")
    subject = "the columns of the subject orders-value version 1 cannot be the table's: "
    assert error.message.startswith(subject + text)
    assert error.hint.startswith(todo)


def test_all_that_the_schema_does_not_allow_is_told_at_once() -> None:
    with pytest.raises(JobFileError) as caught:
        changed("except: [open, x], override: {y: {type: int}}")
    assert caught.value.where == "job.yaml:11:44"
    has = "(it has `id`, `amount`, `at`, `open`, `geo`, `note`)"
    assert caught.value.message.endswith(
        f"got `x` {has}; job.yaml:11:59: expected a field of the schema, got `y` {has}"
    )
    assert caught.value.hint == "correct each of them"


def test_partition_by_no_field_is_told_where_it_is_written() -> None:
    more = "\n  partition_by: [{name: d, column: nope}]"
    with pytest.raises(JobFileError, match="partitioned by nope, which is no field") as caught:
        changed("except: [open]", more=more)
    assert caught.value.where == "job.yaml:12:18"


def test_columns_beside_a_schema_of_json_may_be_read_from_what_it_does_not_say() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    changes = "add: [{name: c, type: int, path: more.deep}]"
    config = started(schema, f"{{from_registry: {{{changes}}}}}")
    assert columns_of(config) == ["id bigint", "c int"]


def test_condition_over_a_field_that_is_left_out_is_told_where_it_is_written() -> None:
    assert changed("except: [open]", tail="where: note = 'a'\n").choices.where == "note = 'a'"
    with pytest.raises(JobFileError, match="expected a condition") as caught:
        changed("except: [open, note]", tail="where: note = 'a'\n")
    assert caught.value.where == "job.yaml:13:1"
    assert "note" in caught.value.hint


KEYED = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  reg: {{schema_registry: {{url: "{url}"}}}}
  lake: {{iceberg: {{sql: {{uri: "sqlite:////c.db", warehouse: "file:///w"}}}}}}
source: {{connection: main, topics: [a]}}
format: {{avro: {{registry: reg}}}}
table:
  iceberg: {{connection: lake, name: ods.small}}
  key: [{key}]
  columns: from_registry
  partition_by: []
  meta: [partition, offset]
"""


def keyed(key: str) -> RouteConfig:
    with registry_server() as registry:
        schema = record(("id", "long"), ("price", "double"), ("open", "boolean"))
        registry.add("a-value", json.dumps(schema), "AVRO")
        return registry_columns(compile_route(load(KEYED.format(url=registry.url, key=key))))


def test_a_key_of_columns_that_a_schema_says_is_looked_at_when_they_are_known() -> None:
    assert [each.split()[0] for each in columns_of(keyed("id"))][:1] == ["id"]
    for key, said in (
        ("price", "expected a key of whole numbers"),
        ("open", "expected a key of whole numbers"),
        ("nr", "the key column nr is no field"),
    ):
        with pytest.raises(JobFileError, match=said):
            keyed(key)
