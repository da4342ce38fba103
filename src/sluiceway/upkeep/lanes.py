"""Lanes of one route while its driver lives: requests are taken in, rows read once more.

Everything goes through the driver's one ordered writer, between epochs of the stream (rule 14,
P8). An epoch of a lane is short. It runs on an executor where there are several, else in the
driver's own process. A lane that cannot be read or written waits, and the stream goes on.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile

from sluiceway.errors import (
    FileLostError,
    InvariantError,
    LedgerCorruptError,
    Retriable,
    SchemaRegistryRefusedError,
    SluicewayError,
    SourceAgainError,
    SourceEmptiedError,
    SourceOrderError,
    StorageUnavailableError,
    TaskFailedError,
    UnknownOutcome,
)
from sluiceway.ledger.data_parts import TablePin
from sluiceway.ledger.dirty_files import CommittedDirty, find_lane_files
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_lanes import check_opening, source_kind
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    PURGE,
    LaneCounts,
    LaneDataRecord,
    LaneRange,
    LaneSpan,
)
from sluiceway.ledger.lane_state import LaneState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.placing import placed_lane
from sluiceway.ledger.records import NO_ROWS, FilesRecord
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.observe.steps import Observer, Step
from sluiceway.schedule.sql_engine import TransformedEpoch
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sinks.files.field_ids import FIELD_IDS
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_requests import UpkeepRequest
from sluiceway.upkeep.requests import (
    MOST_RANGES,
    LaneRequest,
    RequestFile,
    drop_answers,
    put_answer,
    read_requests,
)
from sluiceway.work.request import ClusterWork
from sluiceway.worker.answers import check_staged_files
from sluiceway.worker.lane_task import LANE_BUG, copy_late_files, lane_request, run_lane_task
from sluiceway.worker.plan import RoutePlan, TaskPlan, TaskResult
from sluiceway.worker.replayed_changes import SUPERSEDED

_LOOK_EVERY_S = 5.0
_EPOCH_S = 2.0
_RANGES_AT_ONCE = 200
_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 60.0
# A fault may lie in old rows, in what was committed of them, or in how they would have to be read.
# It halts no stream that goes on without them.
_OF_ITS_ROWS = (
    FileLostError,
    LedgerCorruptError,
    SchemaRegistryRefusedError,
    SourceAgainError,
    SourceEmptiedError,
    SourceOrderError,
)


@dataclass(frozen=True, slots=True)
class LaneHooks:
    """What the route's session lends.

    Attributes:
        next_epoch: Returns the next number of an epoch; lanes and the stream share one sequence.
        publish: Gives a committed record's files their final names; whether all have them now.
        applied: Called with the first slot whose partitions the catalog has to get.
        held_up: Whether nothing more may be committed now.
        transformed: Runs the SQL after a task, over tables as they were pinned when the rows became
            dirty.
    """

    observe: Observer
    next_epoch: Callable[[], int]
    publish: Callable[[FilesRecord], bool]
    applied: Callable[[int], None]
    held_up: Callable[[], bool] = lambda: False
    transformed: Callable[[TaskPlan, TaskResult, tuple[TablePin, ...]], TransformedEpoch] = (
        lambda _plan, result, _pins: TransformedEpoch([result])
    )


class Lanes:
    """A route's lanes. Used by whichever thread works for the route, never by two at once.

    Args:
        owned: The route's ledger.
        plan: Says what the tasks of an epoch share; asked once an epoch.
        hooks: What the session lends.
        log: The route's log.
        tasks: Executors that may run epochs of replays; None has the driver do it.

    Attributes:
        pressing: Whether a turn has something to do now; read by the loop's thread.
        trouble: Why the last turn could not go on; None when it did.
        hand_on: Gets requests that are not about dirty rows, each time while they lie there.
    """

    def __init__(
        self,
        owned: OwnedLedger,
        plan: Callable[[], RoutePlan],
        hooks: LaneHooks,
        log: Log,
        *,
        tasks: ClusterWork | None = None,
    ) -> None:
        self._owned = owned
        self._plan = plan
        self._hooks = hooks
        self._log = log
        self._tasks = tasks
        self._requests: list[RequestFile] = []
        self._looked = False
        self._next_look = 0.0
        self._next_try = 0.0
        self._next_answer = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._put_off: set[str] = set()
        # Slot before which the changes of the next record were judged; None without a judge.
        self._judged_at: int | None = None
        self._on_executor = False
        self.trouble: SluicewayError | None = None
        self.hand_on: Callable[[UpkeepRequest], None] = lambda _: None
        self.pressing = bool(owned.fold.lanes.open_lanes())

    @property
    def is_read_due(self) -> bool:
        """Whether it is time to read requests again."""
        return time.monotonic() >= self._next_look

    def read_requests(self) -> None:
        """Look for requests now and then; a store that fails is asked again later.

        Raises:
            FencedError: Another driver has taken over: they are its mail.
        """
        if not self.is_read_due:
            return
        self._next_look = time.monotonic() + _LOOK_EVERY_S
        try:
            self._owned.log.check_held()
            if not self._looked:
                self._looked = True
                self._drop_answers()
            found = list(read_requests(self._owned.storage, self._owned.layout))
        except UnknownOutcome as error:
            self.trouble = error
            self._log.info("requests_not_seen", error=str(error))
        else:
            self._requests = [each for each in found if not isinstance(each.request, UpkeepRequest)]
            for request_file in found:
                if isinstance(request_file.request, UpkeepRequest):
                    self.hand_on(request_file.request)
        self._update_pressing()

    def turn(self) -> None:
        """Answer requests, then run one epoch of the oldest open lane, if any.

        Called when nothing of the route is in flight.

        Raises:
            FencedError: Another driver has taken over.
            SluicewayError: As a commit; what landed stays.
        """
        self.trouble = None
        self.read_requests()
        self._answer_all()
        lane = self._next_lane()
        try:
            waits = lane is None or self._waiting() or self.held_up
            record = None if waits or lane is None else self._run(lane)
        except (Retriable, UnknownOutcome, *_OF_ITS_ROWS) as error:
            if lane is not None:
                self._put_off.add(lane.lane)
            self._wait(error)
            return
        if record is not None:
            self._land(record)
            self._pause_s = _FIRST_PAUSE_S
        self._update_pressing()

    @property
    def held_up(self) -> bool:
        """Whether a lane's epochs wait until more of the log is published."""
        return self._hooks.held_up()

    def state(self, lane: str) -> LaneState | None:
        """A lane as it is committed; None when it was never opened."""
        return self._owned.fold.lanes.lanes.get(lane)

    def pause_s(self) -> float:
        """Seconds until the lanes, or requests that could not be answered, are tried again."""
        due = max(self._next_try, self._next_answer if self._requests else 0.0)
        return max(0.0, due - time.monotonic())

    # Requests

    def _drop_answers(self) -> None:
        """Clear away answers of an earlier driver that were never read."""
        try:
            dropped = drop_answers(self._owned.storage, self._owned.layout)
        except UnknownOutcome as error:
            self._log.info("answers_left", error=str(error))
            return
        if dropped:
            self._log.info("answers_dropped", answers=dropped)

    def _answer_all(self) -> None:
        """Answer what can be answered; what cannot waits, and keeps nothing else from going on."""
        if time.monotonic() < self._next_answer:
            return
        waiting, self._requests = self._requests, []
        for request_file in waiting:
            try:
                self._answer(request_file)
            except (Retriable, UnknownOutcome) as error:
                self._requests.append(request_file)
                self._next_answer = time.monotonic() + _LOOK_EVERY_S
                self.trouble = error
                self._log.warning("request_waits", request=request_file.name, error=str(error))

    def _answer(self, request_file: RequestFile) -> None:
        owned = self._owned
        owned.log.check_held()
        if request_file.name in owned.fold.lanes.lanes:
            # Taken in before; its driver died before it took the request away.
            owned.storage.remove(owned.layout.request(request_file.name))
            return
        reach("lane.answer", request_file.name)
        request = request_file.request if isinstance(request_file.request, LaneRequest) else None
        problem = request_file.problem or self._problem(request)
        if problem or request is None:
            self._log.warning("request_refused", request=request_file.name, reason=problem)
            reach("lane.refuse", request_file.name)
            put_answer(owned.storage, owned.layout, request_file.name, problem)
            return
        committed = owned.writer.commit(request.record())
        self._hooks.observe(Step.PINNED)
        lane = owned.fold.lanes.lanes[request_file.name]
        self._log.info(
            "lane_opened",
            seq=committed.seq,
            lane=lane.lane,
            kind=lane.kind,
            rows=lane.rows,
            operator=request.operator,
        )
        owned.storage.remove(owned.layout.request(request_file.name))

    def _problem(self, request: LaneRequest | None) -> str:
        """Why a request cannot be carried out; empty when it can."""
        if request is None or len(request.ranges) > MOST_RANGES:
            return f"it names more than {MOST_RANGES} ranges of rows"
        fold = self._owned.fold
        try:
            check_opening(fold, request.record(), fold.next_seq)
        except InvariantError as error:
            return error.message
        sources = _sources(request.kind, request.ranges)
        try:
            found = find_lane_files(self._owned.log, sources)
        except LedgerCorruptError as error:
            # An old record that no epoch and no start reads: it does not halt the route.
            return f"its rows cannot be looked up: {error.message}"
        for each, source in zip(request.ranges, sources, strict=True):
            if source not in found:
                return f"no record has committed {each.source}"
            file = found[source].file
            if each.stop > file.rows:
                return f"{each.source} has {file.rows} rows, asked for are rows up to {each.stop}"
            if request.kind == LATE and each.stop < file.rows:
                return f"{each.source} has {file.rows} rows, which only go together"
        return ""

    # Epochs of a lane

    def _next_lane(self) -> LaneState | None:
        """The oldest open lane; lanes that could not go on at their last try come last."""
        lanes = self._owned.fold.lanes.open_lanes()
        found = next((lane for lane in lanes if lane.lane not in self._put_off), None)
        if found is None:
            self._put_off.clear()
            found = next(iter(lanes), None)
        return found

    def _run(self, lane: LaneState) -> LaneDataRecord:
        """One epoch of a lane, up to before its commit."""
        ranges = list(islice(lane.left(), _RANGES_AT_ONCE))
        owned_slot = self._owned.fold.next_seq
        route, epoch = self._plan(), self._hooks.next_epoch()
        reach("lane.read", lane.lane)
        self._on_executor = False
        if lane.kind == PURGE:
            return _purged(lane, epoch, ranges, route.schema_version)
        sources = _sources(lane.kind, ranges)
        found = find_lane_files(self._owned.log, sources)
        pins = found[sources[0]].pins
        # An epoch's SQL joins tables in one state.
        files = list(takewhile(lambda each: each.pins == pins, map(found.__getitem__, sources)))
        plan = lane_plan(route, epoch, ranges[: len(files)])
        result = self._replay(lane.kind, route, plan, files)
        done = TransformedEpoch([result])
        if lane.kind != LATE:
            done = self._hooks.transformed(plan, result, pins)
        self._judged_at = owned_slot if route.key is not None else None
        check_staged_files(self._owned.storage, self._owned.layout, done.results)
        self._hooks.observe(Step.PREPARED)
        record = self._record(lane, done.results, route.schema_version)
        return replace(record, pins=done.pins)

    def _replay(
        self, kind: str, route: RoutePlan, plan: TaskPlan, files: Sequence[CommittedDirty]
    ) -> TaskResult:
        paths = [each.path for each in files]
        # Who judges changes of keyed rows reads the driver's own log; what is copied as it is
        # needs no executor.
        tasks = self._tasks if route.key is None and kind != LATE else None
        answer = None if tasks is None else tasks.run_now(*lane_request(plan, paths))
        if answer is not None and answer.failure is not None:
            raise answer.failure
        self._on_executor = answer is not None
        if answer is not None:
            result: TaskResult = answer.value
            return result
        try:
            if kind == LATE:
                return copy_late_files(plan, self._owned.storage, [each.file for each in files])
            with judging(route, self._owned.log) as judge:
                return run_lane_task(plan, self._owned.storage, paths, judge=judge)
        except SluicewayError:
            raise
        except Exception as error:
            raise TaskFailedError(
                f"{type(error).__name__}: {str(error)[:300]}",
                hint=LANE_BUG,
            ) from error

    def _record(
        self, lane: LaneState, results: Sequence[TaskResult], schema: str
    ) -> LaneDataRecord:
        """The record of an epoch: the answer of its task, and those of the SQL after it."""
        result, counts, reasons = results[0], NO_ROWS, Counter[str]()
        for each in results:
            counts = counts.plus(each.counts)
            reasons.update(each.dirty_reasons)
        superseded = result.notes.get(SUPERSEDED, 0)
        if not result.moved():
            raise StorageUnavailableError(
                "the dirty file has fewer rows than were committed",
                where=result.splits[0].topic,
                hint="`sluiceway verify JOB --deep` says what is wrong with it",
            )
        return LaneDataRecord(
            lane=lane.lane,
            epoch=result.epoch,
            ranges=tuple(
                LaneSpan(split.topic, split.start, split.end)
                for split in result.splits
                if split.end > split.start
            ),
            files=tuple(file for each in results for file in each.files),
            dirty_files=tuple(file for each in results for file in each.dirty_files),
            counts=LaneCounts(
                read=counts.read,
                written=counts.written,
                dirty=counts.dirty,
                filtered=counts.filtered,
                skipped=BigInt(counts.skipped - superseded),
                purged=BigInt(0),
                expanded=counts.expanded,
                superseded=BigInt(superseded),
            ),
            schema=schema,
            dirty_reasons=dict(reasons),
            timings_ms=result.timings_ms,
            late_in=(),
        )

    def _land(self, record: LaneDataRecord) -> None:
        owned, observe = self._owned, self._hooks.observe
        before = owned.fold.next_seq
        # Its partitions may have moved, or been closed, since its rows were read.
        committed = owned.writer.commit(partial(_placed, record, self._judged_at))
        observe(Step.COMMITTED)
        landed = owned.fold.unpublished.get(committed.seq)
        if landed is None or self._hooks.publish(landed):
            observe(Step.PUBLISHED)
        self._hooks.applied(before)
        lane = owned.fold.lanes.lanes[record.lane]
        self._log.info(
            "lane_committed",
            seq=committed.seq,
            epoch=record.epoch,
            lane=record.lane,
            read=record.counts.read,
            written=record.counts.written,
            dirty=record.counts.dirty,
            purged=record.counts.purged,
            left=lane.rows - lane.counts.read,
            on_executor=self._on_executor,
        )

    # Waiting

    def _waiting(self) -> bool:
        return time.monotonic() < self._next_try

    def _wait(self, error: SluicewayError) -> None:
        """Leave the lanes alone for a while; the stream goes on."""
        self.trouble = error
        self._next_try = time.monotonic() + self._pause_s
        self._log.warning(
            "lane_waits", code=error.code, error=str(error), retry_in_s=round(self._pause_s, 1)
        )
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        self._update_pressing()

    def _update_pressing(self) -> None:
        asked = bool(self._requests) and time.monotonic() >= self._next_answer
        goes_on = bool(self._owned.fold.lanes.open_lanes()) and not self._waiting()
        self.pressing = asked or goes_on


