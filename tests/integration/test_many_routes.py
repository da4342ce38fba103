"""Many routes in one job on a real broker and metastore; tasks run in threads, without Spark."""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sluiceway.cli.app import run_command
from sluiceway.errors import (
    JobFileError,
    OffsetsLostError,
    TableMismatchError,
    TableNotFoundError,
    TopicNotFoundError,
)
from sluiceway.ledger.records import PinnedPartition, SourcesRecord
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun, running
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

TIMEOUT_S = 120.0

MakeJob = Callable[..., RouteRun]


@pytest.fixture
def make_job(bootstrap_servers: str, metastore_uri: str, tmp_path: Path) -> MakeJob:
    def make(*routes: str, start: str = "earliest") -> RouteRun:
        job = write_routes(
            tmp_path,
            "\n".join(f"  - {route}" for route in routes),
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            start=start,
        )
        return RouteRun(job)

    return make


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


@pytest.fixture
def prefix() -> str:
    """Begins the names of one test's topics, so that a pattern matches these alone."""
    return f"m{uuid.uuid4().hex[:8]}"


def create(admin: AdminClient, *topics: str) -> None:
    """Make topics of one partition, and wait until the broker tells of them."""
    made = admin.create_topics([NewTopic(topic, num_partitions=1) for topic in topics])
    for future in made.values():
        future.result(TIMEOUT_S)

    def is_told(topic: str) -> bool:
        found = admin.list_topics(timeout=TIMEOUT_S).topics.get(topic)
        return found is not None and [p.leader >= 0 for p in found.partitions.values()] == [True]

    wait_for(lambda: all(is_told(topic) for topic in topics))


def commit_offsets(admin: AdminClient, offsets: ConsumerGroupTopicPartitions) -> None:
    """As a consumer of the group would; a young cluster has no coordinator for a while."""

    def committed() -> bool:
        (future,) = admin.alter_consumer_group_offsets([offsets]).values()
        try:
            future.result(TIMEOUT_S)
        except KafkaException:
            return False
        return True

    wait_for(committed)


def offsets(run: RouteRun) -> list[object]:
    """Offsets of the table's rows, in order; none before there is a route and its table."""
    try:
        return [offset for (offset,) in run.rows("_offset")]
    except (TableNotFoundError, JobFileError):
        return []


def pins(run: RouteRun) -> list[PinnedPartition]:
    bodies = [record.body for record in run.records()]
    return [pin for body in bodies if isinstance(body, SourcesRecord) for pin in body.partitions]


def starts(run: RouteRun) -> list[tuple[str, int, str]]:
    return [(pin.topic, int(pin.start), pin.how) for pin in pins(run)]


def test_listed_routes_and_a_pattern_fill_their_tables_in_one_job(
    make_job: MakeJob, writer: TopicWriter, admin: AdminClient, prefix: str
) -> None:
    topics = [
        f"{prefix}_{name}" for name in ("a", "b", "app_x", "app_y", "app_no-table", "ev1", "ev2")
    ]
    create(admin, *topics)
    for count, topic in enumerate(topics, start=1):
        writer.write(topic, [event(n) for n in range(count)])
    job = make_job(
        f"{{topics: [{prefix}_a], table: ods.{prefix}_a}}",
        f"{{topics: [{prefix}_b], table: {{hive: {{name: ods.{prefix}_b}}, partition_by: []}}}}",
        f'{{topics: "{prefix}_app_(.*)", table: "ods.{prefix}_app_{{1}}"}}',
        f'{{topics: "{prefix}_ev.", table: ods.{prefix}_ev, name: events-{prefix}}}',
    )
    job.catch_up()
    assert offsets(job.of(f"ods-{prefix}_a")) == [0]
    assert offsets(job.of(f"ods-{prefix}_b")) == [0, 1]
    assert job.of(f"ods-{prefix}_b").partitions() == {}
    assert offsets(job.of(f"ods-{prefix}_app_x")) == [0, 1, 2]
    assert offsets(job.of(f"ods-{prefix}_app_y")) == [0, 1, 2, 3]
    both = job.of(f"events-{prefix}")
    assert both.rows("_topic, _offset") == [
        (f"{prefix}_ev{k}", n) for k, count in ((1, 6), (2, 7)) for n in range(count)
    ]
    writer.write(topics[0], [event(9)])
    job.catch_up()
    assert offsets(job.of(f"ods-{prefix}_a")) == [0, 1]
    for name in ("a", "b", "app_x", "app_y"):
        job.of(f"ods-{prefix}_{name}").assert_verified()
    both.assert_verified()


