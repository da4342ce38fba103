"""Change logs: rows of inserts, updates and deletes; all other messages skipped or dirty."""

import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from sluiceway.convert.json_values import NumberText
from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL, Envelope
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema

SOURCE = {"version": "2.7", "connector": "mysql", "db": "shop", "table": "t", "pos": 154, "row": 0}
AFTER = {"id": 7, "name": "n", "price": "1.50"}
BEFORE = {"id": 7, "name": "m", "price": "1.20"}


def column(name: str, kind: str, path: str = "", *, required: bool = False) -> Field:
    return Field(name, parse_hive_type(kind), required, tuple(path.split(".")) if path else ())


DEBEZIUM_SCHEMA = Schema(
    (
        column("op", "string", "$.op"),
        column("pos", "bigint", "$.source.pos"),
        column("id", "bigint", required=True),
        column("price", "decimal(9,2)"),
        column("price_before", "decimal(9,2)", "$.before.price"),
    )
)
MAXWELL_SCHEMA = Schema(
    (
        column("kind", "string", "$.type"),
        column("xid", "bigint", "$.xid"),
        column("id", "bigint", required=True),
        column("price", "decimal(9,2)"),
        column("price_before", "decimal(9,2)", "$.old.price"),
    )
)
ROWS = "array<struct<id:bigint,price:decimal(9,2)>>"
CANAL_SCHEMA = Schema(
    (
        column("type", "string"),
        column("es", "bigint"),
        column("rows", ROWS, "data", required=True),
        column("old", "array<map<string,string>>"),
    )
)


def debezium(op: str, *, wrapped: bool = False, **changed: Any) -> bytes:
    images = {"d": (BEFORE, None), "u": (BEFORE, AFTER)}.get(op, (None, AFTER))
    message = {"before": images[0], "after": images[1], "source": SOURCE, "op": op, "ts_ms": 5}
    message = {**message, **changed}
    whole = {"schema": {"type": "struct"}, "payload": message} if wrapped else message
    return json.dumps(whole, separators=(",", ":")).encode()


def maxwell(kind: str, **changed: Any) -> bytes:
    message = {"database": "shop", "table": "t", "type": kind, "ts": 5, "xid": 23, "commit": True}
    return json.dumps({**message, "data": AFTER, **changed}).encode()


def canal(kind: str, **changed: Any) -> bytes:
    data = [{"id": "7", "price": "1.50"}, {"id": "8", "price": None}]
    message = {"data": data, "database": "shop", "es": 5, "id": 1, "isDdl": False, "old": None}
    return json.dumps({**message, "table": "t", "ts": 6, "type": kind, **changed}).encode()


CASES = {
    "debezium": (DEBEZIUM, DEBEZIUM_SCHEMA),
    "maxwell": (MAXWELL, MAXWELL_SCHEMA),
    "canal": (CANAL, CANAL_SCHEMA),
}


def decode(
    name: str, *payloads: bytes | None, schema: Schema | None = None, **options: str
) -> Decoded:
    """All paths, which have to agree."""
    envelope, own = CASES[name]
    slow, *others = (
        ChangeLogDecoder(envelope, schema or own, options, exact_only=exact_only).decode(given)
        for exact_only in (True, False)
        for given in _given(payloads)
    )
    for other in others:
        assert other.rows.to_pylist() == slow.rows.to_pylist()
        assert other == slow
    return slow


def _given(payloads: Sequence[bytes | None]) -> list[Sequence[bytes | None]]:
    """As objects, and where there is a native module as the buffers of two fetches."""
    module = native_module()
    if module is None:
        return [payloads]
    half = len(payloads) // 2
    parts = [module.Records(list(part)) for part in (payloads[:half], payloads[half:])]
    return [payloads, JoinedPayloads(parts)]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("op", "price", "before"),
    [("c", "1.50", None), ("r", "1.50", None), ("u", "1.50", "1.20"), ("d", "1.20", "1.20")],
)
def test_debezium_change_is_the_row_after_or_of_a_delete_before(
    op: str, price: str, before: str | None, *, wrapped: bool
) -> None:
    many = [debezium(op, wrapped=wrapped)] * 40
    decoded = decode("debezium", *many)
    assert decoded.dirty == ()
    assert decoded.rows.to_pylist()[39] == {
        "op": op,
        "pos": 154,
        "id": 7,
        "price": Decimal(price),
        "price_before": Decimal(before) if before else None,
    }


