"""Queues that go: they hold the hours until an operator gives them up, or they come back."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import Lab
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.driver_process import DriverProcess
from tools.rocketmq_job import RocketMqJob
from tools.rocketmq_writer import RocketMqWriter
from tools.table_proofs import assert_verified

HOUR_MS = 3_600_000
SEVEN_MS = 1_795_158_000_000
SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
_HOURS = """\
version: 1
name: {topic}
connections:
  mq: {{rocketmq: {{name_servers: ["{name_server}"]{more}}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
source: {{connection: mq, topics: [{topic}], start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing}}
  columns: [{{name: id, type: bigint, required: true}}, {{name: ts, type: bigint}}]
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [topic, partition, offset]
event_time: {{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}}
ready: {{visible: on_commit}}
run: {{interval: 1s}}
"""


@pytest.fixture
def mq(rocketmq_lab: Lab, rocketmq: RocketMqEndpoint, tmp_path: Path) -> Iterator[RocketMqJob]:
    writer = RocketMqWriter(rocketmq.name_server)
    topic = f"mq_{uuid.uuid4().hex[:10]}"
    yield RocketMqJob(rocketmq_lab, rocketmq, writer, topic, tmp_path, _HOURS)
    writer.close()


def row(number: int, ts_ms: int) -> bytes:
    return json.dumps({"id": number, "ts": ts_ms}).encode()


def driver(mq: RocketMqJob) -> DriverProcess:
    return DriverProcess(mq.job(), mq.folder, module="tools.inline_driver")


class Operator:
    """Types commands."""

    def __init__(self, mq: RocketMqJob, capsys: pytest.CaptureFixture[str]) -> None:
        self._mq = mq
        self._capsys = capsys

    def types(self, *words: str) -> tuple[int, Any]:
        """Exit code and JSON."""
        self._capsys.readouterr()
        code = run_command([*words, "-o", "json"])
        return code, json.loads(self._capsys.readouterr().out)

    def retire(self, *options: str) -> tuple[int, Any]:
        path = str(self._mq.job().path)
        return self.types("offsets", "retire", path, "--reason", "a test", *options)

    def left_out(self) -> list[str]:
        _, answer = self.types("status", str(self._mq.job().path))
        return list(answer["routes"][0]["left_out"])

    def ready(self) -> list[str]:
        path = str(self._mq.job().path)
        code, answer = self.types("partitions", "list", path, "--state", "ready")
        assert code == 0
        return [each["prefix"] for each in answer["routes"][0]["prefixes"]]


@pytest.fixture
def operator(mq: RocketMqJob, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(mq, capsys)


def make_three(mq: RocketMqJob) -> None:
    """Two queues on the one broker, one on the other."""
    brokers = mq.endpoint.brokers
    mq.writer.create_topic(mq.topic, {brokers["broker-a"]: 2, brokers["broker-b"]: 1})


def shrunk(mq: RocketMqJob, operator: Operator) -> str:
    """Three queues became two; the one that went holds hour seven with a row that was not read."""
    make_three(mq)
    gone = f"{mq.topic}[broker-a/1]"
    for broker, queue in (("broker-a", 0), ("broker-a", 1), ("broker-b", 0)):
        mq.send(broker, queue, row(queue, SEVEN_MS))
    assert mq.catch_up().exit_code == 0
    mq.send("broker-a", 1, row(10, SEVEN_MS + 1))
    mq.make(1)
    with driver(mq) as running:
        running.wait_for_event("partitions_left_out")
        for broker in ("broker-a", "broker-b"):
            mq.send(broker, 0, row(20, SEVEN_MS + 2 * HOUR_MS))
        running.wait_until(lambda: len(mq.rows()) == 5, "rows of the queues that stay")
        running.wait_until(lambda: operator.left_out() == [gone], "a word in the status")
        assert operator.ready() == []
        assert operator.retire("--accept-gap", "--execute")[0] == 7, "a driver runs"
        assert running.events("route_halted") == []
    return gone


def test_queue_that_is_no_more_holds_the_hours_until_it_is_given_up(
    mq: RocketMqJob, operator: Operator
) -> None:
    gone = shrunk(mq, operator)
    typed = gone.replace("[", ":").removesuffix("]")
    there = f"{mq.topic}:broker-a/0"
    code, answer = operator.retire("--partition", there, "--accept-gap")
    assert (code, answer["error"]["code"]) == (7, "SW458")
    assert "the cluster has it" in answer["error"]["message"]
    code, answer = operator.retire()
    assert (code, answer["executed"], answer["needs"]) == (7, False, ["--accept-gap"])
    code, answer = operator.retire("--execute")
    assert (code, answer["error"]["hint"]) == (7, "add --accept-gap to accept that")
    code, answer = operator.retire("--accept-gap")
    assert (code, answer["executed"]) == (0, False)
    assert answer["retired"] == [{"partition": typed, "committed_end": 1}]
    code, answer = operator.retire("--accept-gap", "--execute")
    assert (code, answer["executed"]) == (0, True)
    code, answer = operator.retire("--accept-gap", "--execute")
    assert (code, answer["retired"], answer["executed"]) == (0, [], False)
    with driver(mq) as running:
        running.wait_until(lambda: operator.ready() == [SEVEN, EIGHT], "hours that are ready")
        assert operator.left_out() == []
    assert mq.catch_up().exit_code == 0
    assert_verified(mq.job())


def test_queue_that_comes_back_is_read_on_where_it_ended_also_after_it_was_given_up(
    mq: RocketMqJob, operator: Operator
) -> None:
    shrunk(mq, operator)
    assert operator.retire("--accept-gap", "--execute")[0] == 0
    make_three(mq)
    assert mq.catch_up().exit_code == 0
    rows = [(offset, number) for key, offset, number in mq.rows() if key == "broker-a/1"]
    assert rows == [(0, 1), (1, 10)]
    assert_verified(mq.job())


def test_topic_that_is_away_with_its_broker_holds_the_hours_of_its_pattern(
    mq: RocketMqJob, operator: Operator
) -> None:
    one, two = f"{mq.topic}_a", f"{mq.topic}_b"
    for topic, broker in ((one, "broker-a"), (two, "broker-b")):
        mq.writer.create_topic(topic, {mq.endpoint.brokers[broker]: 1})
        mq.writer.send(mq.endpoint.brokers[broker], topic, 0, [row(0, SEVEN_MS)])
    text = _HOURS.replace("topics: [{topic}]", 'topics: "{topic}_."')
    mq = replace(mq, text=text.replace("run: {{", "run: {{discover_interval: 20s, "))
    assert mq.catch_up().exit_code == 0
    mq.writer.send(mq.endpoint.brokers["broker-b"], two, 0, [row(1, SEVEN_MS + 1)])
    mq.writer.send(mq.endpoint.brokers["broker-a"], one, 0, [row(2, SEVEN_MS + 2 * HOUR_MS)])
    mq.lab.kill_server("broker-b")
    mq.writer.drop(mq.endpoint.brokers["broker-b"])
    try:
        # The new driver has never heard of that topic.
        with driver(mq) as running:
            running.wait_until(lambda: len(mq.rows()) == 3, "rows of the topic that is there")
            running.wait_for_event("partitions_left_out")
            assert operator.left_out() == [f"{two}[broker-b/0]"]
            assert operator.ready() == []
            mq.lab.start_server("broker-b")
            mq.writer.send(mq.endpoint.brokers["broker-b"], two, 0, [row(3, SEVEN_MS + HOUR_MS)])
            running.wait_until(lambda: operator.ready() == [SEVEN], "an hour that is ready")
            assert len(mq.rows()) == 5
            # Seconds pass in which the broker is back and the list of topics is an old one.
            assert running.events("sources_pinned") == [], "it was given up and taken up again"
    finally:
        mq.lab.start_server("broker-b")
    assert_verified(mq.job())
