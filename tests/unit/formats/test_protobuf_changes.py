"""Debezium's envelopes in Protobuf: rows, kinds, and what is none."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from sluiceway.errors import SourceEmptiedError
from sluiceway.formats.changes.framed import FramedChangeDecoder
from sluiceway.formats.contract import Decoded
from sluiceway.formats.record_keys import key_fields
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.client import RegistryClient
from sluiceway.formats.schema_registry.settings import RegistrySettings
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
from tools import protobuf_bytes as proto
from tools.avro_change_source import moment_us
from tools.change_source import Row
from tools.fetched_payloads import joined
from tools.protobuf_change_source import (
    DAY,
    KEY_PROTO,
    VALUE_PROTO,
    ProtobufChangeSource,
    framed,
)
from tools.registry_server import Registry, registry_server

SCHEMA = Schema(
    (
        Field("id", IntegerType(64)),
        Field("name", StringType()),
        Field("amount", DecimalType(18, 2)),
        Field("city", StringType()),
        Field("at", TimestampType(), time_unit="us", policy=Policy(timezone="UTC")),
        Field("day", DateType()),
    )
)
KEYED = {"key": '["id"]'}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_server() as found:
        assert found.add("k", KEY_PROTO, kind="PROTOBUF") == 1
        assert found.add("v", VALUE_PROTO, kind="PROTOBUF") == 2
        yield found


def decode(
    registry: Registry, *payloads: bytes | None, options: Mapping[str, str] | None = None
) -> Decoded:
    told = {
        "registry.url": registry.url,
        "registry.unknown_wait_ms": "0",
        "encoding": "protobuf",
        **(options or {}),
    }
    choice = FormatChoice("debezium", tuple(told.items()))
    return open_decoder(choice, SCHEMA).decode(payloads)


def row(number: int, city: str | None = "a") -> Row:
    return {"id": number, "name": f"n{number}", "amount": f"{number}.05", "city": city}


def values(of: Row) -> dict[str, object]:
    at = datetime(1970, 1, 1) + timedelta(microseconds=moment_us(of))  # noqa: DTZ001 - as Arrow
    return {**of, "amount": Decimal(str(of["amount"])), "at": at, "day": DAY}


def test_kinds_and_rows_are_those_of_the_envelope(registry: Registry) -> None:
    source = ProtobufChangeSource(1)
    told = [
        source.envelope("c", None, row(1)),
        source.envelope("u", row(1), row(1, None)),
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
        values(each) for each in (row(1), row(1, None), row(2), row(3))
    ]
    assert [rows[n]["id"] for n in (2, 3)] == [1, None]
    assert found.notes == {"tombstone": 1}


def test_a_truncate_an_unknown_operation_and_damage(registry: Registry) -> None:
    source = ProtobufChangeSource(1)
    with pytest.raises(SourceEmptiedError):
        decode(registry, source.envelope("t", None, None), options=KEYED)
    good = source.envelope("c", None, row(1))
    told = [source.envelope("x", None, row(1)), source.envelope("c", None, None), good[:-3], b"{}"]
    found = decode(registry, good, *told, options=KEYED)
    assert found.indices.to_pylist() == [0]
    assert [each.reason.value for each in found.dirty] == [
        *("not_a_change", "not_a_change", "broken", "broken")
    ]


def test_a_value_that_the_source_did_not_tell_is_dirty(registry: Registry) -> None:
    source = ProtobufChangeSource(1)
    unknown = {**row(2), "name": "__debezium_unavailable_value"}
    told = [source.envelope("u", None, unknown), source.envelope("d", unknown, None)]
    found = decode(registry, *told, options=KEYED)
    assert [(d.index, d.reason.value, d.path) for d in found.dirty] == [(0, "not_a_change", "name")]
    assert found.indices.to_pylist() == [1]


def test_a_day_or_decimal_that_is_none_is_dirty(registry: Registry) -> None:
    for field, inner, reason in (
        (6, proto.tagged(2, proto.VARINT, proto.varint(13)), "bad_time"),
        (3, proto.tagged(3, proto.VARINT, proto.varint(2)), "broken"),
    ):
        body = proto.tagged(field, proto.LENGTH, inner)
        told = proto.tagged(2, proto.LENGTH, body) + proto.tagged(4, proto.LENGTH, b"c")
        (dirty,) = decode(registry, framed(2, told)).dirty
        assert dirty.reason.value == reason


def test_the_key_is_told_by_its_schema(registry: Registry) -> None:
    client = RegistryClient(RegistrySettings(registry.url))
    key = framed(1, proto.tagged(1, proto.VARINT, proto.varint(7)))
    assert key_fields(key, schema_of=client.schema_of_id) == ("id",)
    connect = FormatChoice("protobuf", (("connect", "true"), ("registry.url", registry.url)))
    schema = Schema((Field("id", IntegerType(64), required=True),))
    assert open_decoder(connect, schema).decode([key]).rows.to_pylist() == [{"id": 7}]


def test_a_snapshot_that_begins_with_a_dirty_record_is_seen(registry: Registry) -> None:
    source = ProtobufChangeSource(1, snapshot="first")
    unknown = {**row(2), "name": "__debezium_unavailable_value"}
    told = [source.envelope("r", None, unknown), source.envelope("r", None, row(1)), b"{}"]
    found = decode(registry, *told, options=KEYED)
    assert [each.index for each in found.dirty] == [0, 2]
    assert found.begins == (0,)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_batch_by_columns_and_single_messages_agree(registry: Registry, *, keyed: bool) -> None:
    source, dice = ProtobufChangeSource(1), Random(4)  # noqa: S311
    told: list[bytes | None] = []
    for number in range(150):
        op = dice.choice("cccuurdx")
        before = None if op in "cr" else row(number, "b")
        after = None if op == "d" or dice.random() < 0.05 else row(number)
        told.append(source.envelope(op, before, after) if dice.random() < 0.97 else None)
    told += [one[: dice.randrange(1, len(one))] for one in told[:20] if one]
    options = KEYED if keyed else {}
    given = {"registry.url": registry.url, "registry.unknown_wait_ms": "0", "encoding": "protobuf"}
    exact = FramedChangeDecoder(SCHEMA, {**given, **options}, fast_rows=None).decode(told)
    fast = FramedChangeDecoder(SCHEMA, {**given, **options}, fast_rows=1)
    for payloads in (told, joined(told)):
        found = fast.decode(payloads)
        assert found.rows.equals(exact.rows)
        assert found.indices.equals(exact.indices)
        assert (found.dirty, found.skipped) == (exact.dirty, exact.skipped)
        assert found.kinds == exact.kinds
        assert found.notes == exact.notes
