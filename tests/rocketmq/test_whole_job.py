"""A whole job on RocketMQ, tasks in threads: outages, queues added, tags, a topic made again."""

import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import Lab
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.driver_process import DriverProcess
from tools.rocketmq_job import RocketMqJob
from tools.rocketmq_writer import RocketMqWriter
from tools.table_proofs import assert_verified


@pytest.fixture
def mq(rocketmq_lab: Lab, rocketmq: RocketMqEndpoint, tmp_path: Path) -> Iterator[RocketMqJob]:
    writer = RocketMqWriter(rocketmq.name_server)
    yield RocketMqJob(rocketmq_lab, rocketmq, writer, f"mq_{uuid.uuid4().hex[:10]}", tmp_path)
    writer.close()


def test_job_reads_queues_of_both_brokers_and_those_that_are_added(mq: RocketMqJob) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(50), KEYS="k")
    mq.write("broker-b", 0, range(50, 60))
    assert mq.catch_up().exit_code == 0
    mq.make(2)
    mq.write("broker-a", 1, range(60, 65))
    mq.write("broker-b", 0, range(65, 70))
    assert mq.catch_up().exit_code == 0
    assert mq.rows() == [
        *[("broker-a/0", number, number) for number in range(50)],
        *[("broker-a/1", number, 60 + number) for number in range(5)],
        *[("broker-b/0", number, 50 + number) for number in range(10)],
        *[("broker-b/0", 10 + number, 65 + number) for number in range(5)],
    ]
    assert_verified(mq.job())


def test_job_goes_on_without_a_broker_that_is_away_and_misses_nothing(
    mq: RocketMqJob, capsys: pytest.CaptureFixture[str]
) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(20))
    mq.write("broker-b", 0, range(20, 30))
    assert mq.catch_up().exit_code == 0
    mq.write("broker-b", 0, range(30, 40))
    mq.lab.kill_server("broker-b")
    mq.writer.drop(mq.endpoint.brokers["broker-b"])
    try:
        with DriverProcess(mq.job(), mq.folder, module="tools.inline_driver") as driver:
            driver.wait_for_event("partitions_left_out")
            mq.write("broker-a", 0, range(40, 45))
            driver.wait_until(lambda: len(mq.rows()) == 35, "rows of the other broker")
            driver.wait_until(lambda: "left out" in mq.status(capsys), "a word in the status")
            shown = mq.status(capsys)
            assert f"left out: {mq.topic}[broker-b/0]: it is gone; rows from offset 10 on" in shown
            way_out = f"offsets retire {mq.job().path} --route {mq.topic} --partition"
            assert f"{way_out} {mq.topic}:broker-b/0 --reason TEXT`" in shown
            mq.lab.start_server("broker-b")
            driver.wait_until(lambda: len(mq.rows()) == 45, "all rows")
            driver.wait_until(lambda: "left out" not in mq.status(capsys), "a status without it")
            assert driver.events("route_halted") == []
    finally:
        mq.lab.start_server("broker-b")
    assert_verified(mq.job())


def test_run_to_the_end_waits_for_a_broker_that_is_away(mq: RocketMqJob) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(5))
    mq.write("broker-b", 0, range(5, 8))
    assert mq.catch_up().exit_code == 0
    mq.write("broker-a", 0, range(8, 10))
    mq.write("broker-b", 0, range(10, 12))
    mq.lab.kill_server("broker-b")
    mq.writer.drop(mq.endpoint.brokers["broker-b"])
    try:
        with DriverProcess(
            mq.job(), mq.folder, "--until-caught-up", module="tools.inline_driver"
        ) as driver:
            driver.wait_until(lambda: len(mq.rows()) == 10, "rows of the other broker")
            driver.wait_for_event("route_waits")
            mq.lab.start_server("broker-b")
            assert driver.wait().exit_code == 0
    finally:
        mq.lab.start_server("broker-b")
    assert len(mq.rows()) == 12
    assert_verified(mq.job())


def test_lines_that_are_sent_to_a_lab_are_rows_of_all_its_queues(mq: RocketMqJob) -> None:
    command = [sys.executable, "-m", "sluiceway.lab.rocketmq_lines", "--topic", mq.topic]
    command += ["--name-server", mq.endpoint.name_server, "--queues", "2"]
    for first in (0, 10):
        lines = "".join(f'{{"id": {number}}}\n' for number in range(first, first + 10))
        done = subprocess.run(command, input=lines, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"topic": mq.topic, "sent": 10}
    assert mq.catch_up().exit_code == 0
    rows = mq.rows()
    assert sorted(number for _, _, number in rows) == list(range(20))
    queues = {"broker-a/0": 6, "broker-a/1": 6, "broker-b/0": 4, "broker-b/1": 4}
    assert Counter(key for key, _, _ in rows) == queues


def test_half_messages_are_never_read_and_committed_ones_once_where_they_were_committed(
    mq: RocketMqJob,
) -> None:
    mq.make(1)
    address = mq.endpoint.brokers["broker-a"]
    halves = [
        mq.writer.send_half(address, mq.topic, 0, json.dumps({"id": number}).encode())
        for number in range(100, 104)
    ]
    mq.write("broker-a", 0, range(3))
    assert mq.catch_up().exit_code == 0
    assert [number for _, _, number in mq.rows()] == [0, 1, 2]
    mq.writer.end(halves[2], commit=True)
    mq.writer.end(halves[1], commit=False)
    mq.write("broker-a", 0, range(3, 5))
    mq.writer.end(halves[0], commit=True)
    assert mq.catch_up().exit_code == 0
    assert [(offset, number) for _, offset, number in mq.rows()] == [
        *((0, 0), (1, 1), (2, 2)),
        *((3, 102), (4, 3), (5, 4), (6, 100)),
    ]
    assert_verified(mq.job())


def test_job_with_tags_writes_their_messages_only(mq: RocketMqJob) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(5), TAGS="A")
    mq.write("broker-a", 0, range(5, 10), TAGS="B")
    mq.write("broker-a", 0, range(10, 12), TAGS="C")
    assert mq.catch_up(", tags: A || C").exit_code == 0
    assert [number for _, _, number in mq.rows()] == [0, 1, 2, 3, 4, 10, 11]


def test_preview_shows_rows_with_the_texts_of_their_queues(
    mq: RocketMqJob, capsys: pytest.CaptureFixture[str]
) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(2))
    assert run_command(["preview", str(mq.job().path), "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["partition"], row["offset"], row["values"]["_partition"]) for row in rows] == [
        ("broker-a/0", 0, "broker-a/0"),
        ("broker-a/0", 1, "broker-a/0"),
    ]


def test_topic_that_was_made_again_halts_the_job_also_when_it_is_longer(mq: RocketMqJob) -> None:
    mq.make(1)
    mq.write("broker-a", 0, range(5))
    assert mq.catch_up().exit_code == 0
    mq.writer.delete_topic(mq.topic, list(mq.endpoint.brokers.values()))
    # The broker forgets offsets of a topic that is gone a moment later.
    time.sleep(1)
    mq.make(1)
    mq.write("broker-a", 0, range(100, 110))
    ended = mq.catch_up()
    assert ended.exit_code == 7
    assert "SW455" in ended.stderr
    assert [number for _, _, number in mq.rows()] == list(range(5))