@pytest.mark.parametrize("kind", ["insert", "update", "delete", "bootstrap-insert"])
def test_maxwell_change_is_its_data(kind: str) -> None:
    decoded = decode("maxwell", *[maxwell(kind, old={"price": 1.2})] * 40)
    assert decoded.rows.to_pylist()[39] == {
        "kind": kind,
        "xid": 23,
        "id": 7,
        "price": Decimal("1.50"),
        "price_before": Decimal("1.20"),
    }


@pytest.mark.parametrize("kind", ["INSERT", "UPDATE", "DELETE", "INIT"])
def test_canal_message_is_one_row_with_all_its_rows(kind: str) -> None:
    decoded = decode("canal", *[canal(kind, old=[{"price": "1.20"}, {}])] * 40)
    assert decoded.rows.to_pylist()[39] == {
        "type": kind,
        "es": 5,
        "rows": [{"id": 7, "price": Decimal("1.50")}, {"id": 8, "price": None}],
        "old": [[("price", "1.20")], []],
    }


OTHERS = [
    ("debezium", debezium("t"), "truncate"),
    ("debezium", debezium("m", wrapped=True, message={"prefix": "p"}), "message"),
    ("debezium", b'{"status":"BEGIN","id":"571","event_count":null}', "transaction"),
    ("debezium", b'{"source":{},"databaseName":"x","ddl":"ALTER TABLE t"}', "schema_change"),
    ("maxwell", maxwell("table-alter", data=None, sql="x"), "ddl"),
    ("maxwell", maxwell("database-create"), "ddl"),
    ("canal", canal("ALTER", isDdl=True, data=None, sql="ALTER TABLE t"), "ddl"),
    ("canal", canal("QUERY", data=None), "query"),
]
LIFE_SIGNS = [
    ("debezium", b'{"ts_ms":5}', "heartbeat"),
    ("debezium", debezium("m", after=None), "heartbeat"),
    ("debezium", debezium("m", wrapped=True, after=None), "heartbeat"),
    ("maxwell", maxwell("bootstrap-start", data={}), "bootstrap"),
    ("maxwell", maxwell("bootstrap-complete", data={}), "bootstrap"),
    ("canal", canal("MHEARTBEAT", data=None), "heartbeat"),
    ("canal", canal("TIDB_WATERMARK", data=None, _tidb={"watermarkTs": 5}), "heartbeat"),
]


@pytest.mark.parametrize(("name", "payload", "kind"), OTHERS)
def test_message_that_changes_no_row_is_dirty_or_skipped_and_counted(
    name: str, payload: bytes, kind: str
) -> None:
    (dirty,) = decode(name, payload).dirty
    assert (dirty.stage, dirty.reason) == ("decode", "not_a_change")
    assert kind in dirty.message
    decoded = decode(name, payload, payload, other_messages="skip")
    assert (decoded.dirty, decoded.skipped, decoded.notes) == ((), 2, {kind: 2})


@pytest.mark.parametrize(("name", "payload", "kind"), LIFE_SIGNS)
@pytest.mark.parametrize("other", ["dirty", "skip"])
def test_a_sign_of_life_is_skipped_and_counted_whatever_is_told(
    name: str, payload: bytes, kind: str, other: str
) -> None:
    decoded = decode(name, payload, *[payload] * 30, other_messages=other)
    assert (decoded.dirty, decoded.skipped, decoded.notes) == ((), 31, {kind: 31})
    keyed = open_decoder(
        FormatChoice(name, (("key", '["id"]'), ("other_messages", other))), CASES[name][1]
    )
    decoded = keyed.decode([payload])
    assert (decoded.dirty, decoded.skipped, decoded.notes) == ((), 1, {kind: 1})


