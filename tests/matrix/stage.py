"""What the cells share: servers, topics with every kind of record, job files, the judge."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from pymetastore.hive_metastore import ttypes

from matrix import hours, keyed, queues
from matrix.rules import QUEUES, Scene
from matrix.stores import moved_onto, seen_locally
from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows
from sluiceway.cli.views.dirty_lanes import choose
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.lane_records import PURGE, REPLAY
from sluiceway.ledger.log import LedgerLog
from sluiceway.route.clients import open_sink
from sluiceway.upkeep.requests import put_request, read_requests
from tools.independent_reader import BrokerRecord, Report, broker_records, check, table_view
from tools.job_files import COLUMNS, JobFile, event
from tools.raw_metastore import raw_client
from tools.receiving import HookServer
from tools.route_runs import RouteRun
from tools.row_oracle import Expectation
from tools.stores_under_test import StoreUnderTest
from tools.topic_writer import TopicWriter

FIRST = "faults_first"
SECOND = "faults_second"
LANES = "faults_lanes"
STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")
_TIMEOUT_S = 180.0
_HOUR_MS = 3_600_000
_EIGHT_MS = 1_795_161_600_000
_EXPECTATION = Expectation(required=frozenset({"id", "ts"}), tombstones="skip")


@dataclass(slots=True)
class Stage:
    """The lab with filled topics. Cells read them, each into a table of its own.

    Attributes:
        hook: Told of hours, by all cells that have some.
        store: Where the tables lie; None for the metastore's own folder.
        database: Rows whose changes the keyed topics tell.
        messages: Of the topics of RocketMQ, by topic, queue and offset.
    """

    endpoints: LabEndpoints
    hook: HookServer
    store: StoreUnderTest | None = None
    records: dict[str, list[BrokerRecord]] = field(default_factory=dict)
    database: list[tuple[object, ...]] = field(default_factory=list)
    messages: dict[queues.Key, bytes] = field(default_factory=dict)

    def fill_queues(self) -> None:
        """Make the topics of RocketMQ alone."""
        assert self.endpoints.rocketmq is not None
        self.messages = queues.fill(self.endpoints.rocketmq)

    def fill(self) -> None:
        """Make the topics: clean, dirty and deleted rows, transactions, aborts, holes."""
        admin = AdminClient({"bootstrap.servers": self.endpoints.bootstrap_servers, "log_level": 0})
        for topic, partitions in ((FIRST, 3), (SECOND, 2), (LANES, 1), *hours.TOPICS):
            new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
            admin.create_topics([new])[topic].result(_TIMEOUT_S)
        writer = TopicWriter(self.endpoints.bootstrap_servers)
        # A hole at the very start of a split is read a second time.
        writer.abort(FIRST, _rows(range(5)))
        writer.commit(FIRST, _rows(range(5, 25)))
        writer.abort(FIRST, _rows(range(25, 28)))
        writer.commit(FIRST, _rows(range(28, 60)))
        for partition in (1, 2):
            writer.write(FIRST, [*_rows(range(60), hour=partition), None], partition=partition)
        for partition in range(2):
            writer.write(SECOND, _rows(range(40), hour=partition + 2), partition=partition)
        writer.write(LANES, _unlike_the_job_file(range(40)))
        hours.fill(writer)
        self.database = keyed.fill(self.endpoints)
        for topic in (FIRST, SECOND, LANES, hours.FIRST, hours.SECOND):
            self.records[topic] = list(broker_records(self.endpoints.bootstrap_servers, [topic]))

    def write_job(
        self, folder: Path, name: str, scene: Scene, *, both: bool, strict: bool = False
    ) -> Path:
        """The cell's job file; `both` adds the second topic to it.

        With `strict` it is that of the driver before: rows are dirty, or hours stay open.
        """
        path = folder / "job.yaml"
        if scene is Scene.HOURS:
            text = hours.job_text(
                self.endpoints, name, self.hook, _lineage(path), both=both, before=strict
            )
            path.write_text(moved_onto(text, name, self.store))
            return path
        if scene is Scene.KEYED:
            path.write_text(keyed.job_text(self.endpoints, name, path, both=both))
            return path
        if scene in QUEUES:
            by_time = scene is Scene.QUEUES_BY_TIME
            path.write_text(queues.job_text(self.endpoints, name, both=both, by_time=by_time))
            return path
        topics = ", ".join(self.topics(scene, both=both))
        pattern = f'"{FIRST[:-1]}[{FIRST[-1]}]"'
        source = f"topics: {pattern if scene is Scene.PATTERN else f'[{topics}]'}"
        start = f"{{group: {name}}}" if scene is Scene.GROUP else "earliest"
        text = f"""\
version: 1
name: {name}
connections:
  main: {{kafka: {{bootstrap_servers: "{self.endpoints.bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{self.endpoints.metastore_uri}"}}}}
