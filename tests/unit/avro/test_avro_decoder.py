"""Avro payloads: framing, groups of schemas, and bytes that nobody should trust."""

import io
import json
import tracemalloc
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.decoder import AvroDecoder
from sluiceway.formats.avro.schema import fingerprint, parse_schema
from sluiceway.formats.avro.writer_schemas import WriterSchema, unknown_schema
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import FewSamples
from tools import avro_bytes as avro

ID = Schema((Field("id", parse_hive_type("bigint"), required=True),))


def columns(**types: str) -> Schema:
    return Schema(tuple(Field(name, parse_hive_type(of)) for name, of in types.items()))


def record(*fields: tuple[str, Any]) -> str:
    shown = [{"name": name, "type": of} for name, of in fields]
    return json.dumps({"type": "record", "name": "R", "fields": shown})


def bare(text: str, schema: Schema = ID) -> RowDecoder:
    return open_decoder(FormatChoice("avro", (("schema", text),)), schema)


class Known:
    """Schemas by id."""

    def __init__(self, *texts: str) -> None:
        self.asked: list[set[int]] = []
        self._schemas = {n: WriterSchema(parse_schema(text)) for n, text in enumerate(texts, 1)}

    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema | DirtyValueError]:
        self.asked.append(set(keys))
        return {key: self._schemas.get(key) or unknown_schema(f"no {key}") for key in keys}


def written(schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def test_every_type_comes_as_another_implementation_writes_it() -> None:
    schema: dict[str, Any] = json.loads(
        record(
            ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("s", "string"),
            ("b", "bytes"), ("t", "boolean"), ("n", ["null", "string"]),
            ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
            ("x", {"type": "fixed", "name": "F", "size": 3}),
            ("a", {"type": "array", "items": "long"}), ("m", {"type": "map", "values": "int"}),
            ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}),
            ("day", {"type": "int", "logicalType": "date"}),
            ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
            ("us", {"type": "long", "logicalType": "timestamp-micros"}),
            ("r", {"type": "record", "name": "In", "fields": [{"name": "y", "type": "int"}]}),
        )
    )  # fmt: skip
    moment = datetime(2026, 11, 20, 8, 0, 0, 123_000, tzinfo=UTC)
    amount = Decimal("-12345678901234567890123456789.123456789")
    row = {
        "i": -(2**31), "l": 2**63 - 1, "f": 0.5, "d": 0.1, "s": "北京", "b": b"\0\xff", "t": True,
        "n": None, "e": "B", "x": b"abc", "a": list(range(100)), "m": {"k": 7}, "dec": amount,
        "day": date(2026, 11, 20), "ms": moment, "us": moment, "r": {"y": 5},
    }  # fmt: skip
    decoder = bare(
        json.dumps(schema),
        columns(
            i="int", l="bigint", f="float", d="double", s="string", b="binary", t="boolean",
            n="string", e="string", x="binary", a="array<bigint>", m="map<string,int>",
            dec="decimal(38,9)", day="date", ms="timestamp", us="timestamp", r="struct<y:int>",
        ),
    )  # fmt: skip
    decoded = decoder.decode([written(schema, row)])
    assert decoded.dirty == ()
    plain = moment.replace(tzinfo=None)
    wanted = {**row, "m": [("k", 7)], "ms": plain, "us": plain}
    assert decoded.rows.to_pylist() == [wanted]


def test_payloads_of_several_schemas_keep_their_order_in_one_batch() -> None:
    known = Known(record(("id", "int")), record(("other", "string"), ("id", "string")))
    decoder = AvroDecoder(ID, confluent_frame, known, skips_tombstones=False)
    payloads = [
        avro.confluent(1, avro.long(n))
        if n % 2
        else avro.confluent(2, avro.text("x") + avro.text(str(n)))
        for n in range(100)
    ]
    payloads[10] = avro.confluent(3, b"\0")
    decoded = decoder.decode(payloads)
    ids = [n for n in range(100) if n != 10]
    assert decoded.rows.column(0).to_pylist() == ids
    assert decoded.indices.to_pylist() == ids
    (dirty,) = decoded.dirty
    assert (dirty.index, dirty.reason, dirty.stage) == (10, Why.UNKNOWN_SCHEMA, "decode")
    assert known.asked == [{1, 2, 3}]


