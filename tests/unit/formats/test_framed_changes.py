"""Debezium's envelopes in Avro: rows, kinds, and what is none; by columns as one by one."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from sluiceway.errors import SourceEmptiedError
from sluiceway.formats.changes.framed import FramedChangeDecoder
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.policy import Policy
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import (
    DateType,
    DecimalType,
    Field,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
)
from tools import avro_bytes as avro
from tools.avro_change_source import KEY_SCHEMA, VALUE_SCHEMA, AvroChangeSource, moment_us
from tools.change_source import Row
from tools.registry_server import Registry, registry_server

UTC_TIME = Field("at", TimestampType(), policy=Policy(timezone="UTC"))
SCHEMA = Schema(
    (
        Field("id", IntegerType(64)),
        Field("name", StringType()),
        Field("amount", DecimalType(18, 2)),
        Field("city", StringType(), required=True),
        UTC_TIME,
    )
)
LOOSE = Schema((Field("id", IntegerType(64)), Field("city", StringType())))
KEYED = {"key": '["id"]'}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_server() as found:
        found.add("k", KEY_SCHEMA)
        found.add("v", VALUE_SCHEMA)
        yield found


def decode(
    registry: Registry,
    *payloads: bytes | None,
    schema: Schema = SCHEMA,
    fast_rows: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Decoded:
    told = {"registry.url": registry.url, "registry.unknown_wait_ms": "0", **(options or {})}
    return FramedChangeDecoder(schema, told, fast_rows=fast_rows).decode(payloads)


def row(number: int, city: str = "a") -> Row:
    return {"id": number, "name": f"n{number}", "amount": f"{number}.05", "city": city}


def values(of: Row) -> dict[str, object]:
    at = datetime(1970, 1, 1) + timedelta(microseconds=moment_us(of))  # noqa: DTZ001 - as Arrow
    return {**of, "amount": Decimal(str(of["amount"])), "at": at}


def test_kinds_and_rows_are_those_of_the_envelope(registry: Registry) -> None:
    source = AvroChangeSource(1)
    told = [
        source.envelope("c", None, row(1)),
        source.envelope("u", row(1), row(1, "b")),
        source.envelope("d", row(1, "b"), None),
        source.envelope("d", None, None),
        source.envelope("r", None, row(2)),
    ]
    source.snapshot = "first_in_data_collection"
    told.append(source.envelope("r", None, row(3)))
    found = decode(registry, *told, None, options=KEYED)
    assert found.dirty == ()
    assert found.kinds is not None
    kinds = [RowKind(kind).name for kind in found.kinds.to_pylist()]
    assert kinds == ["IMAGE", "IMAGE", "DELETE", "DELETE", "IMAGE", "FIRST"]
    rows = found.rows.to_pylist()
    assert [rows[n] for n in (0, 1, 4, 5)] == [
        values(each) for each in (row(1), row(1, "b"), row(2), row(3))
    ]
    assert [rows[n]["id"] for n in (2, 3)] == [1, None]
    assert found.skipped == 1
    assert found.notes == {"tombstone": 1}


def test_a_log_has_the_row_before_a_delete(registry: Registry) -> None:
    source = AvroChangeSource(1)
    path = Field("op", StringType(), path=("$", "op"))
    schema = Schema((*SCHEMA.fields, path))
    told = source.envelope("d", row(4), None)
    found = decode(registry, told, schema=schema, options={"tombstones": "dirty"})
    assert found.kinds is None
    assert found.rows.to_pylist() == [{**values(row(4)), "op": "d"}]


def test_a_truncate_halts_a_keyed_table_and_is_dirty_in_a_log(registry: Registry) -> None:
    told = AvroChangeSource(1).envelope("t", None, None)
    with pytest.raises(SourceEmptiedError):
        decode(registry, told, options=KEYED)
    (dirty,) = decode(registry, told).dirty
    assert dirty.reason.value == "not_a_change"
    assert decode(registry, told, options={"other_messages": "skip"}).notes == {"truncate": 1}
    found = decode(registry, told, options={**KEYED, "truncate": "apply"})
    assert found.kinds is not None
    assert found.kinds.to_pylist() == [RowKind.TRUNCATE]
    assert set(found.rows.to_pylist()[0].values()) == {None}


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("schema", [SCHEMA, LOOSE])
def test_columns_and_single_messages_agree(
    registry: Registry, schema: Schema, *, keyed: bool
) -> None:
    source, dice = AvroChangeSource(5), Random(5)  # noqa: S311 - a game
    options = KEYED if keyed else {}
    clean = dirty = 0
    for _ in range(120):
        # Few at a time: one text that is none makes all of its batch go one by one.
        told = [_random_message(source, dice) for _ in range(6)]
        slow = decode(registry, *told, schema=schema, options=options)
        fast = decode(registry, *told, schema=schema, fast_rows=1, options=options)
        assert fast.rows.equals(slow.rows)
        assert fast.indices.equals(slow.indices)
        assert fast.kinds == slow.kinds
        assert (fast.dirty, fast.skipped, fast.notes) == (slow.dirty, slow.skipped, slow.notes)
        clean, dirty = clean + slow.rows.num_rows, dirty + len(slow.dirty)
    assert clean > 200
    assert dirty > 50


def _random_message(source: AvroChangeSource, dice: Random) -> bytes | None:
    source.snapshot = dice.choice(["false", "true", "first", "last"])
    before = row(dice.randrange(99)) if dice.random() < 0.5 else None
    after = row(dice.randrange(99), dice.choice("abc")) if dice.random() < 0.9 else None
    payload = source.envelope(dice.choice("cuuurdx"), before, after)
    if dice.random() < 0.05:
        payload = payload[: dice.randrange(len(payload))] + bytes([dice.randrange(256)])
    return None if dice.random() < 0.05 else payload


def test_plain_changes_are_read_by_columns(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object, message: object) -> list[object]:
        pytest.fail(f"one by one: {message}")

    monkeypatch.setattr(FramedChangeDecoder, "_values", never)
    source = AvroChangeSource(1)
    told = [source.envelope("u", row(n), row(n, "b")) for n in range(25)]
    told += [source.envelope("c", None, row(n)) for n in range(25)]
    assert decode(registry, *told, fast_rows=1, options=KEYED).rows.num_rows == 50


@pytest.mark.parametrize(
    ("name", "number", "field", "wanted"),
    [
        ("io.debezium.time.Date", 3, Field("c", DateType()), "1970-01-04"),
        ("io.debezium.time.Date", 3, Field("c", IntegerType(32)), "3"),
        ("io.debezium.time.Timestamp", 1500, UTC_TIME, "1970-01-01 00:00:01.500000"),
        ("io.debezium.time.MicroTimestamp", -1, UTC_TIME, "1969-12-31 23:59:59.999999"),
        ("io.debezium.time.NanoTimestamp", 2000, UTC_TIME, "1970-01-01 00:00:00.000002"),
        (
            "io.debezium.time.MicroTimestamp",
            7,
            Field("c", TimestampType(), time_unit="s"),
            "1970-01-01 00:00:07",
        ),
        ("io.debezium.time.MicroTime", 7, Field("c", IntegerType(64)), "7"),
    ],
)
@pytest.mark.parametrize("fast_rows", [None, 1])
def test_numbers_that_connect_means_as_times(
    registry: Registry, name: str, number: int, field: Field, wanted: str, fast_rows: int | None
) -> None:
    kind = "int" if name.endswith("Date") else "long"
    ident = registry.add("t", _envelope({"type": kind, "connect.name": name}))
    field = Field("c", field.type, field.required, ("c",), field.time_unit, field.policy)
    body = avro.long(1) + avro.long(number) + avro.text("c")
    found = decode(
        registry, avro.confluent(ident, body), schema=Schema((field,)), fast_rows=fast_rows
    )
    assert found.dirty == ()
    (value,) = found.rows.column(0).to_pylist()
    assert str(value) == wanted


@pytest.mark.parametrize("fast_rows", [None, 1])
def test_a_text_of_a_wall_clock_is_one_instant(registry: Registry, fast_rows: int | None) -> None:
    of = {"type": "string", "connect.name": "io.debezium.time.IsoTimestamp"}
    ident = registry.add("iso", _envelope(of))
    body = avro.long(1) + avro.text("2025-11-20T10:00:00Z") + avro.text("c")
    for field, wanted in (
        (Field("c", TimestampType(), policy=Policy(timezone="Asia/Shanghai")), "02:00:00"),
        (Field("c", StringType()), "10:00:00Z"),
        (Field("c", TimestampType()), "wrong_type"),
    ):
        found = decode(
            registry, avro.confluent(ident, body), schema=Schema((field,)), fast_rows=fast_rows
        )
        told = [str(value) for value in found.rows.column(0).to_pylist()]
        assert [*told, *(row.reason.value for row in found.dirty)][0].endswith(wanted)


def test_a_decimal_with_a_scale_of_its_own(registry: Registry) -> None:
    of = {
        "type": "record",
        "name": "VariableScaleDecimal",
        "namespace": "io.debezium.data",
        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    }
    ident = registry.add("d", _envelope(of))
    value = avro.long(3) + avro.data(avro.unscaled(-12345))
    body = avro.long(1) + value + avro.text("c")
    schema = Schema((Field("c", DecimalType(10, 3)),))
    found = decode(registry, avro.confluent(ident, body), schema=schema)
    assert found.rows.column(0).to_pylist() == [Decimal("-12.345")]
    body = avro.long(1) + avro.long(3) + avro.data(b"") + avro.text("c")
    (dirty,) = decode(registry, avro.confluent(ident, body), schema=schema).dirty
    assert dirty.reason.value == "broken"


def test_a_value_that_the_source_did_not_tell_is_dirty(registry: Registry) -> None:
    source = AvroChangeSource(1)
    unknown = {**row(2), "name": "__debezium_unavailable_value"}
    told = [
        source.envelope("u", row(1), row(1, "b")),
        source.envelope("u", None, unknown),
        source.envelope("d", unknown, None),
        source.envelope("u", unknown, row(4)),
    ]
    for fast_rows in (None, 1):
        found = decode(registry, *told, fast_rows=fast_rows, options=KEYED)
        assert [(d.index, d.reason.value, d.path) for d in found.dirty] == [
            (1, "not_a_change", "name")
        ]
        assert found.indices.to_pylist() == [0, 2, 3]
        assert found.kinds is not None
        assert found.kinds.to_pylist() == [RowKind.IMAGE, RowKind.DELETE, RowKind.IMAGE]
    assert decode(registry, *told[:2]).dirty == ()


def test_a_snapshot_that_begins_with_a_dirty_record_is_seen(registry: Registry) -> None:
    source = AvroChangeSource(1, snapshot="first")
    unknown = {**row(2), "name": "__debezium_unavailable_value"}
    told = [source.envelope("r", None, unknown), source.envelope("r", None, row(1)), b"{}"]
    for fast_rows in (None, 1):
        found = decode(registry, *told, fast_rows=fast_rows, options=KEYED)
        assert [each.index for each in found.dirty] == [0, 2]
        assert found.begins == (0,)


def test_the_job_files_format_finds_the_decoder(registry: Registry) -> None:
    choice = FormatChoice("debezium", (("registry.url", registry.url), ("other_messages", "skip")))
    assert isinstance(open_decoder(choice, SCHEMA), FramedChangeDecoder)
    with pytest.raises(ValueError, match="no option nonsense"):
        FramedChangeDecoder(SCHEMA, {"registry.url": registry.url, "nonsense": "1"})


def _envelope(of: object) -> str:
    row_type = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": of}]}
    fields = [
        {"name": "after", "type": ["null", row_type]},
        {"name": "op", "type": "string"},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "fields": fields})
