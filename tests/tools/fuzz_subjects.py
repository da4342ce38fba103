"""What the fuzzer of formats feeds: decoders by name, and sound payloads to damage.

A format of its own module is added by one line in `SUBJECTS`.
"""

import base64
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import fuzz_avro, fuzz_protobuf

Payload = Callable[[random.Random], bytes]


@dataclass(frozen=True, slots=True)
class Subject:
    """A format as it is fuzzed.

    Attributes:
        decoders: Make new decoders of it, set up in different ways; batches take turns.
        payload: Makes a sound payload.
    """

    decoders: tuple[Callable[[], RowDecoder], ...]
    payload: Payload


KINDS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(18,2)",
    "rate": "double",
    "paid": "boolean",
    "code": "varchar(6)",
    "day": "date",
    "at": "timestamp",
}
NESTED = {"tags": "array<string>", "geo": "struct<city:string,lat:double>", "n": "map<string,int>"}
_LENIENT = Policy(on_lossy="truncate", on_bad_text="replace")


def column(name: str, kind: str, path: str = "", policy: Policy | None = None) -> Field:
    """A column, by default at the place of its name."""
    steps = tuple(path.split(".")) if path else ()
    found = Field(name, parse_hive_type(kind), required=name == "id", path=steps)
    return found if policy is None else Field(name, found.type, path=steps, policy=policy)


def decoder(name: str, columns: list[Field], **options: str) -> Callable[[], RowDecoder]:
    """Makes decoders of a format of this package."""
    choice = FormatChoice(name, tuple(options.items()))
    return lambda: open_decoder(choice, Schema(tuple(columns)))


def plain_row(pick: random.Random) -> dict[str, Any]:
    """A row that fits the columns of `KINDS`, but for the price, a text of digits."""
    return {
        "id": pick.randrange(-(2**63), 2**63),
        "name": "".join(pick.choices('abc "\\,;\n\té北😀', k=pick.randrange(12))),
        "price": f"{pick.randrange(-(10**6), 10**6) / 100:.2f}",
        "rate": pick.random() * 10 ** pick.randrange(-5, 6),
        "paid": pick.random() < 0.5,
        "code": pick.choice(("a", "abcdef", "")),
        "day": f"20{pick.randrange(10, 99)}-0{pick.randrange(1, 10)}-1{pick.randrange(10)}",
        "at": f"2026-11-20T0{pick.randrange(10)}:00:00.{pick.randrange(10**6):06d}Z",
    }


def _json_row(pick: random.Random) -> dict[str, Any]:
    row = plain_row(pick)
    row["tags"] = pick.choice((None, [], ["a", None, "b"]))
    row["geo"] = pick.choice((None, {"city": "x", "lat": 1.5}))
    row["n"] = {"a": 1, "b": pick.randrange(99)}
    return {key: value for key, value in row.items() if key == "id" or pick.random() < 0.9}


def _json(pick: random.Random) -> bytes:
    return json.dumps(_json_row(pick), ensure_ascii=pick.random() < 0.3).encode()


def _line(pick: random.Random) -> bytes:
    row = plain_row(pick)
    row["paid"] = str(row["paid"]).lower()
    texts = [str(value) for value in row.values()]
    odd = [pick.random() < 0.1 or bool(set(text) & set('",\r\n')) for text in texts]
    fields = [
        '"' + text.replace('"', '""') + '"' if quoted else text
        for text, quoted in zip(texts, odd, strict=True)
    ]
    return (",".join(fields) + pick.choice(("", "\n", "\r\n"))).encode()


_CONNECT = [
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
        "field": "price",
    }
]


def _debezium(pick: random.Random) -> bytes:
    op = pick.choice("ccuurdtm")
    images = {"d": (_json_row(pick), None), "u": (_json_row(pick), _json_row(pick))}
    before, after = images.get(op, (None, _json_row(pick)))
    message: dict[str, Any] = {"before": before, "after": after, "source": {"pos": 7}, "op": op}
    if pick.random() < 0.1:
        message = pick.choice(({"ts_ms": 5}, {"status": "END", "id": "1"}, {"ddl": "x"}))
    if pick.random() < 0.5:
        return json.dumps(message).encode()
    fields: list[dict[str, Any]] = []
    if pick.random() < 0.5:
        fields = [{"type": "struct", "fields": _CONNECT, "field": key} for key in message]
        for row in (message.get("before"), message.get("after")):
            if row is not None and "price" in row:
                row["price"] = base64.b64encode(pick.randbytes(pick.randrange(1, 9))).decode()
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": message}).encode()


