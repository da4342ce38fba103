"""Rows that cannot be converted: whole in dirty files of the same commit, never lost or fatal."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from sluiceway.types.dirty import DirtyReason
from tools.job_files import event
from tools.route_faults import NewRun, counts, data_records, offsets
from tools.topic_writer import TopicWriter

TS_MS = 1_795_161_600_000
WHOLE = 'topic, partition, "offset", timestamp_ms, key, value, headers, stage, reason, path'
BAD = (
    (b"{", "decode", "broken", ""),
    (b"\xff\xfe", "decode", "encoding", ""),
    (b"[1]", "decode", "not_an_object", ""),
    (b'{"id":1.5,"ts":1}', "convert", "not_integral", "id"),
    (b'{"id":true,"ts":1}', "convert", "wrong_type", "id"),
    (b'{"id":9223372036854775808,"ts":1}', "convert", "overflow", "id"),
    (b'{"ts":1}', "convert", "missing", "id"),
    (b'{"id":null,"ts":1}', "convert", "null", "id"),
    (b'{"id":1,"ts":1,"amount":"0.125"}', "convert", "scale", "amount"),
    (b'{"id":1,"ts":1,"city":"a\\u0000b"}', "convert", "encoding", "city"),
    (b'{"id":1,"id":2,"ts":1}', "convert", "duplicate_key", "id"),
    (b'{"id":1,"ts":999999999999999}', "event_time", "bad_time", "ts"),
)
NESTED = """\
    - {name: id, type: bigint, required: true}
    - {name: ts, type: bigint}
    - {name: city, type: string, path: geo.place.city}
    - {name: must, type: string, required: true, path: geo.must}
    - {name: tags, type: "array<struct<k:string,v:int>>"}
