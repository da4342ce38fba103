"""Messages that come with their schema: columns read them as single messages are read."""

import base64
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import DEBEZIUM
from sluiceway.formats.connect_blocks import MAX_SCHEMAS, WrappedReader, WrappedSchemas
from sluiceway.formats.connect_times import CONNECT_TEXT_TIMES, CONNECT_TIMES
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools.payload_damage import damaged

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
ZONED = "io.debezium.time.ZonedTimestamp"
KINDS: list[tuple[str, Policy, str | None]] = [
    ("decimal(9,2)", Policy(), None),
    ("decimal(38,6)", Policy(), None),
    ("bigint", Policy(), None),
    ("int", Policy(on_overflow="clamp"), None),
    ("double", Policy(), None),
    ("float", Policy(on_lossy="truncate"), None),
    ("boolean", Policy(), None),
    ("string", Policy(on_lossy="text"), None),
    ("string", Policy(), None),
    ("varchar(4)", Policy(), None),
    ("char(3)", Policy(), None),
    ("binary", Policy(format="base64"), None),
    ("date", Policy(), None),
    ("date", Policy(on_impossible_time="null"), None),
    ("timestamp", Policy(), None),
    ("timestamp", Policy(timezone="UTC"), None),
    ("timestamp", Policy(timezone="Asia/Shanghai"), None),
    ("timestamp", Policy(on_lossy="truncate", timezone="UTC"), None),
    ("timestamp", Policy(timezone="Asia/Shanghai"), "ms"),
    ("array<decimal(9,2)>", Policy(), None),
    ("array<timestamp>", Policy(timezone="UTC"), None),
    ("map<string,date>", Policy(), None),
    ("map<int,decimal(9,2)>", Policy(), None),
    ("map<bigint,string>", Policy(), None),
    ("struct<d:decimal(9,2),t:timestamp,s:string>", Policy(), None),
    ("array<struct<d:decimal(9,2),at:date>>", Policy(redact=True), None),
]
_NAMES = [None, None, DECIMAL, DECIMAL, VARIABLE, ZONED, *CONNECT_TIMES, *CONNECT_TEXT_TIMES]


def _leaf(pick: random.Random, field: str) -> dict[str, Any]:
    name = pick.choice(_NAMES)
    node: dict[str, Any] = {"type": "int64", "optional": True, "field": field}
    if name is not None:
        node["name"] = name
    if name == DECIMAL:
        scale = pick.choice(("2", "2", "0", "-1", "6", "9", "40", "x", None))
        node |= {"type": "bytes", "parameters": {"scale": scale} if scale else {}}
    return node


def _node(pick: random.Random, hive: str, field: str) -> dict[str, Any]:
    if pick.random() < 0.1:
        return _leaf(pick, field)
    if hive.startswith("array"):
        items = _node(pick, hive[6:-1], "x")
        return {"type": "array", "items": items, "optional": True, "field": field}
    if hive.startswith("map"):
        keys = {"type": "int32" if hive[4] != "s" else "string"}
        if pick.random() < 0.1:
            keys = _leaf(pick, "x")
        return {"type": "map", "keys": keys, "values": _leaf(pick, "x"), "field": field}
    if hive.startswith("struct"):
        parts = [_leaf(pick, name) for name in ("d", "t", "s", "at")]
        return {"type": "struct", "fields": parts, "optional": True, "field": field}
    return _leaf(pick, field)


def _digits(pick: random.Random) -> str:
    size = pick.choice((1, 1, 2, 3, 4, 8, 15, 16, 17, 0))
    text = base64.b64encode(pick.randbytes(size)).decode()
    return pick.choice((text, text, text, text, text[:-1], text + "=", text.replace("A", "/")))


def _leaf_value(pick: random.Random) -> Any:
    return pick.choice(
        (
            lambda: None,
            lambda: pick.randrange(-5, 30000),
            lambda: pick.choice((2**31, 2**63 - 1, 2**63, -(2**63), 10**25, 12.5, 12.0, 1e300)),
            lambda: pick.randrange(0, 253402300800000) * pick.choice((1, 1000, 1000000)),
            lambda: pick.choice((True, False)),
            lambda: _digits(pick),
            lambda: _digits(pick),
            lambda: pick.choice(("12", "12.50", "x", "", "a\0b", "北京北京北", "ab ", "é\\/")),
            lambda: pick.choice(("2026-11-20", "2026-11-20Z", "0000-00-00", "2026-02-30")),
            lambda: pick.choice(
                ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00.123456789Z", "2026-11-20 08:00:00",
                 "2026-11-20T08:00:00+08:00", "2026-11-20T08:00:00z")
            ),
            lambda: {"scale": pick.choice((0, 2, -1, 7, "2")), "value": _digits(pick)},
        )
    )()  # fmt: skip