def _placed(record: LaneDataRecord, judged_at: int | None, fold: Fold) -> LaneDataRecord:
    """The record as it stands in the slot after the fold.

    Raises:
        InvariantError: Changes were judged by a shorter log: a later one of their key may be in it.
    """
    if judged_at is not None and fold.next_seq != judged_at and record.files:
        raise InvariantError(
            f"changes were judged at slot {judged_at}, and slot {fold.next_seq} is theirs"
        )
    return placed_lane(record, fold)


def _purged(lane: LaneState, epoch: int, ranges: list[LaneRange], schema: str) -> LaneDataRecord:
    rows = BigInt(sum(each.stop - each.start for each in ranges))
    spans = tuple(LaneSpan(each.source, each.start, each.stop) for each in ranges)
    counts = replace(NO_LANE_ROWS, read=rows, purged=rows)
    return LaneDataRecord(lane.lane, epoch, spans, (), (), counts, schema, {}, {}, ())


def lane_plan(plan: RoutePlan, epoch: int, ranges: Sequence[LaneRange]) -> TaskPlan:
    """What the task of a lane's epoch has to read: dirty files as logs of their own."""
    splits = tuple(
        Split(SourcePartition(each.source, 0), int(each.start), int(each.stop)) for each in ranges
    )
    if plan.key is not None:
        # Of a dirty file there may be several splits. Not their order decides, but the log's.
        plan = replace(plan, key=replace(plan.key, one_partition=False))
    return TaskPlan(route=plan, epoch=epoch, task=0, splits=splits, deadline_s=_EPOCH_S)


