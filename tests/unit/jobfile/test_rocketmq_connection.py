"""The block of a RocketMQ connection: what it gives the source, and what it refuses."""

import re
from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.compile import compile_route, compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import load_job
from sluiceway.sources.rocketmq.frames import Credentials
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.side_topics import SideTopic

JOB = """\
version: 1
name: app
connections:
  mq: {rocketmq: BLOCK}
  hms: {metastore: {uri: "thrift://m:9083"}}
source: {connection: mq, topics: [orders], start: {offsets: {orders: {broker-a/0: 12}}}}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
  meta: [partition]
dirty: DIRTY
"""


def written(folder: Path, block: str, dirty: str = "{}") -> Path:
    path = folder / "job.yaml"
    path.write_text(JOB.replace("BLOCK", block).replace("DIRTY", dirty))
    return path


def routes(path: Path) -> tuple[RouteConfig, ...]:
    return compile_routes(load_job(path).spec).routes


def test_block_becomes_options_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQ_SECRET", "hidden")
    block = (
        "{name_servers: [a:1, b:2], tls: {verify: false}, "
        'acl: {access_key: k, secret_key: "${env:MQ_SECRET}"}, tags: "A || B", record_time: born}'
    )
    job = load_job(written(tmp_path, block))
    route = compile_route(job.spec.routes[0])
    assert route.source.kind == "rocketmq"
    found = read_options(dict(route.source.options))
    assert (found.name_servers, found.credentials) == (("a:1", "b:2"), Credentials("k", "hidden"))
    assert found.tls is not None
    assert found.tls.verify is False
    assert (found.tags, found.record_time) == (frozenset({b"A", b"B"}), "born")
    assert route.start.offsets == (("orders", "broker-a/0", 12),)
    assert [column.kind for column in route.meta] == ["partition_text"]
    assert "hidden" not in repr((route.source, found))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("{name_servers: []}", "at least one name server"),
        ("{name_servers: [a]}", "`host:port` of a name server"),
        ("{}", "name_servers"),
        ("{name_servers: [a:1], acl: {access_key: k}}", "secret_key"),
        ("{name_servers: [a:1], record_time: now}", "record_time|'stored' or 'born'|stored"),
        ("{name_servers: [a:1], group: g}", "group"),
    ],
)
def test_wrong_block_is_told(tmp_path: Path, block: str, why: str) -> None:
    with pytest.raises(JobFileError, match=why):
        load_job(written(tmp_path, block))


def test_dirty_rows_beside_rocketmq_go_to_a_table_or_through_a_kafka_connection(
    tmp_path: Path,
) -> None:
    (route,) = routes(written(tmp_path, "{name_servers: [a:1]}", "{store: {table: ods.dirty}}"))
    assert (route.dirty_table, route.dirty_topic) == ("ods.dirty", None)
    path = written(tmp_path, "{name_servers: [a:1]}", "{store: {topic: dirty, connection: k}}")
    text = path.read_text()
    path.write_text(
        text.replace("connections:", 'connections:\n  k: {kafka: {bootstrap_servers: "b:1"}}')
    )
    (route,) = routes(path)
    assert route.dirty_topic == SideTopic((("bootstrap.servers", "b:1"),), "dirty")
    # Another cluster's topic of the same name is not the one that is read.
    path.write_text(path.read_text().replace("topic: dirty,", "topic: orders,"))
    assert routes(path)[0].dirty_topic is not None


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("{topic: dirty}", "`connection` with a source that is not Kafka"),
        ("{topic: dirty, connection: mq}", "name of a Kafka connection, got "),
        ("{topic: dirty, connection: none}", "name of a Kafka connection, got "),
        ("{table: ods.dirty, connection: mq}", "`connection` with a topic only"),
    ],
)
def test_topic_of_dirty_rows_without_a_kafka_connection_is_told(
    tmp_path: Path, store: str, why: str
) -> None:
    path = written(tmp_path, "{name_servers: [a:1]}", f"{{store: {store}}}")
    with pytest.raises(JobFileError, match=re.escape(why)):
        load_job(path)


@pytest.mark.parametrize("block", ["kafka", "counts"])
def test_announcements_and_counts_beside_rocketmq_name_a_kafka_connection(
    tmp_path: Path, block: str
) -> None:
    path = written(tmp_path, "{name_servers: [a:1]}")
    with path.open("a") as file:
        file.write(f"ready: {{{block}: {{topic: told}}}}\n")
    with pytest.raises(JobFileError, match="`connection` with a source that is not Kafka"):
        load_job(path)


@pytest.mark.parametrize("name", ["%DLQ%billing", "%RETRY%billing", "MQ_INST_7%orders", "a|b-c_d"])
def test_names_with_namespaces_are_topics_of_rocketmq_alone(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, "{name_servers: [a:1]}")
    path.write_text(
        path.read_text().replace("[orders]", f'["{name}"]').replace("{orders: {", f'{{"{name}": {{')
    )
    (route,) = routes(path)
    assert route.subscription.topics == (name,)
    kafka = path.read_text().replace(
        "{rocketmq: {name_servers: [a:1]}}", '{kafka: {bootstrap_servers: "a:1"}}'
    )
    path.write_text(kafka)
    with pytest.raises(JobFileError, match="a topic name of letters, digits"):
        load_job(path)