"""

Header = tuple[str, bytes | None]


def _headers(number: int) -> list[Header]:
    return [("trace", b"\x00%d" % number), ("empty", None), ("trace", b"again")]


def _write(bootstrap_servers: str, topic: str, payloads: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number, payload in enumerate(payloads):
        producer.produce(
            topic,
            payload,
            key=b"k%d" % number if number % 3 else None,
            partition=number % 2,
            headers=_headers(number),
            timestamp=TS_MS + number,
        )
    assert producer.flush(60) == 0


@pytest.mark.parametrize("one_in", [1000, 100, 2, 1], ids=["0.1%", "1%", "50%", "100%"])
def test_dirty_rows_are_kept_whole_and_the_others_are_written(
    new_run: NewRun, bootstrap_servers: str, one_in: int
) -> None:
    run, topic = new_run(2)
    total = 2000 if one_in > 2 else 400
    dirty = {number: BAD[number % len(BAD)] for number in range(0, total, one_in)}
    payloads = [dirty[n][0] if n in dirty else event(n) for n in range(total)]
    _write(bootstrap_servers, topic, payloads)
    run.catch_up()
    expected = sorted(
        (
            *(topic, number % 2, number // 2, TS_MS + number),
            *(b"k%d" % number if number % 3 else None, payload),
            *([{"name": k, "value": v} for k, v in _headers(number)], stage, reason, path),
        )
        for number, (payload, stage, reason, path) in dirty.items()
    )
    assert sorted(run.dirty(WHOLE)) == expected
    clean = [(n % 2, n // 2) for n in range(total) if n not in dirty]
    assert run.rows() == sorted(clean)
    found = counts(run)
    assert (found.read, found.written, found.dirty) == (total, len(clean), len(dirty))
    assert found.skipped == found.late == found.filtered == 0
    reasons = [count for record in data_records(run) for count in record.dirty_reasons.values()]
    assert sum(reasons) == len(dirty)
    run.assert_verified()


@pytest.mark.parametrize("tombstones", ["skip", "dirty"])
def test_tombstones_are_skipped_or_dirty_and_always_counted(
    new_run: NewRun, writer: TopicWriter, tombstones: str
) -> None:
    run, topic = new_run(tombstones=tombstones)
    writer.write_keyed(topic, [(b"a", event(1)), (b"b", None), (b"c", b""), (b"d", event(2))])
    run.catch_up()
    found = counts(run)
    assert run.rows() == [(0, 0), (0, 3)]
    if tombstones == "skip":
        assert (found.read, found.skipped, found.dirty) == (4, 2, 0)
        assert run.dirty() == []
    else:
        assert (found.read, found.skipped, found.dirty) == (4, 0, 2)
        assert run.dirty('"offset", key, value, reason') == [
            (1, b"b", None, "empty"),
            (2, b"c", b"", "empty"),
        ]
    run.assert_verified()


def test_topic_of_tombstones_only_moves_the_committed_end(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.write_keyed(topic, [(b"k", None)] * 5)
    run.catch_up()
    assert run.rows() == []
    assert [(span.start, span.end) for r in data_records(run) for span in r.ranges] == [(0, 5)]
    run.catch_up()
    assert len(data_records(run)) == 1
    run.assert_verified()


def test_nested_columns_are_read_by_path_and_extra_keys_ignored(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(columns=NESTED)
    good: list[Any] = [
        {
            "geo": {"place": {"city": "北京", "x": [1]}, "must": "a"},
            "tags": [{"k": "x", "v": 1}],
        },
        {"geo": {"place": {}, "must": ""}, "tags": [], "surprise": {"deep": [None, {}]}},
        {"geo": {"place": None, "must": "a"}, "tags": None},
        {"geo": {"must": "a"}, "tags": [None, {"v": None}]},
    ]
    bad: list[tuple[Any, str, str]] = [
        ({"geo": {"place": {}}}, "missing", "geo.must"),
        ({}, "missing", "geo.must"),
        ({"geo": {"must": None}}, "null", "geo.must"),
        ({"geo": {"must": "a", "place": 5}}, "wrong_type", "geo.place"),
        ({"geo": {"must": "a", "place": {"city": 5}}}, "wrong_type", "geo.place.city"),
        ({"geo": {"must": "a"}, "tags": [{"k": "x"}, {"v": "y"}]}, "bad_text", "tags[1].v"),
        ({"geo": {"must": "a"}, "tags": {"k": "x"}}, "wrong_type", "tags"),
    ]
    bodies = [*good, *(body for body, _, _ in bad)]
    payloads = [json.dumps({"id": n, "ts": TS_MS, **body}) for n, body in enumerate(bodies)]
    writer.write(topic, [payload.encode() for payload in payloads])
    run.catch_up()
    assert run.rows("id, city, must, tags") == [
        (0, "北京", "a", [{"k": "x", "v": 1}]),
        (1, None, "", []),
        (2, None, "a", None),
        (3, None, "a", [None, {"k": None, "v": None}]),
    ]
    assert run.dirty('"offset" - 4, reason, path') == [
        (number, reason, path) for number, (_, reason, path) in enumerate(bad)
    ]
    run.assert_verified()


def test_event_times_that_cannot_be_read_make_dirty_rows(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(
        columns=NESTED,
        event_time="{field: ts, unit: ms, timezone: Asia/Shanghai, max_future: 3650000d}",
    )
    times: list[int | None] = [
        *(TS_MS, None, 253_402_300_800_000, -62_135_596_800_001),
        # The last hour of the year 9999 in UTC is no hour of the calendar in Shanghai.
        *(253_402_300_799_999, -62_135_596_800_000, 0, -1),
    ]
    bodies = [{"id": 1, "ts": ts, "geo": {"must": "a"}} for ts in times]
    writer.write(topic, [json.dumps(body).encode() for body in bodies])
    writer.write(topic, [b'{"id":1,"geo":{"must":"a"}}'])
    run.catch_up()
    assert run.dirty('"offset", stage, reason') == [
        (1, "event_time", "null"),
        (2, "event_time", "bad_time"),
        (3, "event_time", "bad_time"),
        (4, "partition", "bad_partition_value"),
        (8, "event_time", "null"),
    ]
    assert set(run.partitions()) == {"20261120/16", "00010101/08", "19700101/08", "19700101/07"}
    assert run.rows() == offsets(0, range(1), range(5, 8))
    run.assert_verified()


@pytest.mark.parametrize("fine", [True, False])
def test_values_of_five_megabytes_are_kept_whole(
    new_run: NewRun, writer: TopicWriter, *, fine: bool
) -> None:
    run, topic = new_run(topic_config={"max.message.bytes": "12000000"})
    big = "ä" * (5 << 19)
    payload = event(1, city=big) if fine else event(1, city=big)[:-1]
    writer.write(topic, [event(0), payload, event(2)])
    run.catch_up()
    if fine:
        assert run.rows("id, city") == [(0, "Berlin"), (1, big), (2, "Berlin")]
    else:
        assert run.rows("id") == [(0,), (2,)]
        assert run.dirty("value, reason") == [(payload, DirtyReason.BROKEN)]
    run.assert_verified()
