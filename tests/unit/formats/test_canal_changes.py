"""Canal's messages for keyed tables: changes in order, new keys, and what is none."""

import json
from random import Random

import pytest

from sluiceway.errors import SourceEmptiedError
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import DecimalType, Field, IntegerType, Schema, StringType
from tools.canal_source import CanalSource

SCHEMA = Schema(
    (
        Field("id", IntegerType(64)),
        Field("name", StringType()),
        Field("amount", DecimalType(18, 2)),
        Field("city", StringType(), required=True),
        Field("sent", IntegerType(64), path=("$", "es")),
    )
)
ONE = {"order": "one_partition"}


def decode(*messages: object, **options: str) -> Decoded:
    choice = FormatChoice("canal", tuple({"key": '["id"]', **options}.items()))
    payloads = [
        m if m is None or isinstance(m, bytes) else json.dumps(m).encode() for m in messages
    ]
    return open_decoder(choice, SCHEMA).decode(payloads)


def changes(found: Decoded) -> list[tuple[int, str, int, object]]:
    assert found.kinds is not None
    return [
        (index, RowKind(kind).name, row["id"], row["city"])
        for index, kind, row in zip(
            found.indices.to_pylist(), found.kinds.to_pylist(), found.rows.to_pylist(), strict=True
        )
    ]


def message(kind: str, data: object, old: object = None, **more: object) -> dict[str, object]:
    told = {"database": "shop", "table": "orders", "es": 7, "isDdl": False, "pkNames": ["id"]}
    return {**told, "type": kind, "data": data, "old": old, **more}


def row(number: int, city: str = "a") -> dict[str, object]:
    return {"id": str(number), "name": "n", "amount": "1.05", "city": city}


def test_rows_of_a_load_are_rows_and_a_watermark_is_of_no_table() -> None:
    watermark = message("TIDB_WATERMARK", None, database="", table="", _tidb={"watermarkTs": 5})
    found = decode(message("INIT", [row(1), row(2)]), watermark, table="shop.orders")
    assert changes(found) == [(0, "IMAGE", 1, "a"), (0, "IMAGE", 2, "a")]
    assert (found.dirty, found.notes) == ((), {"heartbeat": 1})


def test_each_row_of_a_message_is_a_change_in_its_order() -> None:
    found = decode(
        message("INSERT", [row(1), row(2)]),
        message("UPDATE", [row(2, "b")], [{"city": "a"}]),
        message("DELETE", [row(1), row(2, "b")]),
    )
    assert found.dirty == ()
    assert changes(found) == [
        (0, "IMAGE", 1, "a"),
        (0, "IMAGE", 2, "a"),
        (1, "IMAGE", 2, "b"),
        (2, "DELETE", 1, None),
        (2, "DELETE", 2, None),
    ]
    assert found.rows.column("sent").to_pylist() == [7, 7, 7, None, None]


def test_a_new_key_leaves_the_old_one_where_one_partition_keeps_the_order() -> None:
    moved = message("UPDATE", [row(2), row(1)], [{"id": "1"}, {"id": "3", "city": "b"}])
    assert changes(decode(moved, **ONE)) == [
        (0, "DELETE", 1, None),
        (0, "IMAGE", 2, "a"),
        (0, "DELETE", 3, None),
        (0, "IMAGE", 1, "a"),
    ]
    (dirty,) = decode(moved).dirty
    assert (dirty.reason.value, dirty.path) == ("key_changed", "data[0]")
    same = message("UPDATE", [row(1)], [{"id": "1"}])
    assert changes(decode(same)) == [(0, "IMAGE", 1, "a")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (message("INSERT", [row(1), {**row(2), "id": "x"}]), "bad_text"),
        (message("INSERT", [row(1), {**row(2), "city": None}]), "null"),
        (message("INSERT", []), "not_a_change"),
        (message("INSERT", None), "not_a_change"),
        (message("INSERT", [1]), "not_a_change"),
        (message("UPDATE", [row(1)]), "not_a_change"),
        (message("UPDATE", [row(1)], [{}, {}]), "not_a_change"),
        (message("REPLACE", [row(1)]), "not_a_change"),
        (message("ALTER", None, isDdl=True), "not_a_change"),
        (message("INSERT", [row(1)], pkNames=["uid"]), "key_mismatch"),
        (b'{"type":"INSERT","data":[],"type":"DELETE"}', "duplicate_key"),
        (b'{"type":"INSERT","data":[{"id":"1","id":"2"}]}', "not_a_change"),
        (b"[]", "not_an_object"),
        (None, "empty"),
    ],
)
def test_one_bad_row_makes_its_message_dirty_whole(bad: object, reason: str) -> None:
    found = decode(message("INSERT", [row(5)]), bad, message("INSERT", [row(6)]))
    assert [(each.index, each.reason.value) for each in found.dirty] == [(1, reason)]
    assert [each[:3] for each in changes(found)] == [(0, "IMAGE", 5), (2, "IMAGE", 6)]


def test_what_changes_no_row_is_skipped_and_counted() -> None:
    found = decode(
        message("ALTER", None, isDdl=True),
        message("QUERY", None),
        other_messages="skip",
        tombstones="skip",
    )
    assert (found.skipped, found.notes, found.dirty) == (2, {"ddl": 1, "query": 1}, ())
    with pytest.raises(SourceEmptiedError):
        decode(message("TRUNCATE", None, isDdl=True), other_messages="skip")
    told = decode(
        message("TRUNCATE", None, isDdl=True), message("INSERT", [row(1)]), truncate="apply"
    )
    assert changes(told) == [(0, "TRUNCATE", None, None), (1, "IMAGE", 1, "a")]


@pytest.mark.parametrize(("table", "taken"), [("orders", 1), ("SHOP.orders", 1), ("b.orders", 0)])
def test_messages_of_other_tables_do_not_count(table: str, taken: int) -> None:
    found = decode(
        message("INSERT", [row(1)]),
        message("TRUNCATE", None, isDdl=True, table="items"),
        table=table,
    )
    assert found.rows.num_rows == taken
    assert found.notes == {"other_table": 2 - taken}


def test_the_last_change_of_each_key_is_the_database_after_any_statements() -> None:
    dice = Random(8)  # noqa: S311 - a game
    for seed in range(30):
        source = CanalSource(seed)
        source.statements(dice.randrange(1, 60))
        found = decode(*source.log, **ONE)
        assert found.dirty == ()
        assert found.kinds is not None
        table: dict[int, tuple[object, ...]] = {}
        for kind, told in zip(found.kinds.to_pylist(), found.rows.to_pylist(), strict=True):
            if kind == RowKind.DELETE:
                table.pop(told["id"], None)
            else:
                table[told["id"]] = (told["id"], told["name"], str(told["amount"]), told["city"])
        assert sorted(table.values()) == source.wanted()


def test_a_batch_keeps_the_order_of_a_messages_rows() -> None:
    found = decode(*(message("UPDATE", [row(1, c) for c in "abc"], [{}] * 3) for _ in range(50)))
    assert found.rows.column("city").to_pylist() == list("abc") * 50
    assert found.indices.to_pylist() == [n for n in range(50) for _ in range(3)]
