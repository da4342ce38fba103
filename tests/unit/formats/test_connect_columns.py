"""Columns that are added for values which came with Kafka Connect's schema around them."""

import json
from typing import Any

import pytest

from logical_types.cases import Case, as_json, cases
from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import DEBEZIUM
from sluiceway.types.evolution import CLOCK_ZONE
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import DirtySamples
from sluiceway.worker.plan import ObservedField

ID = Field("id", parse_hive_type("bigint"))
WANTED = {
    "Decimal": "decimal(10,2)",
    "Date": "date",
    "Timestamp": "timestamp",
    "MicroTimestamp": "timestamp",
    "NanoTimestamp": "timestamp",
    "ZonedTimestamp": "timestamp",
    "IsoTimestamp": "timestamp",
    "IsoDate": "date",
    "VariableScaleDecimal": "decimal(38,18)",
    "Point": "struct<x:double,y:double,wkb:string,srid:bigint>",
    "Geometry": "struct<wkb:string,srid:bigint>",
    "Geography": "struct<wkb:string,srid:bigint>",
    "DoubleVector": "array<double>",
    "FloatVector": "array<double>",
    "SparseDoubleVector": "struct<dimensions:bigint,vector:map<bigint,double>>",
}
PLAIN = {"int32": "bigint", "int64": "bigint", "string": "string", "bytes": "string"}
HELD_ELSEWHERE = ("SparseDoubleVector", "IsoDate")


def change(case: Case, value: Any) -> bytes:
    fields = [{"field": "id", "type": "int64"}, {**case.schema, "field": "v"}]
    row = {"type": "struct", "fields": fields, "field": "after"}
    payload = {"op": "c", "after": {"id": 1, "v": value}}
    return json.dumps({"schema": {"type": "struct", "fields": [row]}, "payload": payload}).encode()


def seen(*payloads: bytes, more: tuple[Field, ...] = ()) -> ObservedField:
    schema = Schema((ID, *more))
    decoder = ChangeLogDecoder(DEBEZIUM, schema, {"unknown_fields": "evolve"})
    samples = DirtySamples(schema, decoder.fields_of)
    samples.sample(payloads, decoder.decode(list(payloads)).dirty)
    (found,) = samples.fields()
    return found


def wanted(case: Case) -> str:
    """The type of the column, by the case's name: `array of NAME` say."""
    outer, _, name = case.name.rpartition(" ")
    kind = WANTED.get(name.rpartition(".")[2]) or PLAIN[case.schema["type"]]
    word = outer.partition(" ")[0]
    around = {"array": f"array<{kind}>", "struct": f"struct<v:{kind}>"}
    return {"": kind, "map": f"map<string,{kind}>", **around}[word]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_added_column_is_what_the_schema_means_and_holds_its_first_row(case: Case) -> None:
    payload = change(case, as_json(case.schema, case.raw))
    found = seen(payload)
    if case.name.rpartition(".")[2] in HELD_ELSEWHERE and found.unfit:
        # A value that no column takes yet is no reason for a column.
        assert found.type == ""
        return
    assert (found.type, found.untyped, found.unfit) == (wanted(case), "", "")
    policy = Policy(timezone=CLOCK_ZONE) if found.is_clock else NO_POLICY
    added = Field("v", parse_hive_type(found.type), policy=policy)
    decoder = ChangeLogDecoder(DEBEZIUM, Schema((ID, added)), {"unknown_fields": "evolve"})
    decoded = decoder.decode([payload])
    assert decoded.dirty == ()
    assert decoded.rows.num_rows == 1


def holder(*fields: dict[str, Any]) -> Case:
    return Case("", {"type": "struct", "fields": list(fields)}, None, None, "", {})


AT = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at"}
AMOUNT = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2"},
    "field": "amount",
}


def test_struct_has_all_fields_of_its_schema_those_that_are_null_now_too() -> None:
    days = {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}}
    of = holder(AT, AMOUNT, {**days, "field": "days"})
    found = seen(change(of, {"at": None, "amount": "1000", "days": []}))
    assert found.type == "struct<at:timestamp,amount:decimal(38,2),days:array<date>>"
    assert found.is_clock


def test_field_inside_of_a_column_is_what_its_schema_means() -> None:
    held = Field("v", parse_hive_type("array<struct<id:bigint>>"))
    item = holder({"type": "int64", "field": "id"}, AMOUNT).schema
    of = Case("", {"type": "array", "items": item}, None, None, "", {})
    found = seen(change(of, [{"id": 1, "amount": None}, {"id": 2, "amount": "1000"}]), more=(held,))
    assert (found.column, found.path, found.type) == ("v", ("[]", "amount"), "decimal(38,2)")


def test_value_that_fits_nothing_leaves_the_column_to_the_next_one() -> None:
    endless = change(Case("", AT, None, None, "", {}), 9_223_372_036_825_200_000)
    assert (seen(endless).type, seen(endless).untyped) == ("", "")
    assert "years 0001 to 9999" in seen(endless).unfit
    found = seen(endless, change(Case("", AT, None, None, "", {}), 1_763_632_800_000_000))
    assert (found.type, found.untyped, found.unfit) == ("timestamp", "", "")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "bytes", "name": AMOUNT["name"]}, "a decimal without a scale"),
        ({"type": "bytes", "name": AMOUNT["name"], "parameters": {"scale": "40"}}, "of 0 to 38"),
        ({"type": "map", "keys": {"type": "float64"}, "values": {"type": "string"}}, "whose keys"),
        ({"type": "struct", "fields": []}, "no fields"),
        ({"type": "struct", "fields": [{"field": "a b", "type": "string"}]}, "no name of a column"),
        ({"type": "array"}, "no schema"),
        ({"type": []}, "does not say a type"),
    ],
)
def test_schema_without_a_type_of_a_column_says_why(schema: dict[str, Any], why: str) -> None:
    assert why in seen(change(Case("", schema, None, None, "", {}), {"a": 1})).untyped


def test_zeros_before_the_point_are_digits_of_the_column() -> None:
    parameters = {"scale": "-3", "connect.decimal.precision": "5"}
    of = Case("", {**AMOUNT, "parameters": parameters}, None, None, "", {})
    assert seen(change(of, "AQ==")).type == "decimal(8,0)"


def test_decimals_of_two_scales_get_room_for_both() -> None:
    cases = [
        Case("", {**AMOUNT, "parameters": told}, None, None, "", {})
        for told in (
            {"scale": "2", "connect.decimal.precision": "10"},
            {"scale": "4", "connect.decimal.precision": "9"},
        )
    ]
    assert seen(*(change(of, "AQ==") for of in cases)).type == "decimal(12,4)"
