"""Dirty rows of RocketMQ messages: through a Kafka connection of their own, and in a Hive table."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.lab.lab import Lab
from sluiceway.lab.rocketmq import BROKERS, RocketMqEndpoint
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.lake_orders import order
from tools.rocketmq_writer import RocketMqWriter
from tools.table_proofs import assert_verified, spark_sql

_JOB = """\
version: 1
name: {topic}
connections:
  mq: {{rocketmq: {{name_servers: ["{name_server}"]}}}}
  told: {{kafka: {{bootstrap_servers: "{kafka}"}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
source: {{connection: mq, topics: [{topic}], start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing}}
  columns: [{{name: id, type: bigint, required: true}}]
  partition_by: []
dirty: {{store: {store}}}
run: {{interval: 1s}}
"""


@pytest.fixture
def topic(rocketmq: RocketMqEndpoint) -> Iterator[str]:
    """One queue on each broker, each with an order and a message that is none."""
    writer = RocketMqWriter(rocketmq.name_server)
    topic = f"mq_{time.time_ns()}"
    writer.create_topic(topic, dict.fromkeys(rocketmq.brokers.values(), 1))
    for name in BROKERS:
        writer.send(rocketmq.brokers[name], topic, 0, [order(1), b"none"], properties={"KEYS": "k"})
    yield topic
    writer.close()


def _job(lab: Lab, topic: str, folder: Path, store: str) -> JobFile:
    ends = lab.endpoints()
    assert ends.rocketmq is not None
    path = folder / "job.yaml"
    path.write_text(
        _JOB.format(
            topic=topic,
            name_server=ends.rocketmq.name_server,
            kafka=ends.bootstrap_servers,
            metastore=ends.metastore_uri,
            store=store,
        )
    )
    return JobFile(path, f"ods.{topic}")


def _read_all(servers: str, topic: str) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reads-only",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(message)
    finally:
        consumer.close()
    return found


def test_dirty_rows_reach_a_topic_of_a_kafka_connection_with_their_queues_once(
    rocketmq_lab: Lab, topic: str, tmp_path: Path
) -> None:
    servers, target = rocketmq_lab.endpoints().bootstrap_servers, f"dirty_{topic}"
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(target, 1)])[target].result(30)
    job = _job(rocketmq_lab, topic, tmp_path, f"{{topic: {target}, connection: told}}")
    for _ in range(2):
        with DriverProcess(job, tmp_path, module="tools.inline_driver") as driver:
            driver.wait_until(lambda: len(_read_all(servers, target)) >= len(BROKERS), "rows fed")
            driver.kill_group()
            driver.wait()
    fed = _read_all(servers, target)
    told = [dict(message.headers() or []) for message in fed]
    assert sorted(each["sluiceway.partition"] for each in told) == [
        f"{name}/0".encode() for name in BROKERS
    ]
    assert [(m.key(), m.value()) for m in fed] == [(b"k", b"none")] * len(BROKERS)
    assert_verified(job)


def test_dirty_rows_reach_a_table_whose_source_partitions_are_texts(
    rocketmq_lab: Lab, topic: str, tmp_path: Path
) -> None:
    job = _job(rocketmq_lab, topic, tmp_path, f"{{table: ops.{topic}}}")
    with DriverProcess(job, tmp_path, module="tools.inline_driver") as driver:
        folder = rocketmq_lab.endpoints().warehouse / "ops.db" / topic
        driver.wait_until(lambda: list(folder.glob("day=*/*.parquet")), "a copy of a dirty file")
        driver.kill_group()
        driver.wait()
    with DriverProcess(job, tmp_path, "--until-caught-up", module="tools.inline_driver") as driver:
        assert driver.wait().exit_code == 0
    (rows,) = spark_sql(
        rocketmq_lab.endpoints().metastore_uri,
        f"SELECT `partition`, `offset`, reason FROM ops.{topic} ORDER BY 1",  # noqa: S608
    )
    assert rows == [[f"{name}/0", 1, "broken"] for name in BROKERS]
    assert_verified(job)