def _value(pick: random.Random, hive: str) -> Any:
    if pick.random() < 0.2:
        return _leaf_value(pick)
    if hive.startswith("array"):
        return [_value(pick, hive[6:-1]) for _ in range(pick.randrange(3))]
    if hive.startswith("map"):
        keys = [pick.choice(("1", "2", "x", 3)) for _ in range(pick.randrange(3))]
        if pick.random() < 0.5:
            return [[key, _leaf_value(pick)] for key in keys]
        return {str(key): _leaf_value(pick) for key in keys}
    if hive.startswith("struct"):
        return {name: _leaf_value(pick) for name in ("d", "t", "s", "at") if pick.random() < 0.9}
    return _leaf_value(pick)


def _table(pick: random.Random) -> tuple[list[str], list[Field]]:
    chosen = [pick.choice(KINDS) for _ in range(3)]
    hives = ["bigint", *(hive for hive, _, _ in chosen)]
    fields = [Field("id", parse_hive_type("bigint"), required=pick.random() < 0.5)]
    for number, (hive, policy, unit) in enumerate(chosen):
        of = parse_hive_type(hive)
        fields.append(Field(f"c{number}", of, time_unit=unit, policy=policy))
    return hives, fields


def _schema(pick: random.Random, hives: list[str], *, change: bool) -> dict[str, Any]:
    parts = [{"type": "int64", "field": "id"}]
    parts += [_node(pick, hive, f"c{n}") for n, hive in enumerate(hives[1:])]
    row = {"type": "struct", "fields": parts, "optional": True, "name": "Row"}
    if not change:
        return row
    images = [{**row, "field": "before"}, {**row, "field": "after"}]
    rest = [{"type": "string", "field": "op"}, {"type": "int64", "field": "ts_ms"}]
    return {"type": "struct", "fields": images + rest, "name": "Envelope"}


def _message(pick: random.Random, hives: list[str], schema: Any, *, change: bool) -> bytes:
    def row() -> Any:
        found = {f"c{n}": _value(pick, hive) for n, hive in enumerate(hives[1:])}
        return {"id": pick.randrange(9), **found} if pick.random() < 0.95 else None

    payload: Any = row()
    if change:
        op = pick.choice(("c", "c", "c", "u", "r", "d", "m", None))
        image = {"before": row() if op == "d" else None, "after": None if op == "d" else row()}
        payload = {**image, "op": op, "ts_ms": 5}
    message = {"schema": schema, "payload": payload}
    calm = pick.random() < 0.8
    if not calm:
        message = pick.choice(
            (
                {"payload": payload, "schema": schema},
                {"schema": None, "payload": payload},
                {"schema": schema, "payload": payload, "op": "c"},
                {"schema": schema, "payload": None},
                payload or {},
            )
        )
    text = json.dumps(message, separators=(",", ":") if calm else None, ensure_ascii=calm)
    if pick.random() < 0.05:
        text = text[:-1] + ',"schema":{"type":"int32"}}'
    if pick.random() < 0.05:
        text = text.replace('"c0":', '"c0":1,"c0":')
    return text.encode("utf-8", "surrogatepass")


def _payloads(pick: random.Random, hives: list[str], *, change: bool) -> list[bytes | None]:
    schemas = [_schema(pick, hives, change=change) for _ in range(3)]
    found: list[bytes | None] = [None, b""]
    for _ in range(50):
        schema = schemas[0] if pick.random() < 0.7 else pick.choice(schemas)
        if pick.random() < 0.1:
            found.append(damaged(lambda p: _message(p, hives, schemas[0], change=change), pick))
        else:
            found.append(_message(pick, hives, schema, change=change))
    return found


def _told(decoded: Decoded) -> list[str]:
    rows = zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True)
    kinds = decoded.kinds.to_pylist() if decoded.kinds is not None else []
    notes = (decoded.skipped, sorted(decoded.notes.items()), kinds, decoded.begins)
    return [repr(notes), *map(repr, decoded.dirty), *map(repr, rows)]


def _joined(payloads: Sequence[bytes | None]) -> Sequence[bytes | None]:
    module = native_module()
    if module is None:
        return payloads
    half = len(payloads) // 2
    return JoinedPayloads([module.Records(payloads[:half]), module.Records(payloads[half:])])


