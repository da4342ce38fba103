"""The fast path for Avro agrees with the slow one, whatever comes."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from sluiceway.convert.arrow_columns import RecheckRows, _floats
from sluiceway.formats import framed_rows
from sluiceway.formats.avro.decoder import AvroDecoder, bare_frame
from sluiceway.formats.avro.fast_columns import FastColumns
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import GivenSchemas
from sluiceway.formats.contract import Decoded
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import avro_bytes as avro
from tools.payload_damage import damaged

_STAMP = {"type": "long", "logicalType": "timestamp-millis"}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["int", "null"]}]}
FIELDS: list[tuple[str, Any]] = [
    ("id", "long"), ("at", _STAMP), ("city", ["null", "string"]), ("amount", _MONEY),
    ("rate", "double"), ("small", "float"), ("n", ["null", "int"]), ("paid", "boolean"),
    ("e", {"type": "enum", "name": "E", "symbols": ["RED", "GREEN"]}), ("in", _INNER),
    ("raw", "bytes"), ("f", {"type": "fixed", "name": "F", "size": 3}),
    ("day", {"type": "int", "logicalType": "date"}),
]  # fmt: skip
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": of} for name, of in FIELDS],
    }
)
TYPES = {
    "id": "int", "at": "timestamp", "city": "string", "amount": "decimal(9,3)", "rate": "double",
    "small": "float", "n": "tinyint", "paid": "boolean", "e": "string", "day": "date",
}  # fmt: skip
COLUMNS = Schema(
    (
        *(
            Field(name, parse_hive_type(of), required=name == "n", policy=Policy())
            for name, of in TYPES.items()
        ),
        Field("x", parse_hive_type("bigint"), path=("in", "x")),
    )
)


def decoder(fast_rows: int | None, columns: Schema = COLUMNS, text: str = SCHEMA) -> AvroDecoder:
    schemas = GivenSchemas([text], by_fingerprint=False)
    return AvroDecoder(
        columns, bare_frame, schemas, skips_tombstones=False, fast_rows=fast_rows, native=False
    )


def payload(pick: random.Random) -> bytes:
    number = pick.choice((5, 5, 5, -1, 2**31 - 1, 2**31, 2**63 - 1))
    moment = pick.choice((1_795_161_600_000, 0, -1, 253_402_300_800_000, -(2**63)))
    # Bad text sends its whole block to the slow path, so it is rare.
    text = pick.choice(("a", "\u5317\u4eac", "", "a\0b", "x" * 300))
    text = text if pick.random() < 0.999 else "\udcff"
    amount = pick.choice((0, 5, -5, 999_999, 1_000_000, -(2**40), 2**70))
    return b"".join(
        (
            avro.long(number),
            avro.long(moment),
            pick.choice((b"\0", b"\2" + avro.text(text))),
            avro.data(avro.unscaled(amount)),
            avro.floating(pick.choice((0.1, -0.0, float("nan"), float("inf"))), 64),
            avro.floating(0.5, 32),
            pick.choice(
                (b"\0", b"\2" + avro.long(7), b"\2" + avro.long(-128), b"\2" + avro.long(200))
            ),
            pick.choice((b"\0", b"\1")),
            avro.long(pick.randrange(2)),
            pick.choice((b"\2", b"\0" + avro.long(9))),
            avro.data(pick.randbytes(pick.randrange(4))),
            pick.randbytes(3),
            avro.long(pick.choice((20_000, 3_000_000, -719_162))),
        )
    )


def told(decoded: Decoded) -> list[str]:
    rows = zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True)
    return sorted([repr(one) for one in rows] + [repr(one) for one in decoded.dirty])


@pytest.mark.parametrize("seed", range(6))
def test_fast_path_tells_of_every_payload_what_the_slow_one_tells(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    odd = seed % 3
    payloads = [damaged(payload, pick) if odd else payload(pick) for _ in range(400)]
    fast, exact = told(decoder(1).decode(payloads)), told(decoder(None).decode(payloads))
    assert len(fast) == len(exact)
    wrong = [(one, other) for one, other in zip(fast, exact, strict=True) if one != other]
    assert wrong[:1] == []


def test_sound_rows_take_the_fast_path_and_come_back_whole() -> None:
    columns = FastColumns.for_schemas(parse_schema(SCHEMA), COLUMNS)
    assert columns is not None
    body = b"".join(
        (
            *(
                avro.long(7),
                avro.long(1000),
                b"\2" + avro.text("\u5317"),
                avro.data(avro.unscaled(-125)),
            ),
            *(avro.floating(0.1, 64), avro.floating(0.5, 32), b"\2" + avro.long(7), b"\1"),
            *(avro.long(1), b"\0" + avro.long(9), avro.data(b"z"), b"abc", avro.long(20_000)),
        )
    )
    batch, kept, left = columns.read([body, body + b"x", body], [0, 0, 0])
    assert (kept.tolist(), left.tolist()) == ([0, 2], [1])
    assert batch.to_pylist() == decoder(None).decode([body, body]).rows.to_pylist()


def test_large_payloads_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_rows, "LIST_BYTES", 100)
    pick = random.Random(1)  # noqa: S311
    payloads = [payload(pick) for _ in range(200)]
    assert told(decoder(1).decode(payloads)) == told(decoder(None).decode(payloads))


@pytest.mark.parametrize(
    ("of", "hive"),
    [
        ({"type": "array", "items": "int"}, "array<int>"),
        ("string", "varchar(3)"),
        ("double", "float"),
        (["null", "int", "string"], "int"),
        ("long", "string"),
    ],
    ids=range(5),
)
def test_what_the_fast_path_does_not_know_is_left_to_the_slow_one(of: Any, hive: str) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "v", "type": of}]})
    columns = Schema((Field("v", parse_hive_type(hive)),))
    assert FastColumns.for_schemas(parse_schema(text), columns) is None
    assert decoder(1, columns, text).decode([b"\0"] * 20).rows.schema.names == ["v"]


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 2**53, -(2**53)])
def test_whole_number_beyond_exact_floats_is_looked_at_again(value: int) -> None:
    rows = RecheckRows()
    _floats(pa.array([1, value, None], pa.int64()), 64, rows)
    assert list(rows.suspects()) == [1]