def _maxwell(pick: random.Random) -> bytes:
    kinds = ("insert", "update", "delete", "bootstrap-insert", "bootstrap-start", "table-alter")
    message = {"database": "shop", "table": "t", "type": pick.choice(kinds), "ts": 5, "xid": 7}
    return json.dumps({**message, "data": _json_row(pick), "old": {"id": 3}}).encode()


def _canal(pick: random.Random) -> bytes:
    rows = [{"id": str(pick.randrange(99)), "name": "x"} for _ in range(pick.randrange(4))]
    kind = pick.choice(("INSERT", "UPDATE", "DELETE", "ALTER"))
    return json.dumps({"type": kind, "es": 5, "data": rows, "isDdl": kind == "ALTER"}).encode()


def _raw(pick: random.Random) -> bytes:
    return _json(pick) if pick.random() < 0.5 else pick.randbytes(pick.randrange(40))


_PLAIN = [column(name, kind) for name, kind in KINDS.items()]
_ALL = [*_PLAIN, *(column(name, kind) for name, kind in NESTED.items())]
_WITHOUT_MAP = _ALL[:-1]
_TEXTS = [column("id", "bigint"), column("name", "string", "", _LENIENT)]
_REST = column("rest", "map<string,string>")

SUBJECTS: Mapping[str, Subject] = {
    "json": Subject(
        (
            decoder("json", _ALL),
            decoder("json", _WITHOUT_MAP, engine="library"),
            decoder("json", [*_TEXTS, _REST], unknown_fields="keep", extra_column="rest"),
            decoder("json", _WITHOUT_MAP, unknown_fields="dirty", tombstones="skip"),
        ),
        _json,
    ),
    "json-framed": Subject(
        (
            decoder("json", _ALL, frame="confluent"),
            decoder(
                "json", _WITHOUT_MAP, frame="confluent", unknown_fields="dirty", tombstones="skip"
            ),
        ),
        lambda pick: b"\0" + pick.randbytes(4) + _json(pick),
    ),
    "raw": Subject(
        (
            decoder("raw", [column("line", "string")]),
            decoder("raw", [column("line", "binary")], tombstones="null"),
            decoder("raw", [column("line", "varchar(20)", "", _LENIENT)], tombstones="skip"),
        ),
        _raw,
    ),
    "csv": Subject(
        (
            decoder("csv", _PLAIN),
            decoder("csv", _PLAIN, missing="null", unknown_fields="ignore", tombstones="skip"),
            decoder("csv", _PLAIN, escape="\\", null_text="\\N"),
            decoder("csv", _TEXTS, unknown_fields="ignore"),
        ),
        _line,
    ),
    "debezium": Subject(
        (
            decoder("debezium", [column("op", "string", "$.op"), *_WITHOUT_MAP]),
            decoder(
                "debezium", [*_TEXTS, column("b", "string", "$.before.name")], other_messages="skip"
            ),
        ),
        _debezium,
    ),
    "maxwell": Subject(
        (
            decoder("maxwell", [column("kind", "string", "$.type"), *_WITHOUT_MAP]),
            decoder("maxwell", _ALL, other_messages="skip", tombstones="skip"),
        ),
        _maxwell,
    ),
    "canal": Subject(
        (
            decoder(
                "canal",
                [
                    column("type", "string"),
                    column("es", "bigint"),
                    column("rows", "array<struct<id:bigint,name:string>>", "data"),
                ],
                other_messages="skip",
            ),
        ),
        _canal,
    ),
    "avro": Subject(fuzz_avro.DECODERS, fuzz_avro.payload),
    "protobuf": Subject(fuzz_protobuf.DECODERS, fuzz_protobuf.payload),
}