@pytest.mark.parametrize(
    ("name", "payload", "reason", "path"),
    [
        ("debezium", b'{"id":7,"name":"n"}', "not_a_change", ""),
        ("debezium", debezium("x"), "not_a_change", ""),
        ("debezium", debezium("c", after=None), "not_a_change", "after"),
        ("debezium", debezium("u", wrapped=True, after=[1]), "not_a_change", "payload.after"),
        ("debezium", debezium("c", after={"name": "n"}), "missing", "after.id"),
        ("debezium", debezium("d", wrapped=True, before={}), "missing", "payload.before.id"),
        ("debezium", debezium("d", before=None), "null", "before.id"),
        ("debezium", b'{"op":"c","op":"d","after":{"id":1}}', "duplicate_key", "op"),
        ("debezium", b'{"op":5,"after":{"id":1}}', "wrong_type", "op"),
        ("debezium", b'{"payload":3}', "wrong_type", "payload"),
        ("debezium", b'{"payload":{"op":"c"},"payload":null}', "duplicate_key", "payload"),
        ("debezium", b"[]", "not_an_object", ""),
        ("debezium", b'{"op":', "broken", ""),
        ("maxwell", maxwell("insert", data=None), "not_a_change", "data"),
        ("maxwell", maxwell("upsert"), "not_a_change", ""),
        ("maxwell", maxwell("insert", data={"id": 2**63}), "overflow", "data.id"),
        ("canal", canal("INSERT", data=[{"id": "x"}]), "bad_text", "data[0].id"),
        ("canal", canal("INSERT", data=None), "null", "data"),
        ("canal", canal("UPSERT"), "not_a_change", ""),
    ],
)  # fmt: skip
def test_message_that_is_none_is_dirty_whatever_is_skipped(
    name: str, payload: bytes, reason: str, path: str
) -> None:
    for other in ("dirty", "skip"):
        (dirty,) = decode(name, payload, other_messages=other).dirty
        assert (dirty.reason, dirty.path) == (reason, path)


def test_tombstones_of_debezium_are_skipped_and_counted_unless_told_otherwise() -> None:
    payloads = (debezium("d"), None, b"", b'{"schema":null,"payload":null}')
    decoded = decode("debezium", *payloads)
    assert (len(decoded.rows), decoded.skipped, decoded.notes) == (1, 3, {"tombstone": 3})
    dirty = decode("debezium", *payloads, tombstones="dirty").dirty
    assert [(row.index, row.reason) for row in dirty] == [(1, "empty"), (2, "empty"), (3, "empty")]
    assert len(decode("maxwell", None).dirty) == 1


def test_columns_of_the_message_alone_need_no_row() -> None:
    schema = Schema((column("op", "string", "$.op"), column("before", "string", "$.source.db")))
    decoded = decode("debezium", debezium("c", after=None), schema=schema)
    assert decoded.rows.to_pylist() == [{"op": "c", "before": "shop"}]


def test_path_that_names_nothing_and_unknown_option_are_refused() -> None:
    with pytest.raises(ValueError, match="names nothing"):
        ChangeLogDecoder(DEBEZIUM, Schema((column("x", "string", "$"),)), {})
    with pytest.raises(ValueError, match="no option"):
        ChangeLogDecoder(MAXWELL, MAXWELL_SCHEMA, {"ddl": "skip"})


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_with_a_field_that_no_column_reads_waits_for_one(*, wrapped: bool) -> None:
    columns = (*DEBEZIUM_SCHEMA.fields, column("name", "string"))
    decoder = ChangeLogDecoder(DEBEZIUM, Schema(columns), {"unknown_fields": "evolve"})
    fields = {**AFTER, "city": "Köln"}
    payloads = [
        debezium("u", wrapped=wrapped),
        debezium("u", wrapped=wrapped, after=fields),
        debezium("u", wrapped=wrapped, after={**AFTER, "city": None}),
        # Of a delete nothing but the row's key is looked at.
        debezium("d", wrapped=wrapped, before={**BEFORE, "city": "Köln"}),
    ]
    decoded = decoder.decode(payloads)
    (dirty,) = decoded.dirty
    assert (dirty.index, dirty.reason.value) == (1, "unexpected_field")
    assert decoded.rows.num_rows == 3
    assert decoder.fields_of(payloads[1]) == {**fields, "id": NumberText("7")}
    assert decoder.fields_of(payloads[3]) == decoder.fields_of(b"{") == {}


