"""A route's session on a local disk, with a table and a source of a few lines: no server, no tasks.

A test plays the tasks: it stages files itself and hands the session what they would answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.records import RowCounts
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
from sluiceway.route import takeover
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.sinks.contract import (
    DesiredPartition,
    ParkedPartition,
    TableIdentity,
    TableSink,
    TableState,
)
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import SplitResult, TaskResult

ONE = SourcePartition("orders", 0)
_JOB = b"""\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
  hms: {metastore: {uri: "thrift://127.0.0.1:1"}}
source: {connection: main, topics: [orders], start: earliest}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""
_SCHEMA = Schema((Field(name="id", type=parse_hive_type("bigint"), required=False, path=()),))


class DiskTable(TableSink):
    """A table without partitions, whose metastore is this object."""

    def __init__(self, folder: Path) -> None:
        identity = TableIdentity("thrift://m:1", "ods", "orders", 7, str(folder))
        self.state = TableState(identity, _SCHEMA, (), None)

    def open(self) -> TableState:
        return self.state

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        self.state = replace(self.state, ledger=ledger)

    def move_ledger(self, state: TableState, held: str, ledger: str) -> None:
        assert self.state.ledger == held
        self.state = replace(self.state, ledger=ledger)

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        return ()

    def close(self) -> None:
        return


@dataclass
class SmallSource(SourceClient):
    """One topic, as a rule of one partition.

    Attributes:
        place: Where its log begins and ends now.
        topic_id: Of the topic that has the name now.
        rest: Its other partitions, with their logs.
        silent: Partitions of which no leader answers now.
        held: What copies of them have.
        away: Partitions that may come back with their whole topic.
    """

    place: LogBounds
    topic_id: str = "t1"
    rest: dict[SourcePartition, LogBounds] = field(default_factory=dict)
    silent: frozenset[SourcePartition] = frozenset()
    held: dict[SourcePartition, LogBounds] = field(default_factory=dict)
    away: frozenset[SourcePartition] = frozenset()
    reported: dict[SourcePartition, int] = field(default_factory=dict)

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        identity = SourceIdentity("c1", self.topic_id)
        return tuple(DiscoveredPartition(one, identity, None) for one in (ONE, *self.rest))

    def list_topics(self) -> tuple[str, ...]:
        return (ONE.topic,)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        places = {ONE: self.place, **self.rest}
        led = {one: places[one] for one in partitions if one not in self.silent}
        if not led:
            raise SourceUnavailableError("no leader", where=str(partitions[0]))
        return led

    def copies(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        return {one: self.held[one] for one in partitions if one in self.held}

    def gone(self, partitions: Sequence[SourcePartition]) -> frozenset[SourcePartition]:
        return frozenset(partitions) - self.away

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        return dict.fromkeys(partitions, self.place.end_offset)

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        self.reported.update(ends)

    def close(self) -> None:
        return


class SessionOnDisk:
    """A session that was started, and the tasks that a test plays."""

    def __init__(self, session: RouteSession, source: SmallSource) -> None:
        self.session = session
        self.source = source

    @property
    def owned(self) -> OwnedLedger:
        """The ledger that it holds."""
        return self.session.state.owned

    def view(self) -> SourceView:
        """What the brokers say now."""
        return read_source_view(self.source, [ONE.topic])

    def plan(self) -> PlannedEpoch:
        """Pin what has to be, and plan the next epoch, for one task."""
        view = self.view()
        self.session.committer.pin(self.session.planner.due_sources(view), view)
        planned = self.session.planner.plan(view, bounded=False)
        assert planned is not None
        planned.by_task = {0: tuple(planned.splits)}
        return planned

    def answer(self, planned: PlannedEpoch, end: int) -> TaskResult:
        """What its task would answer that has read up to `end`, its one file staged."""
        (split,) = (each.split for each in planned.by_task[0])
        route, rows = planned.route, end - split.start_offset
        attempt = f"{route.term}-{planned.epoch}-{uuid4().hex}"
        name = f"orders-{route.term}-{planned.epoch}-0-{uuid4().hex}.parquet"
        storage, folder = self.owned.storage, route.layout.attempt(attempt)
        storage.make_folders(folder)
        writer = storage.create_staged(f"{folder}/{name}")
        writer.handle().write(b"row\n" * rows)
        seal = writer.seal()
        size, no = BigInt(seal.size_bytes), BigInt(0)
        file = FileRecord(f"{attempt}/{name}", name, (), BigInt(rows), size, seal.crc32c, {})
        span = SplitResult(
            *(split.partition.topic, split.partition.partition),
            *(BigInt(split.start_offset), BigInt(end)),
            rows=BigInt(rows),
            gaps=no,
            end_epoch=None,
            max_event_time_us=None,
            offset_sum="0" * 32,
        )
        return TaskResult(
            *(route.ledger, route.term, planned.epoch, 0, attempt, (span,), (file,), ()),
            counts=RowCounts(BigInt(rows), BigInt(rows), no, no, no, no),
            dirty_reasons={},
            timings_ms={},
            consumer_reused=False,
            failure=None,
        )

    def finish(self, planned: PlannedEpoch, *answers: TaskResult) -> None:
        """Hand the answers to the session, with what the brokers say now."""
        self.session.planner.set_written(planned)
        self.session.committer.commit_epoch(planned, answers, self.view())

    def run_epoch(self, end: int) -> None:
        """A whole epoch in which all goes well."""
        planned = self.plan()
        self.finish(planned, self.answer(planned, end))

    def run_one(self, partition: SourcePartition, end: int) -> None:
        """An epoch in which one partition alone is read."""
        planned = self.plan()
        only = [each for each in planned.splits if each.split.partition == partition]
        planned.by_task = {0: tuple(only)}
        self.finish(planned, self.answer(planned, end))


@contextmanager
def session_on_disk(  # noqa: PLR0913 - a test names what it changes
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    storage: LocalStorage | None = None,
    table: DiskTable | None = None,
    ready: ReadyRule | None = None,
    rooms: RoomRule | None = None,
    *,
    observe: Observer = ignore_step,
) -> Iterator[SessionOnDisk]:
    """A started session of a table in a folder; it is left at the end.

    Args:
        folder: Of the table.
        monkeypatch: Gives the session its storage.
        storage: The store to use; None for a plain one.
        table: As another session has left it; None for a new one.
        ready: Who receives announcements.
        rooms: The job's rooms.
        observe: Called at each step.
    """
    (config,) = compile_routes(parse_job(_JOB, Path("job.yaml"), {}).spec).routes
    config = replace(config, ready=ready, rooms=rooms)
    opened = storage or LocalStorage()
    monkeypatch.setattr(takeover, "open_storage", lambda *_: (opened, str(folder)))
    source, log = SmallSource(LogBounds(0, 10, 10)), stderr_log()
    parts = RouteParts(source, table or DiskTable(folder), log, observe, Progress())
    session = RouteSession(config, parts)
    session.start()
    try:
        yield SessionOnDisk(session, source)
    finally:
        session.leave()