def _sources(kind: str, ranges: Sequence[LaneRange]) -> list[DirtySource]:
    return [source_kind(kind).parse(each.source) for each in ranges]


@contextmanager
def judging(route: RoutePlan, ledger: LedgerLog) -> Iterator[ChangeJudge | None]:
    """What knows the later changes, for one epoch of a lane; None for a table without a key.

    Args:
        route: As its tasks have it.
        ledger: Its own, as long as it is when rows are judged.
    """
    if route.key is None:
        yield None
        return
    # Clients of lake catalogs take a second to import, and most routes need none.
    from sluiceway.sinks.iceberg.keyed.change_history import ChangeHistory  # noqa: PLC0415
    from sluiceway.sinks.iceberg.keyed.keyed_changes import ChangeColumns  # noqa: PLC0415

    ids = {name.lower(): number for name, number in json.loads(_ids(route)).items()}
    named = {each.part: each.column for each in route.meta}
    offset, partition, topic = named["offset"], named["partition"], named.get("topic")
    columns = ChangeColumns(
        tuple(ids[name.lower()] for name in route.key.columns),
        ids[offset.lower()],
        ids[partition.lower()],
        None if topic is None else ids[topic.lower()],
    )
    history = ChangeHistory(ledger, route.key.columns, columns, (offset, partition, topic))
    try:
        yield history
    finally:
        history.close()


def _ids(route: RoutePlan) -> str:
    told = route.files.setting(FIELD_IDS)
    if told is None:
        raise InvariantError("changes of keyed rows are in files whose columns have no ids")
    return told
