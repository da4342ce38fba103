"""Keys of changes: what the record's own key says against what the row says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import SourceEmptiedError, SourceOrderError
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.host.native_module import native_module
from sluiceway.sinks.change_judge import ChangeJudge, Verdict
from sluiceway.sources.contract import Headers, RawRecords, SourceBatch, SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import DecimalType, Field, IntegerType, Schema, StringType
from sluiceway.worker.keyed_rows import KeyedRows, check_one_partition, has_several
from sluiceway.worker.pipeline import RowPipeline, Written
from sluiceway.worker.plan import KeyForm, KeyRule, PartitionRule, PlannedMetaColumn, TaskPlan
from sluiceway.worker.replayed_changes import SUPERSEDED
from sluiceway.worker.row_rules import RowChoices
from sluiceway.worker.write_behind import WriteBehind
from tools.small_task import AT_NOON, MadeBatch, route_plan

SCHEMA = Schema((Field("id", IntegerType(64)), Field("city", StringType(), required=True)))
CONNECT = KeyRule(("id",), KeyForm.CONNECT)


class _Batch(SourceBatch):
    def __init__(self, keys: list[bytes | None]) -> None:
        self.split_index = 0
        self.values = [b""] * len(keys)
        self.offsets = np.arange(len(keys))
        self._keys = keys

    def timestamps_ms(self) -> list[int | None]:
        return [None] * len(self._keys)

    def keys(self) -> list[bytes | None]:
        return self._keys

    def headers(self) -> list[Headers]:
        return [()] * len(self._keys)

    def records(self, rows: object) -> RawRecords:
        raise NotImplementedError


def decode(name: str, *messages: object, schema: Schema = SCHEMA, key: str = "id") -> Decoded:
    choice = FormatChoice(name, (("key", json.dumps([key])),))
    payloads = [None if m is None else json.dumps(m).encode() for m in messages]
    return open_decoder(choice, schema).decode(payloads)


def settle(
    found: Decoded, keys: list[bytes | None], rule: KeyRule = CONNECT, schema: Schema = SCHEMA
) -> tuple[list[object], list[tuple[int, str]]]:
    """Keys as objects, and where there is a native module as buffers, which have to agree."""
    assert found.kinds is not None
    module = native_module()
    given: list[Any] = [keys]
    if module is not None:
        given.append(JoinedPayloads([module.Records(keys[:1]), module.Records(keys[1:])]))
    settled = []
    for these in given:
        rows, dirty = KeyedRows(rule, schema).complete_keys(
            found.rows, found.kinds, [_Batch(these)], found.indices
        )
        settled.append((rows.to_pylist(), dirty))
    assert all(each == settled[0] for each in settled)
    return rows.column(0).to_pylist(), [(row.index, row.reason.value) for row in dirty]


def change(op: str, before: object, after: object) -> dict[str, object]:
    return {"op": op, "before": before, "after": after, "source": {"snapshot": "false"}}


def row(number: int, city: str = "a") -> dict[str, object]:
    return {"id": number, "city": city}


def test_key_that_cannot_be_read_is_told_of_its_row_behind_records_without_one() -> None:
    found = decode("debezium", None, change("c", None, row(1)), None, change("c", None, row(2)))
    keys: list[bytes | None] = [b'{"id":1}', b'{"id":1}', b"?", b"?"]
    assert settle(found, keys) == ([1, 2], [(1, "key_mismatch")])


def test_keys_with_a_schema_between_plain_ones_stay_at_their_rows() -> None:
    found = decode("debezium", *(change("c", None, row(number)) for number in (1, 2, 3)))
    wrapped = json.dumps({"schema": {"type": "struct"}, "payload": {"id": 2}}).encode()
    assert settle(found, [b'{"id":1}', wrapped, b'{"id":3}']) == ([1, 2, 3], [])


def test_debezium_tells_kinds_and_deletes_need_no_more_than_their_key() -> None:
    found = decode(
        "debezium",
        change("c", None, row(1)),
        change("u", row(1), row(1, "b")),
        change("d", {"id": 1}, None),
        change("d", None, None),
        change("r", None, row(2)),
        None,
    )
    assert found.dirty == ()
    assert found.kinds is not None
    kinds = [RowKind(kind).name for kind in found.kinds.to_pylist()]
    assert kinds == ["IMAGE", "IMAGE", "DELETE", "DELETE", "IMAGE"]
    assert found.rows.column(0).to_pylist() == [1, 1, 1, None, 2]
    assert found.skipped == 1


@pytest.mark.parametrize("told", ["first", "first_in_data_collection", "true", "incremental"])
def test_the_first_record_of_a_snapshot_is_marked_and_no_text_can_be_it(told: str) -> None:
    message = change("r", None, row(1, '"snapshot":"first'))
    message["source"] = {"snapshot": told}
    choice = FormatChoice("debezium", (("key", '["id"]'),))
    payload = json.dumps(message, separators=(",", ":")).encode()
    found = open_decoder(choice, SCHEMA).decode([payload])
    assert found.kinds is not None
    wanted = RowKind.FIRST if told.startswith("first") else RowKind.IMAGE
    assert found.kinds.to_pylist() == [wanted]


def test_a_records_key_that_is_not_the_rows_is_dirty_and_fills_a_delete_without_one() -> None:
    found = decode(
        "debezium",
        change("c", None, row(1)),
        change("c", None, row(2)),
        change("d", None, None),
        change("c", None, row(4)),
        change("c", None, row(5)),
        change("d", None, None),
    )
    keys: list[bytes | None] = [
        *(b'{"id":1}', b'{"id":9}', b'{"id":3}', None),
        *(b"five", b'{"nr":6}'),
    ]
    values, dirty = settle(found, keys)
    assert values == [1, 2, 3, 4, 5, None]
    assert dirty == [(n, "key_mismatch") for n in (1, 3, 4, 5)]


def test_keys_with_their_schema_are_read_as_the_rows_are() -> None:
    schema = Schema((Field("id", DecimalType(10, 2)), Field("city", StringType())))
    decimal = {
        "name": "org.apache.kafka.connect.data.Decimal",
        "type": "bytes",
        "parameters": {"scale": "2"},
        "field": "id",
    }
    image = {"type": "struct", "field": "after", "fields": [decimal]}
    message = {
        "schema": {"type": "struct", "fields": [image]},
        "payload": change("c", None, {"id": "ALs=", "city": "a"}),
    }
    found = decode("debezium", message, message, schema=schema)
    key = {"schema": {"type": "struct", "fields": [decimal]}, "payload": {"id": "ALs="}}
    other = {**key, "payload": {"id": "ALo="}}
    keys: list[bytes | None] = [json.dumps(key).encode(), json.dumps(other).encode()]
    values, dirty = settle(found, keys, schema=schema)
    assert [str(value) for value in values] == ["1.87", "1.87"]
    assert dirty == [(1, "key_mismatch")]


def test_maxwell_tells_deletes_and_a_changed_key_is_dirty() -> None:
    def told(kind: str, data: object, old: object = None) -> dict[str, object]:
        return {"type": kind, "database": "d", "table": "t", "data": data, "old": old}

    found = decode(
        "maxwell",
        told("insert", row(1)),
        told("update", row(1, "b"), {"city": "a"}),
        told("update", row(2), {"id": 1}),
        told("delete", {"id": 1}),
    )
    assert [(each.index, each.reason.value) for each in found.dirty] == [(2, "key_changed")]
    assert found.kinds is not None
    assert found.kinds.to_pylist() == [RowKind.IMAGE, RowKind.IMAGE, RowKind.DELETE]
    keys: list[bytes | None] = [b'{"database":"d","table":"t","pk.id":1}'] * 4
    assert settle(found, keys, KeyRule(("id",), KeyForm.PREFIXED)) == ([1, 1, 1], [])


def test_maxwells_changed_key_is_a_delete_and_a_row_in_one_partition() -> None:
    def told(data: object, old: object) -> bytes:
        return json.dumps({"type": "update", "data": data, "old": old}).encode()

    choice = FormatChoice("maxwell", (("key", '["id"]'), ("order", "one_partition")))
    found = open_decoder(choice, SCHEMA).decode(
        [
            told(row(2), {"id": 1, "city": "b"}),
            told(row(2, "c"), {"city": "a"}),
            told(row(2), {"id": "x"}),
        ]
    )
    assert found.kinds is not None
    assert found.kinds.to_pylist() == [RowKind.DELETE, RowKind.IMAGE, RowKind.IMAGE]
    assert found.indices.to_pylist() == [0, 0, 1]
    assert found.rows.to_pylist() == [{"id": 1, "city": None}, row(2), row(2, "c")]
    assert [(each.index, each.reason.value) for each in found.dirty] == [(2, "bad_text")]


def test_rows_of_one_message_stay_in_order_among_those_read_by_columns() -> None:
    choice = FormatChoice("maxwell", (("key", '["id"]'), ("order", "one_partition")))
    told: list[dict[str, object]] = []
    for number in range(0, 80, 2):
        told.append({"type": "insert", "data": row(number)})
        told.append({"type": "update", "data": row(number + 1), "old": {"id": number}})
    found = open_decoder(choice, SCHEMA).decode([json.dumps(each).encode() for each in told])
    assert found.kinds is not None
    assert found.kinds.to_pylist() == [RowKind.IMAGE, RowKind.DELETE, RowKind.IMAGE] * 40
    assert found.indices.to_pylist() == [n for n in range(80) for _ in range(1 + n % 2)]


def test_with_one_partition_records_need_no_key_and_a_second_one_is_refused() -> None:
    rule = KeyRule(("id",), None, one_partition=True)
    found = decode("debezium", change("c", None, row(1)), change("d", None, None))
    assert settle(found, [None, None], rule) == ([1, None], [(1, "key_mismatch")])
    check_one_partition(rule, [SourcePartition("t", 0)])
    with pytest.raises(SourceOrderError, match="one_partition"):
        check_one_partition(rule, [SourcePartition("t", 0), SourcePartition("t", 1)])
    check_one_partition(rule, [SourcePartition("t", "broker-a/3"), SourcePartition("u", "b/0")])
    with pytest.raises(SourceOrderError, match="one_partition"):
        check_one_partition(rule, [SourcePartition("t", "b/0"), SourcePartition("t", "b/1")])


def test_a_truncate_halts_a_keyed_route_and_no_other() -> None:
    with pytest.raises(SourceEmptiedError, match="TRUNCATE"):
        decode("debezium", change("t", None, None))
    plain = open_decoder(FormatChoice("debezium", (("other_messages", "skip"),)), SCHEMA)
    assert plain.decode([json.dumps(change("t", None, None)).encode()]).skipped == 1
    assert plain.decode([]).kinds is None
    assert pa.types.is_int64(plain.arrow_schema.field("id").type)


def test_a_value_that_the_source_did_not_tell_is_dirty() -> None:
    unknown = row(2, "__debezium_unavailable_value")
    found = decode(
        "debezium",
        change("u", None, row(1)),
        change("u", None, unknown),
        change("d", unknown, None),
    )
    assert [(d.index, d.reason.value, d.path) for d in found.dirty] == [(1, "not_a_change", "city")]
    assert found.indices.to_pylist() == [0, 2]


def test_a_truncate_needs_no_key_and_leaves_the_others_theirs() -> None:
    choice = FormatChoice("debezium", (("key", '["id"]'), ("truncate", "apply")))
    told = [change("c", None, row(1)), {"op": "t"}, change("d", None, None)]
    found = open_decoder(choice, SCHEMA).decode([json.dumps(each).encode() for each in told])
    rule = KeyRule(("id",), None, one_partition=True)
    assert settle(found, [None] * 3, rule) == ([1, None, None], [(2, "key_mismatch")])
    assert found.kinds is not None
    assert found.kinds.to_pylist() == [RowKind.IMAGE, RowKind.TRUNCATE, RowKind.DELETE]


def test_of_a_records_rows_the_last_of_each_key_is_kept() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"id": pa.array([1, 2, 1, 2, 1, 1], pa.int64()), "city": list("abcdef")}
    )
    indices = pa.array([0, 0, 0, 1, 1, 1], pa.int64())
    assert has_several(indices)
    assert not has_several(pa.array([0, 2, 5], pa.int64()))
    kept = KeyedRows(KeyRule(("id",), None), SCHEMA).last_of_records(rows, indices)
    assert rows.filter(pa.array(kept)).column("city").to_pylist() == list("bcdf")


@dataclass
class Replay:
    """What a task of a keyed route wrote, and of its one file, if any, the rows."""

    written: Written
    rows: list[dict[str, Any]]


def run_keyed(
    folder: Path,
    told: Sequence[dict[str, object]],
    route: dict[str, Any],
    judge: ChangeJudge | None = None,
) -> Replay:
    """Run a task over changes at the offsets from 4 on."""
    made = replace(
        route_plan(str(folder), None, (), choices=route.pop("choices", RowChoices())),
        key=KeyRule(("id",), None),
        **route,
    )
    storage, _ = open_storage(str(folder))
    storage.make_folders(made.layout.stage)
    task = TaskPlan(made, 1, 0, (Split(SourcePartition("orders", 0), 0, None),), 600.0, AT_NOON)
    writes = WriteBehind()
    pipeline = RowPipeline(task, storage, writes.lane(), judge=judge)
    values: list[bytes | None] = [json.dumps(each, separators=(",", ":")).encode() for each in told]
    try:
        pipeline.write([MadeBatch(0, values, list(range(4, 4 + len(values))))])
        written = pipeline.close()
    finally:
        writes.close()
    assert written.counts.balanced()
    rows = [
        row
        for file in written.files
        for row in pq.read_table(Path(made.layout.stage) / file.staged).to_pylist()
    ]
    return Replay(written, rows)


DEBEZIUM = FormatChoice("debezium", (("key", '["id"]'),))
OFFSET = (PlannedMetaColumn("offset", "_offset"),)


def read(after: dict[str, object], snapshot: str = "true") -> dict[str, object]:
    """A row of a snapshot."""
    return {"op": "r", "before": None, "after": after, "source": {"snapshot": snapshot}}


@pytest.mark.parametrize(
    ("n", "kind"), [(1, RowKind.FIRST), (0, RowKind.FIRST_GONE)], ids=["let_through", "left_out"]
)
def test_a_snapshot_that_begins_is_told_whatever_where_does_with_its_first_row(
    tmp_path: Path, n: int, kind: RowKind
) -> None:
    row = {"id": 7, "ts": n, "app": "a"}
    route = {"format": DEBEZIUM, "choices": RowChoices(where="ts > 0")}
    found = run_keyed(tmp_path, [read(row, "first"), read({**row, "id": 8})], route)
    kinds = [row[KIND_COLUMN] for row in found.rows]
    assert kinds == [kind, RowKind.IMAGE if n else RowKind.DELETE]


@pytest.mark.parametrize("after", [{"id": "x", "app": "a"}, {"id": None, "app": "a"}])
def test_a_snapshot_that_begins_with_a_dirty_record_is_told(
    tmp_path: Path, after: dict[str, object]
) -> None:
    told = [read({"id": 8}), read(after, "first"), read({"id": 8})]
    found = run_keyed(tmp_path, told, {"format": DEBEZIUM, "meta": OFFSET})
    # It has the dirty record's place, and no key.
    assert [(row["id"], row["_offset"], row[KIND_COLUMN]) for row in found.rows] == [
        (8, 4, RowKind.IMAGE),
        (8, 6, RowKind.IMAGE),
        (None, 5, RowKind.FIRST_LOST),
    ]
    counts = found.written.counts
    assert (counts.read, counts.written, counts.dirty, counts.expanded) == (3, 3, 1, 1)


def test_each_snapshot_that_begins_with_a_dirty_record_is_told_in_a_partition_of_its_own(
    tmp_path: Path,
) -> None:
    told = [read({"id": 8, "app": "a"}), *[read({"id": "x", "app": "a"}, "first")] * 2]
    by_app = (PartitionRule("app", None, "app"),)
    found = run_keyed(tmp_path, told, {"format": DEBEZIUM, "partitions": by_app})
    assert [(row["id"], row[KIND_COLUMN]) for row in found.rows] == [
        (8, RowKind.IMAGE),
        (None, RowKind.FIRST_LOST),
        (None, RowKind.FIRST_LOST),
    ]
    assert [file.values for file in found.written.files] == [("a",), (None,)]


def test_a_record_that_is_two_rows_is_counted_as_read_once_and_expanded_once(
    tmp_path: Path,
) -> None:
    told: list[dict[str, object]] = [
        {"type": "insert", "data": {"id": 1, "app": "a"}},
        {"type": "update", "data": {"id": 2, "app": "a"}, "old": {"id": 1}},
        {"type": "insert", "data": {"id": 3, "app": "a"}},
    ]
    choice = FormatChoice("maxwell", (("key", '["id"]'), ("order", "one_partition")))
    found = run_keyed(tmp_path, told, {"format": choice})
    assert [(row["id"], row[KIND_COLUMN]) for row in found.rows] == [
        (1, RowKind.IMAGE),
        (1, RowKind.DELETE),
        (2, RowKind.IMAGE),
        (3, RowKind.IMAGE),
    ]
    counts = found.written.counts
    assert (counts.read, counts.written, counts.expanded) == (3, 4, 1)


class Judge:
    """Knows later changes of some keys.

    Attributes:
        superseded: Those keys.
        unknown: A key of which it cannot say anything.
        sources: Where the rows that it was asked about were read from.
    """

    def __init__(self, *superseded: int, unknown: int | None = None) -> None:
        self.superseded = superseded
        self.unknown = unknown
        self.sources: list[str] = []

    def judge(self, rows: pa.RecordBatch, sources: Sequence[str]) -> Verdict:
        self.sources += sources
        keys = rows.column("id").to_pylist()
        unknown = {row: "why" for row, key in enumerate(keys) if key == self.unknown}
        return Verdict(np.array([key in self.superseded for key in keys], np.bool_), unknown)


def test_a_replay_leaves_out_what_a_later_change_has_overtaken_and_counts_it(
    tmp_path: Path,
) -> None:
    judge = Judge(1)
    told = [change("c", None, {"id": key, "app": "a"}) for key in (1, 2, 1)]
    found = run_keyed(tmp_path, told, {"format": DEBEZIUM, "meta": OFFSET}, judge)
    assert [(row["id"], row["_offset"]) for row in found.rows] == [(2, 5)]
    assert judge.sources == ["orders"] * 3
    counts = found.written.counts
    assert (counts.read, counts.written, counts.skipped) == (3, 1, 2)
    assert found.written.notes == {SUPERSEDED: 2}


def test_a_replayed_record_that_is_two_rows_is_expanded_once(tmp_path: Path) -> None:
    told: list[dict[str, object]] = [
        {"type": "update", "data": {"id": 2, "app": "a"}, "old": {"id": 1}}
    ]
    choice = FormatChoice("maxwell", (("key", '["id"]'), ("order", "one_partition")))
    counts = run_keyed(tmp_path, told, {"format": choice}, Judge(1)).written.counts
    assert (counts.read, counts.written, counts.expanded, counts.skipped) == (1, 1, 1, 1)


def test_a_replay_keeps_as_dirty_what_cannot_be_judged(tmp_path: Path) -> None:
    told = [change("c", None, {"id": key, "app": "a"}) for key in (3, 1, 2)]
    found = run_keyed(tmp_path, told, {"format": DEBEZIUM}, Judge(1, unknown=3))
    assert [row["id"] for row in found.rows] == [2]
    counts = found.written.counts
    assert (counts.written, counts.skipped, counts.dirty) == (1, 1, 1)


def test_a_replay_does_not_tell_once_more_that_a_snapshot_began(tmp_path: Path) -> None:
    told = [read({"id": "still no number"}, "first"), read({"id": 8})]
    found = run_keyed(tmp_path, told, {"format": DEBEZIUM}, Judge())
    assert [(row["id"], row[KIND_COLUMN]) for row in found.rows] == [(8, RowKind.IMAGE)]
    counts = found.written.counts
    assert (counts.read, counts.written, counts.dirty, counts.expanded) == (2, 1, 1, 0)


def whole(*payloads: bytes | None) -> Decoded:
    return open_decoder(FormatChoice("json", (), "delete"), SCHEMA).decode(payloads)


ROWS = KeyRule(("id",), KeyForm.CONNECT, fills=True)


def test_of_whole_rows_the_records_key_names_what_is_deleted_and_what_the_payload_lacks() -> None:
    found = whole(b'{"city":"a"}', None, b'{"id":3,"city":"a"}', b'{"id":null,"city":"a"}', None)
    keys: list[bytes | None] = [b'{"id":1}', b'{"id":2}', b'{"id":4}', b'{"id":5}', None]
    values, dirty = settle(found, keys, ROWS)
    assert values == [1, 2, 3, 5, None]
    assert dirty == [(2, "key_mismatch"), (4, "key_mismatch")]


def test_only_of_whole_rows_a_payload_may_lack_its_key() -> None:
    found = decode("debezium", change("c", None, {"city": "a"}))
    assert settle(found, [b'{"id":1}']) == ([None], [(0, "key_mismatch")])


def test_a_key_that_is_text_is_converted_as_the_rows_are() -> None:
    rule = KeyRule(("id",), KeyForm.TEXT, fills=True)
    found = whole(b'{"id":1,"city":"a"}', None, None, None, None, None, b'{"id":7,"city":"a"}')
    keys: list[bytes | None] = [*(b"1", b"2", b"three", b"\xff", b"", None), b"8"]
    values, dirty = settle(found, keys, rule)
    assert values == [1, 2, None, None, None, None, 7]
    assert dirty == [(n, "key_mismatch") for n in range(2, 7)]


@pytest.mark.parametrize("text", ["", "a b", '"quoted"', '{"id":1}', "ключ", "\\u0041", "x" * 9000])
def test_a_text_key_is_its_text_whatever_it_looks_like(text: str) -> None:
    schema = Schema((Field("id", StringType()), Field("city", StringType())))
    found = open_decoder(FormatChoice("json", (), "delete"), schema).decode([None])
    rule = KeyRule(("id",), KeyForm.TEXT, fills=True)
    assert settle(found, [text.encode()], rule, schema) == ([text], [])


@pytest.mark.parametrize("size", [4, 8])
def test_a_key_that_is_a_number_in_bytes_is_the_number_the_highest_byte_first(size: int) -> None:
    rule = KeyRule(("id",), KeyForm(f"int{8 * size}"), fills=True)
    numbers = [0, -1, 258, 1 << (8 * size - 1) - 1, -(1 << (8 * size - 1))]
    told: list[bytes | None] = [number.to_bytes(size, "big", signed=True) for number in numbers]
    values, dirty = settle(whole(*[None] * 5), told, rule)
    assert (values, dirty) == (numbers, [])
    wrong: list[bytes | None] = [b"", bytes(size - 1), bytes(size + 1), b"7", None]
    values, dirty = settle(whole(*[None] * 5), wrong, rule)
    assert values == [None] * 5
    assert dirty == [(n, "key_mismatch") for n in range(5)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"7", 7),
        (b" 7 ", 7),
        (b'"7"', 7),
        (b'{"schema":{"type":"int64","optional":false},"payload":7}', 7),
        (b'{"id":7}', 7),
        (b'7,"id":8', None),
        (b"7}", None),
        (b"7 8", None),
        (b"[7]", None),
        (b"null", None),
        (b"NaN", None),
        (b"seven", None),
        (b"\xff", None),
        (b"", None),
        (b"[" * 100_000, None),
        (b'{"schema":{"type":"int64"},"payload":null}', None),
        (b'{"schema":{"type":"int64"},"payload":[7]}', None),
    ],
)
def test_a_key_of_one_column_may_be_its_bare_value(key: bytes, value: int | None) -> None:
    values, dirty = settle(whole(None, None), [key, b'{"id":2}'], ROWS)
    assert values == [value, 2]
    assert dirty == ([] if value else [(0, "key_mismatch")])


def test_a_bare_text_is_the_text_whatever_is_in_it() -> None:
    schema = Schema((Field("id", StringType()), Field("city", StringType())))
    found = open_decoder(FormatChoice("json", (), "delete"), schema).decode([None, None, None])
    texts = ['a "{id": 1}', "{", '"payload" and "schema"']
    keys: list[bytes | None] = [json.dumps(text).encode() for text in texts]
    assert settle(found, keys, ROWS, schema) == (texts, [])


def test_bare_keys_stand_among_others_in_their_order() -> None:
    keys: list[bytes | None] = [
        b"1",
        b'{"id":2}',
        b'{"schema":{"type":"int64"},"payload":3}',
        b"four",
        b'{"schema":{"type":"struct","fields":[]},"payload":{"id":5}}',
        b"6",
    ]
    values, dirty = settle(whole(*[None] * 6), keys, ROWS)
    assert values == [1, 2, 3, None, 5, 6]
    assert dirty == [(3, "key_mismatch")]


def test_no_bare_key_is_taken_for_one_of_two_columns_or_of_a_change() -> None:
    schema = Schema((Field("id", IntegerType(64)), Field("app", IntegerType(64))))
    found = open_decoder(FormatChoice("json", (), "delete"), schema).decode([None])
    two = KeyRule(("id", "app"), KeyForm.CONNECT, fills=True)
    assert settle(found, [b"1"], two, schema) == ([None], [(0, "key_mismatch")])
    found = decode("debezium", change("c", None, row(1)))
    assert settle(found, [b"1"]) == ([1], [(0, "key_mismatch")])


def test_keys_that_a_registry_writes_are_framed_json_where_the_values_are() -> None:
    rule = KeyRule(
        ("id",), KeyForm.RECORD, format=FormatChoice("json", (("frame", "confluent"),)), fills=True
    )
    head = b"\0\0\0\0\x05"
    keys: list[bytes | None] = [head + b'{"id":2}', b'{"id":2}', None, head + b"3", b"", head]
    assert settle(whole(*[None] * 6), keys, rule) == (
        [2, None, None, 3, None, None],
        [(number, "key_mismatch") for number in (1, 2, 4, 5)],
    )
