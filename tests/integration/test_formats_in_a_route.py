"""Formats other than JSON on a real broker and metastore, with keys and headers as columns."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sluiceway.ledger.records import DataRecord, RowCounts
from sluiceway.types.strict_json import BigInt
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

MakeJob = Callable[..., tuple[JobFile, str]]
META = "meta: [topic, partition, offset, timestamp"
PLAIN = {"partition_by": "[]", "event_time": ""}


@pytest.fixture
def make_job(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> MakeJob:
    def make(payload: str, *, meta: str = "", **changes: str) -> tuple[JobFile, str]:
        topic = new_topic(1)
        servers = {"bootstrap_servers": bootstrap_servers, "metastore_uri": metastore_uri}
        job = write_job(tmp_path, **servers, topic=topic, **changes)
        text = job.path.read_text().replace("format: {json: {tombstones: skip}}", payload)
        assert payload in text
        job.path.write_text(text.replace(META, META + meta))
        return job, topic

    return make


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


def counted(run: RouteRun) -> RowCounts:
    total = RowCounts(*(BigInt(0),) * 6)
    for record in run.records():
        if isinstance(record.body, DataRecord):
            assert record.body.counts.balanced()
            total = total.plus(record.body.counts)
    return total


@pytest.mark.parametrize("native", ["0", "1"])
def test_raw_payloads_with_keys_and_headers(
    make_job: MakeJob, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch, native: str
) -> None:
    monkeypatch.setenv("SLUICEWAY_NATIVE", native)
    columns = "    - {name: line, type: string}"
    meta = ", key, key_text, headers_text"
    job, topic = make_job("format: {raw: {tombstones: null}}", meta=meta, columns=columns, **PLAIN)
    writer.write_record(topic, b"a\nb", key=b"k1", headers=[("h", b"1"), ("g", None), ("h", b"2")])
    writer.write_record(topic, b"\xff", key=b"k2")
    writer.write_record(topic, b"no text in the key", key=b"\xff\x00")
    writer.write_record(topic, None)
    writer.write_record(topic, b"", key="北".encode(), headers=[("h", b"\xfe")])
    run = RouteRun(job)
    run.catch_up()
    headers = [{"name": "h", "value": "1"}, {"name": "g", "value": None}]
    assert run.rows("line, _key, _key_text, _headers_text, _offset") == [
        ("a\nb", b"k1", "k1", [*headers, {"name": "h", "value": "2"}], 0),
        (None, None, None, [], 3),
    ]
    assert run.dirty('"offset", stage, reason, path') == [
        (1, "convert", "encoding", "line"),
        (2, "convert", "encoding", "_key_text"),
        (4, "convert", "encoding", "_headers_text"),
    ]
    assert counted(run) == RowCounts(*map(BigInt, (5, 2, 3, 0, 0, 0)))
    run.assert_verified()


def test_delimited_lines_by_event_time(make_job: MakeJob, writer: TopicWriter) -> None:
    job, topic = make_job('format: {csv: {delimiter: "|", null_text: "\\\\N"}}')
    lines = (
        *(b"1|1795176000000|Berlin|2.50", b'2|1795176000000|"a|b"|\\N\r\n', b"3|x|y|1"),
        *(b"4|1795176000000", b"5|1795176000000||1.005"),
    )
    writer.write(topic, [*lines, None])
    run = RouteRun(job)
    run.catch_up()
    assert run.rows("id, city, amount") == [(1, "Berlin", Decimal("2.50")), (2, "a|b", None)]
    assert set(run.partitions()) == {"20261120/12"}
    assert run.dirty('"offset", stage, reason, path') == [
        (2, "convert", "bad_text", "ts"),
        (3, "decode", "missing", ""),
        (4, "convert", "scale", "amount"),
        (5, "decode", "empty", ""),
    ]
    run.assert_verified()


def test_change_log_is_appended_and_what_changes_no_row_is_counted(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    columns = """\
    - {name: op, type: string, path: $.op}
    - {name: ts, type: timestamp, unit: ms, path: $.source.ts_ms, required: true}
    - {name: id, type: bigint, required: true}
    - {name: city, type: string}
    - {name: city_before, type: string, path: $.before.city}"""
    job, topic = make_job(
        "format: {debezium: {other_messages: skip}}", columns=columns, event_time="{field: ts}"
    )

    def change(op: str, before: object, after: object) -> bytes:
        source = {"ts_ms": 1_795_176_000_000, "pos": 4}
        return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()

    first, second = {"id": 1, "city": "Bonn"}, {"id": 1, "city": "Berlin"}
    wrapped = b'{"schema":{},"payload":%s}' % change("d", second, None)
    changes = [change("c", None, first), change("u", first, second), wrapped, None]
    writer.write(topic, [*changes, b'{"ts_ms":5}', b'{"ddl":"x","ts_ms":5}', b'{"id":1}'])
    run = RouteRun(job)
    run.catch_up()
    assert run.rows("_offset, op, id, city, city_before") == [
        (0, "c", 1, "Bonn", None),
        (1, "u", 1, "Berlin", "Bonn"),
        (2, "d", 1, "Berlin", "Berlin"),
    ]
    assert run.dirty('"offset", reason') == [(6, "not_a_change")]
    assert counted(run) == RowCounts(*map(BigInt, (7, 3, 1, 0, 0, 3)))
    run.assert_verified()