def test_single_objects_are_read_by_their_fingerprint() -> None:
    texts = [record(("id", "long")), record(("id", "string"))]
    options = tuple((f"schemas.{n}", text) for n, text in enumerate(texts))
    decoder = open_decoder(FormatChoice("avro", options), ID)
    head = [b"\xc3\x01" + fingerprint(text).to_bytes(8, "little") for text in texts]
    stranger = b"\xc3\x01" + bytes(8) + avro.long(7)
    payloads = [head[0] + avro.long(5), head[1] + avro.text("6"), stranger, b"\xc3\x01", b"{}"]
    decoded = decoder.decode(payloads)
    assert decoded.rows.column(0).to_pylist() == [5, 6]
    assert [row.reason for row in decoded.dirty] == [Why.UNKNOWN_SCHEMA, Why.BROKEN, Why.BROKEN]
    assert "fingerprint 0000000000000000" in decoded.dirty[0].message


def test_field_that_the_writer_does_not_have_is_missing_and_null_is_null() -> None:
    schema = Schema(
        (
            Field("a", parse_hive_type("int"), required=True),
            Field("b", parse_hive_type("int"), required=True, path=("in", "b")),
            Field("c", parse_hive_type("int"), path=("in", "nowhere")),
        )
    )
    inner = {"type": "record", "name": "In", "fields": [{"name": "b", "type": ["null", "int"]}]}
    decoder = bare(record(("a", "int"), ("in", inner)), schema)
    decoded = decoder.decode([b"\2\2\2", b"\2\0"])
    assert decoded.rows.to_pylist() == [{"a": 1, "b": 1, "c": None}]
    assert (decoded.dirty[0].reason, decoded.dirty[0].path) == (Why.NULL, "in.b")
    without = bare(
        record(
            ("x", "int"),
        ),
        schema,
    ).decode([b"\2"])
    assert (without.dirty[0].reason, without.dirty[0].path) == (Why.MISSING, "a")


BROKEN_CASES: list[tuple[Any, bytes, Why, str]] = [
    ("long", b"", Why.EMPTY, "is empty"),
    ("long", b"\x80", Why.BROKEN, "in the middle of a number"),
    ("long", b"\xff" * 10 + b"\1", Why.BROKEN, "more than 64 bits"),
    ("long", b"\xff" * 9 + b"\2", Why.BROKEN, "more than 64 bits"),
    ("long", b"\2\2", Why.BROKEN, "1 bytes are left"),
    ("int", avro.long(2**31), Why.BROKEN, "more than 32 bits"),
    ("boolean", b"\2", Why.BROKEN, "boolean at byte 0 is 0x02"),
    ("double", b"\0" * 7, Why.BROKEN, "in the middle of a value"),
    ("string", avro.long(2**62), Why.BROKEN, "with 0 bytes left"),
    ("string", avro.long(-1) + b"a", Why.BROKEN, "is -1"),
    ("bytes", avro.long(5) + b"abc", Why.BROKEN, "with 3 bytes left"),
    (["null", "long"], avro.long(2), Why.BROKEN, "no branch 2"),
    (["null", "long"], avro.long(-1), Why.BROKEN, "no branch -1"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, avro.long(1), Why.BROKEN, "no symbol 1"),
    ({"type": "array", "items": "long"}, avro.long(2**62), Why.BROKEN, "room for 0"),
    ({"type": "array", "items": "long"}, avro.long(-(2**63)), Why.BROKEN, "in the middle"),
    ({"type": "array", "items": "long"}, b"\1\6\2\0", Why.BROKEN, "length"),
    ({"type": "array", "items": "long"}, b"\1\4\2\0", Why.BROKEN, "says that it ends"),
    ({"type": "array", "items": "null"}, avro.long(2**40) + b"\0", Why.BROKEN, "room for 10000"),
    ({"type": "map", "values": "null"}, avro.long(2**40) + b"\0", Why.BROKEN, "items, with room"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9},
        b"\0",
        Why.BROKEN,
        "decimal at byte 0 has 0 bytes",
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9},
        avro.data(b"\x7f" * 100_000),
        Why.BROKEN,
        "has 100000 bytes",
    ),
]


