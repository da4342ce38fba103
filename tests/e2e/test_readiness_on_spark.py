"""Hours are announced by a driver on Spark, and by the next one when it was killed."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer

from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.partition_records import ReadyRecord
from tools.driver_process import DriverProcess
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_PATIENCE_S = 60.0


class _Hook(BaseHTTPRequestHandler):
    told: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.told.append((self.headers["Idempotency-Key"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hook() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Hook.told.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}/ready"
    server.shutdown()
    server.server_close()
    thread.join(_PATIENCE_S)


def _row(number: int, clock: str) -> bytes:
    at_ms = int(datetime.fromisoformat(f"2026-11-20T{clock}:00+00:00").timestamp() * 1000)
    return json.dumps({"id": number, "ts": at_ms, "city": "x", "amount": "1.00"}).encode()


def test_hours_are_announced_once_in_order_although_the_driver_is_killed(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path, hook: str
) -> None:
    topic, told_topic = new_topic(2), new_topic(1)
    job = write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
        topic=topic,
        interval="1s",
        event_time="{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 10m}",
        ready=f'{{success_file: true, webhook: {{url: "{hook}"}}, kafka: {{topic: {told_topic}}}}}',
    )
    run, writer = RouteRun(job), TopicWriter(lab_endpoints.bootstrap_servers)

    def announced() -> list[str]:
        bodies = [each.body for each in run.records()]
        return [body.prefix[-2:] for body in bodies if isinstance(body, ReadyRecord)]

    def send(*clocks: str) -> None:
        for partition in (0, 1):
            rows = [_row(number, clock) for number, clock in enumerate(clocks)]
            writer.write(topic, rows, partition=partition)

    send("08:30", "08:10", "08:50", "09:05")
    with DriverProcess(job, tmp_path) as driver:
        driver.wait_for_event("committed")
        driver.wait_until(lambda: len(_Hook.told) >= 1, "the first announcement")
        assert list(run.partitions()) == ["20261120/08"]
        send("09:40", "11:10")
        driver.kill_group()
    with DriverProcess(job, tmp_path) as driver:
        driver.wait_until(lambda: {b["prefix"][-2:] for _, b in _Hook.told} >= {"10"}, "the rest")
        driver.wait_until(lambda: len(run.partitions()) == 3, "partitions")
        # The receivers are told side by side: what one has heard, another may hear a little later.
        messages = _messages(lab_endpoints.bootstrap_servers, told_topic, 3)

    assert announced() == ["08", "09", "10"]
    assert sorted(run.partitions()) == [f"20261120/{hour}" for hour in ("08", "09", "10")]
    for place in run.partitions().values():
        assert (Path(place) / "_SUCCESS").exists()
    # At least once, in order; who was told twice knows it by the key.
    keys = list(dict.fromkeys(key for key, _ in _Hook.told))
    assert [key.split("=")[-1] for key in keys] == ["08:1", "09:1", "10:1"]
    assert [body["rows"] for _, body in _last_of_each()] == [6, 4, 0]
    assert messages == keys
    run.assert_verified()


def _last_of_each() -> list[tuple[str, dict[str, Any]]]:
    return list(dict(_Hook.told).items())


def _messages(servers: str, topic: str, count: int) -> list[str]:
    """Keys of the first messages, those told twice left out."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, keys = Consumer(settings), dict[str, None]()
    consumer.subscribe([topic])
    try:
        while len(keys) < count:
            found = consumer.poll(_PATIENCE_S)
            assert found is not None, list(keys)
            assert found.error() is None
            keys[(found.key() or b"").decode()] = None
    finally:
        consumer.close()
    return list(keys)
