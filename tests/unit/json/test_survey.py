"""What is proposed for a topic of JSON, and what is left to a person."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.views.proposed_columns import contents_block
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn
from sluiceway.formats.recognise import TopicContents
from sluiceway.jobfile.compile.choices import row_columns
from sluiceway.jobfile.loader import parse_job
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


def test_key_that_no_column_can_have_is_read_by_its_path() -> None:
    columns = survey_of({"a b": 1, "host.name": 2, "ok": 3}).columns()
    assert [(column.name, column.key, column.type) for column in columns] == [
        ("a_b", "a b", "bigint"),
        ("host_name", "host.name", "bigint"),
        ("ok", "", "bigint"),
    ]


def test_names_that_no_column_has_are_left_to_a_person() -> None:
    columns = survey_of({"a.b": 1, "a_B": 2, "x": 1, "X": 2, "9": 4}).columns()
    assert [(column.name, bool(column.type)) for column in columns] == [
        ("a.b", False),
        ("a_B", True),
        ("x", False),
        ("X", False),
        ("9", False),
    ]


@pytest.mark.parametrize(
    ("usual", "odd", "kind", "doubt"),
    [
        (1_795_161_600_000, "yesterday", "bigint", "1 of 20 values are dirty: 1 string; "),
        (1_795_161_600_000, 0, "bigint", "19 of 20 may be ms since 1970: "),
        (7, 3.5, "bigint", "1 of 20 numbers are dirty: they are not whole; decimal(18,1) takes"),
        (7, 10**30, "bigint", "1 of 20 numbers are dirty: beyond bigint; decimal(38,0) takes all"),
        (7, 10**60, "bigint", "1 of 20 numbers are dirty: beyond bigint; string takes all"),
        (7, True, "bigint", "1 of 20 values are dirty: 1 boolean; "),
        (0.25, "free", "decimal(18,2)", "1 of 20 values are dirty: 1 string; "),
        (True, "yes", "boolean", "1 of 20 values are dirty: 1 string; "),
        ("2026-11-20", "soon", "date", "1 of 20 texts are dirty: 1 text; string takes all"),
        ("2026-11-20", "", "date", "1 of 20 texts are dirty: 1 empty; string takes all"),
        ("2026-11-20T08:00:00Z", "soon", "timestamp", "1 of 20 texts are dirty: 1 text; "),
        ("2026-11-20T08:00:00Z", "2026-11-20 08:00", "timestamp", "1 local time; string takes all"),
        (["a"], "a", "array<string>", "1 of 20 values are dirty: 1 string; "),
        ({"a": 1}, [1], "struct<a:bigint>", "1 of 20 values are dirty: 1 array; "),
        ({"a": 1}, {"a": "x"}, "struct<a:bigint>", "a: 1 of 20 values are dirty: 1 string; "),
        ({"a": 1}, {"a b": 1}, "struct<a:bigint>", "a b is left out: 1 of 20"),
        ({"a": 1}, {"A": 1}, "struct<a:bigint>", "A is left out: 1 of 20"),
        ([1], ["x"], "array<bigint>", "[]: 1 of 20 values are dirty: 1 string; "),
    ],
)
def test_a_few_broken_records_do_not_choose_the_type(
    usual: Any, odd: Any, kind: str, doubt: str
) -> None:
    column = column_of(*[usual] * 19, odd)
    assert (column.type, column.as_text) == (kind, False)
    assert doubt in "; ".join(column.doubts)
    more = column_of(*[usual] * 18, odd, odd)
    assert (more.type, more.as_text) != (kind, False) or "may be" in doubt or "left out" in doubt


def test_a_few_keys_in_other_letters_do_not_take_the_column_away() -> None:
    columns = survey_of(*[{"x": 1}] * 19, {"X": 2}).columns()
    assert [(column.name, column.type) for column in columns] == [("x", "bigint"), ("X", "")]
    assert columns[0].doubts == ("the key is spelled otherwise in 1, which are not read",)


def test_wall_times_are_read_in_a_zone_that_is_a_doubt() -> None:
    block = contents_block(of_json(survey_of({"at": "2026-11-20T08:00:00"})), ["a"])
    assert "  - {name: at, type: timestamp, timezone: UTC} # DOUBT: times as text without" in block


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
    assert '  - {name: a_b, type: bigint, path: "a b"} # in 1 of 3, null in 0, not in 2' in block
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    (route,) = parse_job((JOB + indented).encode(), Path("job.yaml"), {}).spec.routes
    columns = route.table.columns
    assert columns is not None
    assert [column.name for column in columns] == [
        *("id", "amount", "mixed", "null", "a_b", "when", "tags", "geo")
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