@pytest.mark.parametrize(
    ("field", "body", "reason", "told"), BROKEN_CASES, ids=range(len(BROKEN_CASES))
)
def test_broken_payload_is_told(field: Any, body: bytes, reason: Why, told: str) -> None:
    (dirty,) = bare(record(("id", field))).decode([body]).dirty
    assert dirty.reason is reason, dirty
    assert dirty.stage == "decode"
    assert told in dirty.message


def test_text_that_is_no_utf8_is_dirty_with_its_path_and_harms_only_its_column() -> None:
    text = record(("id", "long"), ("s", "string"))
    body = avro.long(1) + avro.data(b"a\xff")
    (dirty,) = bare(text, columns(id="bigint", s="string")).decode([body]).dirty
    assert (dirty.reason, dirty.path) == (Why.ENCODING, "s")
    assert bare(text).decode([body]).rows.column(0).to_pylist() == [1]


def test_nesting_has_an_end() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"id","type":["null","R"]}]}'
    decoder = bare(text, columns(other="string"))
    deepest, deeper = b"\2" * 99 + b"\0", b"\2" * 100 + b"\0"
    decoded = decoder.decode([deepest, deeper, b"\2" * 1_000_000])
    assert decoded.indices.to_pylist() == [0]
    assert [row.reason for row in decoded.dirty] == [Why.TOO_DEEP, Why.TOO_DEEP]
    endless = '{"type":"record","name":"R","fields":[{"name":"id","type":"R"}]}'
    assert bare(endless).decode([b"\0"]).dirty[0].reason is Why.TOO_DEEP


def test_map_with_a_key_twice_is_dirty() -> None:
    pair = avro.text("k") + avro.long(1)
    decoder = bare(record(("m", {"type": "map", "values": "int"})), columns(m="map<string,int>"))
    (dirty,) = decoder.decode([avro.blocks([pair, pair])]).dirty
    assert (dirty.reason, dirty.path) == (Why.DUPLICATE_KEY, "m")


