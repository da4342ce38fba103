"""Avro and Protobuf through Kafka and a schema registry into a table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.formats.schema_registry import store
from sluiceway.formats.schema_registry.store import UnknownSchemaRetry
from tools import avro_bytes as avro
from tools import protobuf_bytes as pb
from tools.registry_server import Registry, registry_server
from tools.route_faults import NewRun, counts, data_records, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

TS_MS = 1_795_161_600_000
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
FIRST = [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}]
SECOND = [
    {"name": "ts", "type": "long"},
    {"name": "amount", "type": ["null", _MONEY], "default": None},
    {"name": "id", "type": "int"},
    {"name": "city", "type": "string"},
]
PROTO = """
syntax = "proto3"; package shop;
message Other { string x = 1; }
message Order { int64 id = 1; int64 ts = 2; optional string city = 3; }
"""
_TESTS = Path(__file__).parents[1]


def _schema(fields: object) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def _first(schema_id: int, number: int) -> bytes:
    return avro.confluent(schema_id, avro.long(number) + avro.long(TS_MS))


def _second(schema_id: int, number: int) -> bytes:
    amount = avro.long(1) + avro.data(avro.unscaled(number * 100 + 5))
    body = avro.long(TS_MS) + amount + avro.long(number) + avro.text("北京")
    return avro.confluent(schema_id, body)


def _order(schema_id: int, number: int) -> bytes:
    body = pb.tagged(1, pb.VARINT, pb.varint(number)) + pb.tagged(2, pb.VARINT, pb.varint(TS_MS))
    return avro.confluent(schema_id, avro.long(1) + avro.long(1) + body)


def _reads(run: RouteRun, registry: Registry, kind: str, wait: str = "0s") -> None:
    """Make the job read a format from the registry."""
    text = run.job.path.read_text()
    text = text.replace(
        "source:", f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}\nsource:', 1
    )
    text = text.replace(
        "{json: {tombstones: skip}}", f"{{{kind}: {{registry: reg, unknown_schema_wait: {wait}}}}}"
    )
    run.job.path.write_text(text)


class Log:
    """What the driver has logged so far."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self._text = ""

    def has(self, *words: str) -> bool:
        self._text += self._captured.readouterr().err
        return all(word in self._text for word in words)


def test_two_versions_side_by_side_make_no_more_files_than_one(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    with registry_server() as registry:
        _reads(run, registry, "avro")
        ids = (registry.add("o", _schema(FIRST)), registry.add("o", _schema(SECOND)))
        payloads: list[bytes | None] = [
            _first(ids[0], n) if n % 2 else _second(ids[1], n) for n in range(300)
        ]
        payloads += [_first(77, 1), b"{}", _first(ids[0], 1) + b"\0", None]
        writer.write(topic, payloads)
        run.catch_up()
        asked = len(registry.asked)
        writer.write(topic, [_second(ids[1], 300), _first(77, 2)])
        run.catch_up()
    wanted = [(n, None if n % 2 else "北京", None if n % 2 else f"{n}.05") for n in range(301)]
    assert run.rows("id, city, amount::varchar") == wanted
    reasons = [(300, "unknown_schema"), (301, "broken"), (302, "broken"), (303, "empty")]
    assert run.dirty('"offset", reason') == [*reasons, (305, "unknown_schema")]
    # Later epochs ask for nothing: ids are kept in the process, those that are not known too.
    assert len(registry.asked) == asked == 3
    found = data_records(run)
    assert [len(record.files) for record in found] == [1] * len(found)
    assert (counts(run).written, counts(run).dirty) == (301, 5)
    run.assert_verified()


def test_registry_that_is_down_makes_the_route_wait_and_nothing_dirty(
    new_run: NewRun,
    writer: TopicWriter,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    quick = UnknownSchemaRetry(unknown_s=0.0, outage_s=0.1, poll_s=0.05)
    monkeypatch.setattr(store, "UnknownSchemaRetry", lambda unknown_s: quick)
    run, topic = new_run()
    with registry_server() as registry:
        schema_id = registry.add("o", _schema(FIRST))
        registry.status = 503
        _reads(run, registry, "avro")
        writer.write(topic, [_first(schema_id, n) for n in range(20)])
        log = Log(capfd)
        with live(run) as running:
            running.wait_for(lambda: log.has("route_waits", "SW105", "HTTP 503"))
            assert data_records(run) == []
            registry.status = 0
            running.wait_for(lambda: len(run.rows()) == 20)
            running.stop()
    assert run.rows("id") == [(n,) for n in range(20)]
    assert run.dirty() == []
    run.assert_verified()


def test_registry_that_refuses_halts_the_route(
    new_run: NewRun, writer: TopicWriter, capfd: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    with registry_server(Registry(login="ann:word")) as registry:
        schema_id = registry.add("o", _schema(FIRST))
        _reads(run, registry, "avro")
        writer.write(topic, [_first(schema_id, 1)])
        log = Log(capfd)
        with live(run) as running:
            running.wait_for(lambda: log.has("route_halted", "SW408", "HTTP 401"))
    assert run.dirty() == []
    assert data_records(run) == []


def test_protobuf_comes_through_a_driver_and_worker_processes(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(2)
    with registry_server() as registry:
        schema_id = registry.add("o", PROTO, "PROTOBUF")
        _reads(run, registry, "protobuf")
        for partition in (0, 1):
            numbers = range(partition, 200, 2)
            writer.write(topic, [_order(schema_id, n) for n in numbers], partition=partition)
        writer.write(topic, [_order(schema_id, 1)[:-1], _order(9, 1)])
        command = [sys.executable, "-m", "tools.local_driver", str(run.job.path)]
        done = subprocess.run(
            [*command, "--until-caught-up"],
            cwd=_TESTS,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert run.rows("id, city, amount") == [(n, None, None) for n in range(200)]
    assert sorted(run.dirty("reason")) == [("broken",), ("unknown_schema",)]
    run.assert_verified()
