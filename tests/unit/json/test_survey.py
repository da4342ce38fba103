"""What is proposed for a topic of JSON, and what is left to a person."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.proposed_columns import contents_block
from sluiceway.config.choices import row_columns
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn
from sluiceway.formats.recognise import TopicContents
from sluiceway.spec.loader import parse_job
from sluiceway.types.schema import Schema
from sluiceway.worker.row_rules import payload_fields

JOB = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.small}
  partition_by: []
"""


def of_json(survey: JsonSurvey) -> TopicContents:
    return TopicContents(records=1, plain=survey)


def survey_of(*rows: Any) -> JsonSurvey:
    survey = JsonSurvey()
    for row in rows:
        survey.add(json.dumps(row).encode())
    return survey


def column_of(*values: Any) -> ProposedColumn:
    (column,) = survey_of(*({"x": value} for value in values)).columns()
    return column


@pytest.mark.parametrize(
    ("values", "kind", "doubt"),
    [
        ((1, 2, None), "bigint", ""),
        ((True, False), "boolean", ""),
        ((2**63, 1), "decimal(38,0)", "beyond bigint"),
        ((10**40,), "string", "41 digits"),
        ((0.25, 12), "decimal(18,2)", "2 decimals at most"),
        ((0.5, 12), "decimal(18,1)", "1 decimal at most"),
        ((52.520008, 1), "double", "double rounds"),
        ((1e300,), "double", "double rounds"),
        ((1_795_161_600_000,), "bigint", "unit: ms"),
        ((1_795_161_600,), "bigint", "unit: s"),
        (("a", "b"), "string", ""),
        (("2026-11-20", "2026-01-01"), "date", "dates as text"),
        (("2026-11-20T08:00:00Z", "2026-11-20T08:00:00+08:00"), "timestamp", "times as text"),
        (("2026-11-20T08:00:00",), "timestamp", "name a timezone"),
        (("2026-11-20T08:00:00", "2026-11-20T08:00:00Z"), "string", "only some have an offset"),
        (("12", "12.50"), "string", "numbers as text"),
        (("12", "a"), "string", "looks like 1 number, 1 text"),
        (("2026-11-20", ""), "string", "looks like 1 date, 1 empty"),
        (("a", ""), "string", ""),
        (([1], [2, None]), "array<bigint>", ""),
        (([{"sku": "a"}, {"qty": 1}],), "array<struct<sku:string,qty:bigint>>", ""),
        (({"a": {"b": 0.5}},), "struct<a:struct<b:decimal(18,1)>>", "a.b: 1 decimal at"),
        (({"a": 1, "b": []},), "struct<a:bigint>", "b is left out"),
        (([[["2026-11-20"]]],), "array<array<array<date>>>", "[][][]: dates"),
    ],
)
def test_column_takes_what_was_seen(values: tuple[Any, ...], kind: str, doubt: str) -> None:
    column = column_of(*values)
    assert (column.type, column.as_text) == (kind, False)
    assert doubt in "; ".join(column.doubts)
    assert bool(column.doubts) == bool(doubt)
    assert column.rows + column.nulls == len(values)


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ((1, "a"), "several kinds: 1 string, 1 whole number"),
        (([1], {"a": 1}), "several kinds: 1 array, 1 object"),
        (({"a b": 1},), "the key 'a b' can be no field"),
        (({"a": 1, "A": 2},), "can be no field"),
        (({f"k{n}": n for n in range(200)},), "over 100 keys"),
        (([1, "a"],), "[]: values of several kinds"),
    ],
)
def test_values_of_no_one_type_are_kept_as_text(values: tuple[Any, ...], doubt: str) -> None:
    column = column_of(*values)
    assert (column.type, column.as_text) == ("string", True)
    assert doubt in "; ".join(column.doubts)


@pytest.mark.parametrize("values", [(None,), ([],), ({},), ([None],), ({"a": [{}]},)])
def test_nothing_is_proposed_of_nothing(values: tuple[Any, ...]) -> None:
    column = column_of(*values)
    assert (column.type, column.doubts) == ("", ("only null, or empty",))


def test_names_that_no_column_has_are_left_to_a_person() -> None:
    columns = survey_of({"a b": 1, "x": 1, "X": 2, "ok": 3}).columns()
    assert [(column.name, bool(column.type)) for column in columns] == [
        ("a b", False),
        ("x", False),
        ("X", False),
        ("ok", True),
    ]


def test_block_is_one_that_a_job_file_takes_and_reads_what_was_seen() -> None:
    rows = [
        {"id": 1, "amount": 0.25, "mixed": 1, "null": True, "a b": 1, "none": None},
        {"id": 2, "amount": 3, "mixed": "a", "when": "2026-11-20T08:00:00Z"},
        {"id": 3, "tags": ["x"], "geo": {"city": "a", "lat": 1.23456}, "none": None},
    ]
    survey = survey_of(*rows)
    survey.add(None)
    survey.add(b"no json")
    block = contents_block(of_json(survey), ["a", "b", "c", "d"])
    assert block.splitlines()[:3] == [
        "# 3 JSON objects of a, b, c, ...",
        "# DOUBT: 1 records were empty, 1 no object",
        "columns:",
    ]
    assert "  # - {name: 'a b'} # in 1 of 3, null in 0, not in 2; DOUBT: its key is" in block
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    (route,) = parse_job((JOB + indented).encode(), Path("job.yaml"), {}).spec.routes
    columns = route.table.columns
    assert columns is not None
    assert [column.name for column in columns] == [
        *("id", "amount", "mixed", "null", "when", "tags", "geo")
    ]
    read = row_columns(route)
    assert read is not None
    schema = Schema(payload_fields(read))
    decoded = JsonDecoder(schema).decode([json.dumps(row).encode() for row in rows])
    assert decoded.dirty == ()


def test_block_without_any_column_is_a_comment() -> None:
    assert contents_block(of_json(survey_of({"x": None})), ["a"]).splitlines() == [
        "# 1 JSON objects of a",
        "# columns:",
        "  # - {name: 'x'} # in 0 of 1, null in 1, not in 0; DOUBT: only null, or empty",
    ]


def test_payload_of_many_keys_is_told_as_such() -> None:
    survey = survey_of({f"k{n}": 1 for n in range(500)})
    assert survey.keys_are_data
    assert len(survey.columns()) == 101
    assert "are they data?" in contents_block(of_json(survey), ["a"])