def test_great_counts_take_no_memory() -> None:
    decoder = bare(record(("id", {"type": "array", "items": "null"})), columns(id="array<int>"))
    bodies = [avro.long(9_999) + avro.long(2**50), avro.long(2**62), avro.long(-(2**62)) + b"\0"]
    tracemalloc.start()
    try:
        decoded = decoder.decode(bodies * 50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(decoded.dirty) == 150
    assert peak < 20_000_000


def test_schema_that_is_no_record_makes_every_row_dirty() -> None:
    (dirty,) = bare('"long"').decode([b"\2"]).dirty
    assert (dirty.reason, dirty.path) == (Why.NOT_AN_OBJECT, "")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "needs one of"),
        ((("schema", '"int"'), ("schemas.0", '"int"')), "needs one of"),
        ((("schema", "{"),), "not JSON"),
        ((("schemas.0", '"int"'), ("schemas.1", '{"type":"int"}')), "are the same"),
        ((("schema", '"int"'), ("tombstones", "keep")), "no option tombstones: keep"),
        ((("schema", '"int"'), ("colour", "red")), "no option colour: red"),
    ],
    ids=range(6),
)
def test_options_that_make_no_decoder_are_refused(
    options: tuple[tuple[str, str], ...], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        open_decoder(FormatChoice("avro", options), ID)


@pytest.mark.parametrize("name", ["json", "csv", "debezium", "maxwell", "canal"])
def test_formats_without_bytes_refuse_a_binary_column_without_a_format(name: str) -> None:
    with pytest.raises(ValueError, match="a binary column needs `format`"):
        open_decoder(FormatChoice(name), columns(raw="binary"))


def test_broken_map_is_told_without_its_keys() -> None:
    decoder = bare(record(("m", {"type": "map", "values": "string"})), columns(m="string"))
    (dirty,) = decoder.decode([b"\x02\x06ann\x80"]).dirty
    assert (dirty.reason, dirty.path) == (Why.BROKEN, "m.*")


def test_numbers_that_no_column_reads_are_told_with_all_their_digits() -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
    text = record(("id", "long"), ("money", money))
    payload = written(json.loads(text), {"id": 1, "money": Decimal("12345678901234567890.12")})
    samples = FewSamples(ID, bare(text).fields_of)
    samples.sample([payload], ())
    assert [(each.name, each.type) for each in samples.fields()] == [("money", "decimal(38,2)")]


def test_fields_that_no_column_reads_are_told_by_the_schema_of_the_writer() -> None:
    text = record(("id", "long"), ("at", {"type": "int", "logicalType": "date"}), ("note", "bytes"))
    decoder = bare(text)
    payload = written(json.loads(text), {"id": 1, "at": date(2026, 11, 20), "note": b"x"})
    samples = FewSamples(ID, decoder.fields_of)
    for each in (payload, payload[:-1]):
        samples.sample([each], ())
    samples.sample([b"\xff"], ())
    found = {each.name: each.type for each in samples.fields()}
    assert found == {"at": "date", "note": "binary"}
    registered = AvroDecoder(ID, confluent_frame, Known(text), skips_tombstones=True)
    framed = b"\x00\x00\x00\x00\x01" + payload
    assert registered.fields_of(framed) == decoder.fields_of(payload)
    assert registered.fields_of(b"\x00\x00\x00\x00\x02" + payload) == {}


@pytest.mark.parametrize(
    ("key", "keys", "type_text", "wanted"),
    [
        ("int", [avro.long(1), avro.long(-2)], "map<int,string>", [1, -2]),
        ("long", [avro.long(2**40), avro.long(0)], "map<bigint,string>", [2**40, 0]),
        ("string", [avro.text("a"), avro.text("b")], "map<string,string>", ["a", "b"]),
        (
            {"type": "int", "logicalType": "date"},
            [avro.long(0), avro.long(1)],
            "map<date,string>",
            [date(1970, 1, 1), date(1970, 1, 2)],
        ),
        ("int", [avro.long(1), avro.long(1)], "map<int,string>", Why.DUPLICATE_KEY),
        (["null", "int"], [b"\2\2", b"\0"], "map<int,string>", Why.WRONG_TYPE),
    ],
)
def test_a_map_may_come_as_an_array_of_its_entries(
    key: Any, keys: list[bytes], type_text: str, wanted: Any
) -> None:
    """As Kafka Connect's converter writes maps whose keys are not text."""
    fields = [{"name": "key", "type": key}, {"name": "value", "type": ["null", "string"]}]
    entry = {"type": "record", "name": "MapEntry", "fields": fields}
    entries = [keys[0] + b"\2" + avro.text("x"), keys[1] + b"\0"]
    reader = bare(record(("v", {"type": "array", "items": entry})), columns(v=type_text))
    found = reader.decode([avro.blocks(entries)] * 20)
    if isinstance(wanted, Why):
        assert {row.reason for row in found.dirty} == {wanted}
    else:
        assert (
            found.rows.column(0).to_pylist() == [list(zip(wanted, ["x", None], strict=True))] * 20
        )


def of_connect(**more: object) -> dict[str, object]:
    return {"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal", **more}


@pytest.mark.parametrize("rows", [1, 40])
def test_decimals_of_any_scale_come_through_as_they_are(rows: int) -> None:
    text = record(
        ("wide", of_connect(logicalType="decimal", scale=127, precision=64)),
        ("round", of_connect(scale=-3, precision=20)),
        ("big", {"type": "bytes", "logicalType": "big-decimal"}),
    )
    own = avro.data(avro.unscaled(12345)) + avro.long(2)
    payload = avro.data(avro.unscaled(15 * 10**126)) + avro.data(avro.unscaled(-7)) + avro.data(own)
    schema = columns(wide="decimal(38,2)", round="decimal(38,0)", big="decimal(10,2)")
    decoded = bare(text, schema).decode([payload] * rows)
    wanted = {"wide": Decimal("1.50"), "round": Decimal(-7000), "big": Decimal("123.45")}
    assert decoded.dirty == ()
    assert decoded.rows.to_pylist() == [wanted] * rows


@pytest.mark.parametrize(
    "own",
    [
        b"",
        b"\x00\x04",
        avro.data(b"\x01"),
        avro.data(b"\x01") + avro.long(501),
        b"\x02\x01\x04\x04",
    ],
    ids=range(5),
)
def test_big_decimal_that_is_none_is_broken(own: bytes) -> None:
    text = record(("big", {"type": "bytes", "logicalType": "big-decimal"}))
    (dirty,) = bare(text, columns(big="decimal(10,2)")).decode([avro.data(own)]).dirty
    assert (dirty.reason, dirty.path) == (Why.BROKEN, "big")