source: {{connection: main, {source}, start: {start}}}
format: {{json: {{tombstones: skip}}}}
table:
  hive: {{connection: hms, name: {name}.t}}
  columns:
{STRICT if strict else COLUMNS}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms}}
run: {{interval: 0.5s, master: "local[2]"}}
"""
        path.write_text(moved_onto(text, name, self.store))
        return path

    def topics(self, scene: Scene, *, both: bool) -> list[str]:
        """What a job of this scene reads."""
        if scene is Scene.HOURS:
            return [hours.FIRST, hours.SECOND] if both else [hours.FIRST]
        first = LANES if scene is Scene.LANE else FIRST
        return [first, SECOND] if both and scene is not Scene.PATTERN else [first]

    def prepare(self, job: Path, name: str, scene: Scene) -> None:
        """Set the scene in the metastore, or among the requests."""
        if scene is Scene.TRUSTED:
            self._trust_a_partition(job)
        if scene is Scene.LANE:
            _ask_for_lanes(_run_of(job, name).log())

    def judge(self, name: str, scene: Scene, job: Path) -> Report:
        """The independent reader's verdict on the cell's table."""
        if scene is Scene.KEYED:
            return keyed.judge(job, self.database)
        if scene in QUEUES:
            view = table_view(self.endpoints.metastore_uri, database=name, table="t")
            return queues.judge(view, self.messages)
        with seen_locally(name, self.store) as at:
            return self._judge(name, scene, job, at)

    def _judge(self, name: str, scene: Scene, job: Path, at: tuple[str, Path] | None) -> Report:
        view = table_view(self.endpoints.metastore_uri, database=name, table="t", at=at)
        topics = self.topics(scene, both=True)
        records = [r for topic in topics for r in hours.expected(topic, self.records[topic])]
        if scene is Scene.LANE:
            _check_requests(_run_of(job, name).log())
        if scene is Scene.HOURS:
            self.hours(name, job).check(self.endpoints.bootstrap_servers)
        return check(records, view, _EXPECTATION)

    def hours(self, name: str, job: Path) -> hours.Hours:
        """Those of a cell's table, which is there."""
        run = _run_of(job, name)
        return hours.Hours(run, run.log(), self.hook, _lineage(job))

    def _trust_a_partition(self, job: Path) -> None:
        """A partition that somebody made before, with statistics that Hive would believe."""
        config = compile_route(load_job(job).spec.routes[0])
        sink = open_sink(config)
        sink.open()
        sink.close()
        with raw_client(self.endpoints.metastore_uri) as client:
            table = client.get_table(config.table.database, config.table.table)
            values = ["20261120", "08"]
            storage: Any = table.sd
            storage.location = f"{storage.location}/dt={values[0]}/hr={values[1]}"
            trust = {"COLUMN_STATS_ACCURATE": json.dumps({"BASIC_STATS": "true"})}
            client.add_partition(
                ttypes.Partition(
                    values=values,
                    dbName=config.table.database,
                    tableName=config.table.table,
                    createTime=0,
                    lastAccessTime=0,
                    sd=storage,
                    parameters=trust,
                )
            )


def _rows(span: range, *, hour: int = 0) -> list[bytes]:
    """One broken row in five."""
    return [event(n, ts_ms=_EIGHT_MS + hour * _HOUR_MS) if n % 5 else b"{%d" % n for n in span]


def _unlike_the_job_file(span: range) -> list[bytes]:
    """One row in four has no city, which a strict job file asks for; one in five is broken."""
    return [event(n, city=None if n % 4 == 1 else "Berlin") if n % 5 else b"{%d" % n for n in span]


def _run_of(job: Path, name: str) -> RouteRun:
    return RouteRun(JobFile(job, f"{name}.t"))


def _ask_for_lanes(log: LedgerLog) -> None:
    """A replay of rows that are whole by now and of broken ones, a purge, and what cannot be."""
    rows = DirtyRows.read(log)
    early, late = (frozenset(range(20)), frozenset(range(20, 40)))
    replay = choose(rows, DirtyFilter(offsets=early)).request(rows, REPLAY, "cell", "repaired")
    again = choose(rows, DirtyFilter(fields=frozenset({"city"}), offsets=late))
    second = again.request(rows, REPLAY, "cell", "repaired too")
    broken = choose(rows, DirtyFilter(offsets=frozenset({25}))).request(rows, PURGE, "cell", "")
    unknown = replace(
        broken, ranges=tuple(replace(r, source=f"{r.source}x") for r in broken.ranges)
    )
    asked = (replay, second, broken, unknown)
    assert all(each.ranges for each in asked), asked
    for each in asked:
        put_request(log.storage, log.layout, each)


def _check_requests(log: LedgerLog) -> None:
    """All requests were taken away; lanes are open no more, and none was opened for nothing."""
    left = [letter.name for letter in read_requests(log.storage, log.layout)]
    lanes = log.fold().lanes.lanes.values()
    assert left == [], f"requests are left: {left}"
    assert sorted(each.kind for each in lanes) == [PURGE, REPLAY, REPLAY], lanes
    assert all(each.finished for each in lanes), lanes


def _lineage(job: Path) -> Path:
    # All drivers of a cell share it; each has a folder of its own.
    return job.parent.with_name("lineage.jsonl")