def _compare(
    make: Callable[..., RowDecoder],
    payloads: list[bytes | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        # What knows no text before it reads each message whole.
        patched.setattr(WrappedSchemas, "prefix_of", lambda *_: None)
        exact = _told(make(exact=True).decode(list(payloads)))
    with monkeypatch.context() as patched:
        patched.setenv(SWITCH, "0")
        assert _told(make(exact=False).decode(list(payloads))) == exact
    decoder = make(exact=False)
    assert _told(decoder.decode(list(payloads))) == exact
    assert _told(decoder.decode(_joined(payloads))) == exact
    assert _told(decoder.decode(_joined(payloads))) == exact


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("key", [(), ("id",)])
def test_changes_with_their_schema_are_read_as_one_by_one(
    seed: int, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = random.Random(seed)  # noqa: S311
    hives, fields = _table(pick)
    payloads = _payloads(pick, hives, change=True)
    options = {"key": json.dumps(key)} if key else {}

    def make(*, exact: bool) -> RowDecoder:
        return ChangeLogDecoder(DEBEZIUM, Schema(tuple(fields)), options, exact_only=exact)

    _compare(make, payloads, monkeypatch)


@pytest.mark.parametrize("seed", range(8))
def test_rows_with_their_schema_are_read_as_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = random.Random(seed)  # noqa: S311
    hives, plain = _table(pick)
    fields = [
        Field(of.name, of.type, of.required, ("payload", of.name), of.time_unit, of.policy)
        for of in plain
    ]
    payloads = _payloads(pick, hives, change=False)

    def make(*, exact: bool) -> RowDecoder:
        return JsonDecoder(Schema(tuple(fields)), engine="exact" if exact else "auto")

    _compare(make, payloads, monkeypatch)


_ROW = {
    "type": "struct",
    "optional": True,
    "fields": [
        {"type": "int64", "field": "id"},
        {"type": "bytes", "field": "price", "name": DECIMAL, "parameters": {"scale": "2"}},
        {"type": "int64", "field": "at", "name": "io.debezium.time.MicroTimestamp"},
        {"type": "int32", "field": "day", "name": "io.debezium.time.Date"},
        {"type": "string", "field": "seen", "name": ZONED},
        {"type": "array", "field": "tags", "items": {"type": "string"}},
    ],
}
_READ = {
    "id": ("bigint", Policy()),
    "price": ("decimal(9,3)", Policy()),
    "at": ("timestamp", Policy(timezone="UTC")),
    "day": ("date", Policy()),
    "seen": ("timestamp", Policy()),
    "tags": ("array<string>", Policy()),
}


@pytest.mark.skipif(native_module() is None, reason="the native module is not installed")
def test_sound_messages_are_read_by_columns_whatever_their_schema_says() -> None:
    fields = [
        Field(name, parse_hive_type(of), path=("payload", name), policy=policy)
        for name, (of, policy) in _READ.items()
    ]
    reader = WrappedReader.for_schema(Schema(tuple(fields)), WrappedSchemas())
    assert reader is not None
    row = {
        "id": 7, "price": "MDk=", "at": 1_795_161_600_000_001, "day": 20000,
        "seen": "2026-11-20T08:00:00Z", "tags": ["a"],
    }  # fmt: skip
    schemas = [_ROW, {**_ROW, "name": "Later"}]
    payloads = [
        json.dumps({"schema": schemas[n % 2], "payload": {**row, "id": n}}).encode()
        for n in range(20)
    ]
    blocks = list(reader.read(payloads))
    assert sorted(n for block in blocks for rows in block.rows for n in rows.tolist()) == list(
        range(20)
    )
    first = blocks[0].batches[0].to_pylist()[0]
    assert (first["id"], str(first["price"]), str(first["day"])) == (0, "123.450", "2024-10-04")
    assert (first["at"].microsecond, str(first["seen"])) == (1, "2026-11-20 08:00:00")


def test_a_schema_is_read_once_and_only_so_many_are_kept() -> None:
    schemas = WrappedSchemas()
    payloads = [
        json.dumps({"schema": {**_ROW, "version": n}, "payload": {"id": 1}}).encode()
        for n in range(MAX_SCHEMAS + 3)
    ]
    prefixes = [schemas.prefix_of(payload) for payload in payloads]
    assert [schemas.prefix_of(payload) for payload in payloads] == prefixes
    assert prefixes[MAX_SCHEMAS:] == [None] * 3
    read = schemas.parse(payloads[0], lenient=False)
    assert schemas.parse(payloads[0], lenient=False)["schema"] is read["schema"]
    assert schemas.parse(payloads[-1], lenient=False) == json.loads(
        payloads[-1], parse_int=lambda text: text
    )
