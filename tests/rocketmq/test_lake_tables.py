"""RocketMQ into Iceberg: text keys of source partitions in the table and its snapshots; kills."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluiceway.lab.rocketmq import BROKERS, RocketMqEndpoint
from tools.canal_source import CANAL_COLUMNS, CanalSource
from tools.driver_kills import drive, drive_until_killed
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.rocketmq_writer import RocketMqWriter

MakeJob = Callable[..., LakeJob]


@pytest.fixture
def mq_writer(rocketmq: RocketMqEndpoint) -> Iterator[RocketMqWriter]:
    writer = RocketMqWriter(rocketmq.name_server)
    yield writer
    writer.close()


@pytest.fixture
def topic() -> str:
    return f"mq_{uuid.uuid4().hex[:10]}"


@pytest.fixture
def make_job(rocketmq: RocketMqEndpoint, topic: str, tmp_path: Path) -> MakeJob:
    def make(**changes: str) -> LakeJob:
        main = f'rocketmq: {{name_servers: ["{rocketmq.name_server}"]}}'
        return write_lake_job(tmp_path, main=main, topic=topic, **changes)

    return make


@pytest.mark.parametrize(("point", "hit"), [("lake.send.reply", 1), ("publish.file", 2)])
def test_every_message_is_in_the_table_once_after_a_kill_with_its_queue_as_text(
    make_job: MakeJob,
    mq_writer: RocketMqWriter,
    rocketmq: RocketMqEndpoint,
    topic: str,
    point: str,
    hit: int,
) -> None:
    job = make_job()
    places = [(broker, queue) for broker in BROKERS for queue in range(2)]
    mq_writer.create_topic(topic, dict.fromkeys(rocketmq.brokers.values(), 2))
    wanted = []
    for start in (0, 40):
        ids = range(start, start + 40)
        for broker, queue in places:
            address = rocketmq.brokers[broker]
            mq_writer.send_many(address, topic, queue, [order(n) for n in ids])
            wanted += [(f"{broker}/{queue}", n, n) for n in ids]
        drive_until_killed(job, job.folder / f"marks-{start}", point, hit)
        assert drive(job) == 0
        assert job.rows("_source_partition", "_offset", "id") == sorted(wanted)
    report = job.verified()
    assert [str(each) for each in report.problems] == []
    assert (report.rows, report.foreign, len(report.unchecked)) == (len(wanted), [], 1)
    # A snapshot tells the ends of the queues that moved since the one before.
    ends: dict[str, int] = {}
    for snapshot in job.load().metadata.snapshots:
        assert snapshot.summary is not None
        told = json.loads(snapshot.summary.additional_properties["sluiceway.offsets"])
        ends |= told[topic]
    assert ends == {f"{broker}/{queue}": 80 for broker, queue in places}


def test_a_keyed_table_equals_the_database_that_canal_tells_of_after_kills(
    make_job: MakeJob, mq_writer: RocketMqWriter, rocketmq: RocketMqEndpoint, topic: str
) -> None:
    job = make_job(
        columns=CANAL_COLUMNS,
        partition_by="[{column: city}]",
        payload="canal: {other_messages: skip, table: shop.orders}",
        key="key: [id]\n  key_order: one_partition",
    )
    address = rocketmq.brokers[BROKERS[0]]
    mq_writer.create_topic(topic, {address: 1})
    source = CanalSource(47)
    for point in ("lake.placed", "lake.send.reply"):
        source.statements(120)
        log = source.take()[0]
        mq_writer.send_many(address, topic, 0, [body for _, body in log if body is not None])
        drive_until_killed(job, job.folder / f"marks-{point}", point)
        assert drive(job) == 0
        found = job.rows("id", "name", "amount", "city", "_source_partition")
        assert [(r[0], r[1], str(r[2]), r[3]) for r in found] == source.wanted()
        assert {row[4] for row in found} == {f"{BROKERS[0]}/0"}
    report = job.verified()
    assert ([str(each) for each in report.problems], len(report.unchecked)) == ([], 1)