@pytest.mark.parametrize("name", CASES)
def test_mixed_batches_are_decided_as_each_message_alone(name: str) -> None:
    pick = random.Random(name)  # noqa: S311
    makers: dict[str, list[bytes]] = {
        "debezium": [debezium(op, wrapped=w) for op in "curdtm" for w in (False, True)],
        "maxwell": [maxwell(kind) for kind in ("insert", "update", "delete", "table-drop")],
        "canal": [canal(kind) for kind in ("INSERT", "UPDATE", "DELETE", "CREATE")],
    }
    known = [*makers[name], *(payload for of, payload, _ in OTHERS if of == name)]
    payloads: list[bytes | None] = []
    for _ in range(1500):
        payload = pick.choice(known)
        if pick.random() < 0.1:
            place = pick.randrange(len(payload))
            payload = (
                payload[:place]
                + pick.choice((b"", b"}", b'"', b"1", b"\xff"))
                + payload[place + 1 :]
            )
        payloads.append(payload)
    envelope, schema = CASES[name]
    fast = ChangeLogDecoder(envelope, schema, {"other_messages": "skip"})
    assert _whole(fast, payloads[:500]) + _whole(fast, payloads[500:]) == _alone(
        envelope, schema, payloads
    )


def _whole(decoder: ChangeLogDecoder, payloads: list[bytes | None]) -> list[Any]:
    decoded = decoder.decode(payloads)
    found: list[Any] = ["skipped"] * len(payloads)
    for index, row in zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True):
        found[index] = row
    for one in decoded.dirty:
        found[one.index] = (one.reason, one.path, one.message)
    assert found.count("skipped") == decoded.skipped == sum(decoded.notes.values())
    return found


def _alone(envelope: Envelope, schema: Schema, payloads: list[bytes | None]) -> list[Any]:
    decoder = ChangeLogDecoder(envelope, schema, {"other_messages": "skip"}, exact_only=True)
    return [one for payload in payloads for one in _whole(decoder, [payload])]


def _keyed_message(pick: random.Random) -> bytes | None:
    """One of a change log of keyed rows: whatever a task meets, most of it plain."""
    wrapped = pick.random() < 0.3
    chance = pick.random()
    if chance < 0.6:
        changed: dict[str, Any] = {}
        if pick.random() < 0.1:
            changed["source"] = {**SOURCE, "snapshot": pick.choice(("first", "true", "last"))}
        if pick.random() < 0.1:
            changed["after"] = {**AFTER, "name": pick.choice(("\u00e9", "\\u", "first", None))}
        if pick.random() < 0.1:
            changed["after"] = pick.choice((None, {}, {"id": None}, {**AFTER, "price": "x"}, 5))
        return debezium(pick.choice("cru"), wrapped=wrapped, **changed)
    if chance < 0.85:
        odd: Sequence[Any] = (
            {"id": 9},
            {"price": "1.5"},
            {"id": "x"},
            {"id": 8, "price": "x"},
            None,
            {},
            [1],
        )
        before = {**BEFORE, "id": pick.randrange(5)} if pick.random() < 0.6 else pick.choice(odd)
        return debezium("d", wrapped=wrapped, before=before)
    return pick.choice((None, b"", b"{", b"[]", b"{}", debezium("m"), debezium("x"), b'{"op":"d"}'))


@pytest.mark.parametrize("key", ["", '["id"]', '["id", "pos"]', '["pos"]'])
@pytest.mark.parametrize("seed", range(4))
def test_changes_of_keyed_rows_are_the_same_by_columns_and_one_by_one(seed: int, key: str) -> None:
    pick = random.Random(seed)  # noqa: S311
    messages = [_keyed_message(pick) for _ in range(600)]
    decoded = decode("debezium", *messages, schema=None, other_messages="skip", key=key)
    assert decoded.rows.num_rows > 300
    assert len(decoded.dirty) > 20
    assert (decoded.kinds is None) == (key == "")
    if decoded.kinds is not None:
        kinds = decoded.kinds.to_pylist()
        assert kinds.count(RowKind.FIRST) > 3
        assert kinds.count(RowKind.DELETE) > 50


def test_deletes_are_read_by_columns_where_they_have_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = ChangeLogDecoder._read
    one_by_one: list[bytes] = []

    def told(decoder: ChangeLogDecoder, payload: bytes) -> list[list[object]]:
        one_by_one.append(payload)
        return read(decoder, payload)

    monkeypatch.setattr(ChangeLogDecoder, "_read", told)
    without = debezium("d", before=None)
    payloads = [debezium("d"), without, debezium("u"), debezium("d", wrapped=True)]
    decoder = ChangeLogDecoder(DEBEZIUM, DEBEZIUM_SCHEMA, {"key": '["id"]'})
    found = decoder.decode(payloads)
    assert found.rows.column("id").to_pylist() == [7, None, 7, 7]
    assert found.rows.column("price").to_pylist() == [None, None, Decimal("1.50"), None]
    assert one_by_one == [without]