def test_commands_ask_for_a_route_only_when_there_are_several(
    make_job: MakeJob,
    writer: TopicWriter,
    admin: AdminClient,
    prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(admin, f"{prefix}_a", f"{prefix}_b")
    writer.write(f"{prefix}_a", [event(0)])
    job = make_job(
        f"{{topics: [{prefix}_a], table: ods.{prefix}_a, name: a-{prefix}}}",
        f'{{topics: "{prefix}_b.*", table: "ods.{{0}}"}}',
    )
    file, names = str(job.job.path), [f"a-{prefix}", f"ods-{prefix}_b"]
    job.catch_up()

    def answer(*args: str) -> tuple[int, str, str]:
        code = run_command(args)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    code, out, _ = answer("verify", file, "-o", "json")
    found = json.loads(out)
    assert (code, found["verified"], [each["route"] for each in found["routes"]]) == (
        0,
        True,
        names,
    )
    assert found["routes"][0]["rows"] == 1
    code, out, _ = answer("verify", file)
    assert (code, out.splitlines()[-1]) == (0, "2 of 2 routes verified")
    code, out, _ = answer("verify", file, "--route", names[1], "-o", "json")
    assert (code, json.loads(out)["routes"][0]["rows"]) == (0, 0)
    code, out, _ = answer("ledger", "show", file, "--route", names[1])
    assert code == 0
    assert f"reads `{prefix}_b.*`, now {prefix}_b: {prefix}_b[0] earliest 0" in out
    code, _, err = answer("ledger", "show", file)
    assert code == 2
    assert f"choose one with --route: {', '.join(names)}" in err


def test_route_whose_table_has_another_format_leaves_the_others_alone(
    make_job: MakeJob, writer: TopicWriter, admin: AdminClient, metastore_uri: str, prefix: str
) -> None:
    create(admin, f"{prefix}_good", f"{prefix}_bad")
    for topic in (f"{prefix}_good", f"{prefix}_bad"):
        writer.write(topic, [event(n) for n in range(5)])
    job = make_job(
        f"{{topics: [{prefix}_bad], table: ods.{prefix}_bad}}",
        f"{{topics: [{prefix}_good], table: ods.{prefix}_good}}",
    )
    make_job(f"{{topics: [{prefix}_bad], table: ods.{prefix}_bad}}").catch_up()
    with raw_client(metastore_uri) as client:
        table = client.get_table("ods", f"{prefix}_bad")
        table.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
        client.alter_table("ods", f"{prefix}_bad", table)
    make_job(
        f"{{topics: [{prefix}_bad], table: ods.{prefix}_bad}}",
        f"{{topics: [{prefix}_good], table: ods.{prefix}_good}}",
    )
    with pytest.raises(TableMismatchError):
        # All others have caught up, so the one that has not is the job's outcome.
        job.catch_up()
    assert offsets(job.of(f"ods-{prefix}_good")) == list(range(5))


def test_table_dropped_in_mid_run_ends_only_its_route(
    make_job: MakeJob, writer: TopicWriter, admin: AdminClient, metastore_uri: str, prefix: str
) -> None:
    names = [f"{prefix}_{number}" for number in range(3)]
    create(admin, *names)
    job = make_job(*(f"{{topics: [{name}], table: ods.{name}}}" for name in names))
    others = [job.of(f"ods-{name}") for name in names[1:]]
    for name in names:
        writer.write(name, [event(0)])
    with running(job) as ended:
        wait_for(lambda: all(offsets(job.of(f"ods-{name}")) == [0] for name in names))
        with raw_client(metastore_uri) as client:
            client.drop_table("ods", names[0], deleteData=False)
        for name in names:
            writer.write(name, [event(1, ts_ms=1_795_200_000_000)])
        wait_for(lambda: all(offsets(other) == [0, 1] for other in others))
        for name in names[1:]:
            writer.write(name, [event(2)])
        wait_for(lambda: all(offsets(other) == [0, 1, 2] for other in others))
    assert ended == []
    for other in others:
        other.assert_verified()


def test_topics_that_come_while_it_runs_get_their_rows_from_the_first_on(
    make_job: MakeJob,
    writer: TopicWriter,
    admin: AdminClient,
    bootstrap_servers: str,
    prefix: str,
) -> None:
    job = make_job(
        f'{{topics: "{prefix}_own_(.*)", table: "ods.{prefix}_{{1}}"}}',
        f'{{topics: "{prefix}_all.*", table: ods.{prefix}_all}}',
        start="latest",
    )
    together = job.of(f"ods-{prefix}_all")
    create(admin, f"{prefix}_all1")
    writer.write(f"{prefix}_all1", [event(0)])
    with running(job) as ended:
        # There before the route: begins at the end, as `start` says.
        wait_for(lambda: _is_pinned(together, f"{prefix}_all1"))
        writer.write(f"{prefix}_all1", [event(1)])
        create(admin, f"{prefix}_all2", f"{prefix}_own_x")
        for topic in (f"{prefix}_all2", f"{prefix}_own_x"):
            writer.write(topic, [event(n) for n in range(3)])
        wait_for(lambda: offsets(together) == [0, 1, 1, 2])
        wait_for(lambda: offsets(job.of(f"ods-{prefix}_x")) == [0, 1, 2])
        grown = admin.create_partitions([NewPartitions(f"{prefix}_own_x", 2)])
        grown[f"{prefix}_own_x"].result(TIMEOUT_S)
        # A producer of its own: the other one does not know the new partition yet.
        TopicWriter(bootstrap_servers).write(f"{prefix}_own_x", [event(7)], partition=1)
        wait_for(lambda: offsets(job.of(f"ods-{prefix}_x")) == [0, 0, 1, 2])
        admin.delete_topics([f"{prefix}_all2"])[f"{prefix}_all2"].result(TIMEOUT_S)
        wait_for(lambda: any(pin.retired for pin in pins(together)))
        writer.write(f"{prefix}_all1", [event(2)])
        wait_for(lambda: offsets(together) == [0, 1, 1, 2, 2])
    assert ended == []
    assert starts(together) == [
        (f"{prefix}_all1", 1, "latest"),
        (f"{prefix}_all2", 0, "discovered"),
        (f"{prefix}_all2", 3, "retired"),
    ]
    assert starts(job.of(f"ods-{prefix}_x"))[0] == (f"{prefix}_own_x", 0, "earliest")
    assert starts(job.of(f"ods-{prefix}_x"))[1] == (f"{prefix}_own_x", 0, "discovered")
    together.assert_verified()


def _is_pinned(run: RouteRun, topic: str) -> bool:
    try:
        return topic in [pin.topic for pin in pins(run)]
    except TableNotFoundError:
        return False


def test_starts_by_time_by_offsets_and_by_a_consumer_group(
    make_job: MakeJob,
    writer: TopicWriter,
    admin: AdminClient,
    new_topic: TopicFactory,
    prefix: str,
) -> None:
    topic = new_topic(2)
    for number in range(6):
        writer.write_record(topic, event(number), timestamp_ms=1_795_161_600_000 + number * 1000)
    writer.write(topic, [event(n) for n in range(4)], partition=1)
    group = f"flink-{prefix}"
    taken = [TopicPartition(topic, 0, 4)]
    commit_offsets(admin, ConsumerGroupTopicPartitions(group, taken))
    at = datetime.fromtimestamp(1_795_161_602, UTC).isoformat()

    def route(name: str, start: str) -> str:
        return f"{{topics: [{topic}], table: ods.{prefix}_{name}, source: {{start: {start}}}}}"

    job = make_job(
        route("time", f'{{timestamp: "{at}"}}'),
        route("offsets", f"{{offsets: {{{topic}: {{1: 3}}}}}}"),
        route("group", f"{{group: {group}}}"),
        route("lost", f"{{offsets: {{{topic}: {{0: 99}}}}}}"),
    )
    with pytest.raises(OffsetsLostError, match=rf"{topic}\[0\]: .*99, the log runs from 0 to 6"):
        job.catch_up()
    by_time = job.of(f"ods-{prefix}_time")
    assert [(start, how) for _, start, how in starts(by_time)] == [
        (2, "timestamp"),
        (0, "timestamp"),
    ]
    by_offsets = job.of(f"ods-{prefix}_offsets")
    assert [(start, how) for _, start, how in starts(by_offsets)] == [
        (0, "earliest"),
        (3, "offsets"),
    ]
    assert by_offsets.rows() == [(0, n) for n in range(6)] + [(1, 3)]
    by_group = job.of(f"ods-{prefix}_group")
    assert by_group.rows() == [(0, 4), (0, 5)] + [(1, n) for n in range(4)]
    assert [how for _, _, how in starts(by_group)] == ["group", "earliest"]
    by_group.assert_verified()


def test_job_whose_pattern_matches_nothing_ends_when_bounded_and_waits_otherwise(
    make_job: MakeJob, writer: TopicWriter, admin: AdminClient, prefix: str
) -> None:
    job = make_job(f'{{topics: "{prefix}_(.*)", table: "ods.{prefix}_{{1}}"}}')
    job.catch_up()
    with running(job) as ended:
        create(admin, f"{prefix}_x")
        writer.write(f"{prefix}_x", [event(n) for n in range(3)])
        wait_for(lambda: offsets(job) == [0, 1, 2])
    assert ended == []


def test_listed_topic_that_is_gone_halts_its_route_and_a_recreated_one_of_a_pattern_too(
    make_job: MakeJob, writer: TopicWriter, admin: AdminClient, prefix: str
) -> None:
    topics = [f"{prefix}_{name}" for name in ("listed", "like", "well")]
    create(admin, *topics)
    for topic in topics:
        writer.write(topic, [event(0)])
    job = make_job(
        f"{{topics: [{topics[0]}], table: ods.{topics[0]}}}",
        f'{{topics: "{prefix}_lik.", table: ods.{topics[1]}}}',
        f"{{topics: [{topics[2]}], table: ods.{topics[2]}}}",
    )
    job.catch_up()
    for future in admin.delete_topics(topics[:2]).values():
        future.result(TIMEOUT_S)
    writer.write(topics[2], [event(1)])
    with pytest.raises(TopicNotFoundError, match=topics[0]):
        job.catch_up()
    wait_for(lambda: topics[1] not in admin.list_topics(timeout=TIMEOUT_S).topics)
    create(admin, topics[1])
    make_job(f'{{topics: "{prefix}_lik.", table: ods.{topics[1]}}}')
    with pytest.raises(OffsetsLostError, match="deleted and created again"):
        job.catch_up()
    make_job(f"{{topics: [{topics[2]}], table: ods.{topics[2]}}}")
    assert offsets(job) == [0, 1]
