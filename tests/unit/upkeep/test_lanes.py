"""Lanes of a route: one request or lane that cannot go on holds nothing else up."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import (
    FencedError,
    FileLostError,
    LedgerCorruptError,
    SchemaRegistryRefusedError,
    SluicewayError,
    SourceAgainError,
    SourceEmptiedError,
    SourceOrderError,
    StorageRefusedError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.formats.registry import FormatChoice
from sluiceway.ledger.data_parts import TablePin
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.lane_records import PURGE, REPLAY, LaneDataRecord, LaneRange
from sluiceway.ledger.lane_state import LaneState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import NO_ROWS, DataRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.observe.steps import Step
from sluiceway.operate.replay import follow
from sluiceway.schedule.sql_engine import TransformedEpoch
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import lanes as lanes_module
from sluiceway.upkeep.lanes import LaneHooks, Lanes, lane_plan
from sluiceway.upkeep.requests import LaneRequest, pop_refusal, put_answer, put_request
from sluiceway.worker.lane_task import run_lane_task
from sluiceway.worker.plan import KeyRule
from tools.ledger_records import LEDGER, data, fence, sources, span
from tools.small_task import route_plan


class _Clock:
    """Time that only the test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class _Store(LocalStorage):
    """Refuses to remove what belongs to somebody else."""

    foreign = ""

    def remove(self, path: str) -> None:
        if self.foreign and self.foreign in path:
            raise StorageRefusedError("not permitted", where=path)
        super().remove(path)


class _Owned:
    def __init__(self, root: Path) -> None:
        self.storage = _Store()
        self.layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(self.storage, self.layout)
        for folder in (self.layout.log, self.layout.stage, self.layout.requests):
            self.storage.make_folders(folder)
        self.writer = LedgerWriter(self.log, self.log.fold(), _no_wait)
        self.writer.fence(fence(), lambda: None)
        self.writer.commit(sources(0))
        self.dirty = data(1, 0, span(0, 0, 20), dirty=10)
        self.writer.commit(self.dirty)
        self.writer.set_published()

    @property
    def fold(self) -> Any:
        return self.writer.fold

    def request(self, kind: str, start: int, stop: int) -> LaneRequest:
        part = LaneRange(str(_source(self.dirty, 2)), BigInt(start), BigInt(stop))
        made = LaneRequest(1, LEDGER, kind, "me@host", "", (part,))
        put_request(self.storage, self.layout, made)
        return made


def _source(body: DataRecord, seq: int) -> DirtySource:
    return DirtySource(LEDGER, seq, body.dirty_files[0].final.rpartition("/")[2])


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(lanes_module, "time", SimpleNamespace(monotonic=made))
    return made


def _lanes(owned: _Owned, tasks: Any = None, hooks: LaneHooks | None = None) -> Lanes:
    nothing = cast("Any", lambda _: None)
    hooks = hooks or LaneHooks(nothing, count(1).__next__, lambda _: True, nothing)
    plan = cast("Any", type("Plan", (), {"schema_version": "s", "key": None})())
    return Lanes(cast("Any", owned), lambda: plan, hooks, stderr_log(), tasks=tasks)


def _gone(*_: Any, **__: Any) -> None:
    raise StorageUnavailableError("the dirty file is gone")


def _run_by(monkeypatch: pytest.MonkeyPatch, task: Any) -> None:
    """Lanes without files: `task` takes the place of a task that runs one."""
    monkeypatch.setattr(lanes_module, "run_lane_task", task)
    monkeypatch.setattr(lanes_module, "lane_plan", lambda *_: None)
    monkeypatch.setattr(lanes_module, "lane_request", lambda *_: (None, 1.0))


def test_lane_that_cannot_be_read_lets_the_next_one_go_on(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_by(monkeypatch, _gone)
    owned = _Owned(tmp_path)
    lanes = _lanes(owned)
    stuck = owned.request(REPLAY, 0, 4)
    lanes.turn()
    assert isinstance(lanes.trouble, StorageUnavailableError)
    later = owned.request(PURGE, 4, 10)
    for _ in range(3):
        clock.now_s += 100
        lanes.turn()
    finished = {each.lane: each.finished for each in owned.fold.lanes.lanes.values()}
    assert finished == {stuck.id: False, later.id: True}
    # And it is tried again itself.
    clock.now_s += 100
    lanes.turn()
    assert isinstance(lanes.trouble, StorageUnavailableError)


@pytest.mark.parametrize("through", [True, False])
def test_published_is_observed_only_of_a_lane_whose_files_have_their_names(
    tmp_path: Path, clock: _Clock, *, through: bool
) -> None:
    del clock
    owned, steps = _Owned(tmp_path), list[Step]()
    hooks = LaneHooks(steps.append, count(1).__next__, lambda _: through, lambda _: None)
    owned.request(PURGE, 0, 4)
    _lanes(owned, hooks=hooks).turn()
    assert steps == [Step.PINNED, Step.COMMITTED, *([Step.PUBLISHED] if through else [])]


@pytest.mark.parametrize(
    "error",
    [
        FileLostError("a change file is damaged"),
        LedgerCorruptError("the record that names its file is damaged"),
        SchemaRegistryRefusedError("it does not let us in"),
        SourceAgainError("a snapshot begins again"),
        SourceEmptiedError("a dirty change empties the table"),
        SourceOrderError("the order is not kept"),
    ],
    ids=lambda error: error.code,
)
def test_lane_whose_rows_cannot_be_replayed_waits_alone_whoever_drives(
    error: SluicewayError, tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise error

    _run_by(monkeypatch, refused)
    owned = _Owned(tmp_path)
    stuck, later = owned.request(REPLAY, 0, 4), owned.request(PURGE, 4, 10)
    for _ in range(2):
        lanes = _lanes(owned)
        lanes.turn()
        clock.now_s += 100
        lanes.turn()
    finished = {each.lane: each.finished for each in owned.fold.lanes.lanes.values()}
    assert finished == {stuck.id: False, later.id: True}


def test_fence_that_a_lane_meets_halts_its_route(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del clock

    def fenced(*_: Any, **__: Any) -> None:
        raise FencedError("another driver has taken over")

    _run_by(monkeypatch, fenced)
    owned = _Owned(tmp_path)
    owned.request(REPLAY, 0, 4)
    with pytest.raises(FencedError):
        _lanes(owned).turn()


def test_ranges_of_one_dirty_file_are_no_partitions_of_a_topic(tmp_path: Path) -> None:
    # A replay of some rows of a file, where the job file says that its topic has one partition.
    route = replace(
        route_plan(str(tmp_path), None, ()),
        key=KeyRule(("id",), None, one_partition=True),
        schema=Schema((Field("id", IntegerType(64)),)),
        format=FormatChoice("debezium", (("key", '["id"]'), ("order", "one_partition"))),
    )
    source = str(DirtySource(LEDGER, 2, "x.parquet"))
    ranges = [LaneRange(source, BigInt(a), BigInt(b)) for a, b in ((0, 2), (5, 7))]
    storage = LocalStorage()
    storage.make_folders(route.layout.stage)
    with pytest.raises(StorageUnavailableError, match=r"x\.parquet"):
        run_lane_task(lane_plan(route, 7, ranges), storage, [str(tmp_path / "x.parquet")] * 2)


def test_lane_that_fails_behind_one_that_went_on_waits_as_briefly_as_at_first(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_by(monkeypatch, _gone)
    owned = _Owned(tmp_path)
    lanes = _lanes(owned)
    owned.request(REPLAY, 0, 4)
    pauses = []
    for _ in range(3):
        lanes.turn()
        pauses.append(lanes.pause_s())
        clock.now_s += 100
    assert pauses == [2.0, 4.0, 8.0]
    purged = owned.request(PURGE, 4, 10)
    lanes.turn()
    assert owned.fold.lanes.lanes[purged.id].finished
    lanes.turn()
    assert isinstance(lanes.trouble, StorageUnavailableError)
    assert lanes.pause_s() == 2.0


def test_lanes_have_nothing_to_do_any_more_once_the_last_one_is_finished(
    tmp_path: Path, clock: _Clock
) -> None:
    owned = _Owned(tmp_path)
    lanes = _lanes(owned)
    asked = owned.request(PURGE, 0, 10)
    lanes.read_requests()
    assert lanes.pressing
    lanes.turn()
    assert owned.fold.lanes.lanes[asked.id].finished
    assert not lanes.pressing


class _Executors:
    def __init__(self, answer: TaskFailedError | None) -> None:
        self.answer = answer
        self.asked = 0

    def run_now(self, request: Any, longest_s: float) -> None:
        del request, longest_s
        self.asked += 1
        if self.answer is not None:
            raise self.answer


def test_replay_that_executors_do_not_take_is_done_by_the_driver(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_the_driver(*_: Any, **__: Any) -> None:
        raise StorageUnavailableError("here")

    _run_by(monkeypatch, in_the_driver)
    owned, executors = _Owned(tmp_path), _Executors(None)
    lanes = _lanes(owned, executors)
    owned.request(REPLAY, 0, 4)
    lanes.turn()
    assert (executors.asked, getattr(lanes.trouble, "message", "")) == (1, "here")


def test_replay_whose_executor_hangs_waits_and_is_not_begun_beside_it(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_by(monkeypatch, None)
    owned, executors = _Owned(tmp_path), _Executors(TaskFailedError("it hangs"))
    lanes = _lanes(owned, executors)
    owned.request(REPLAY, 0, 4)
    lanes.turn()
    assert (lanes.trouble, lanes.pressing) == (executors.answer, False)
    # Nor at each turn of the driver.
    lanes.turn()
    assert executors.asked == 1
    clock.now_s += 100
    lanes.turn()
    assert executors.asked == 2


def test_lane_waits_while_too_much_of_the_log_is_unpublished(tmp_path: Path, clock: _Clock) -> None:
    owned = _Owned(tmp_path)
    lanes, full = _lanes(owned), [True]
    lanes._hooks = replace(lanes._hooks, held_up=lambda: full[0])
    asked = owned.request(PURGE, 0, 10)
    lanes.turn()
    assert lanes.trouble is None
    assert not owned.fold.lanes.lanes[asked.id].finished
    full[0] = False
    lanes.turn()
    assert owned.fold.lanes.lanes[asked.id].finished


def test_request_that_cannot_be_taken_away_holds_up_neither_its_lane_nor_others(
    tmp_path: Path, clock: _Clock
) -> None:
    owned = _Owned(tmp_path)
    lanes = _lanes(owned)
    first, second = sorted(
        (owned.request(PURGE, 0, 4), owned.request(PURGE, 4, 10)), key=lambda each: each.id
    )
    owned.storage.foreign = first.id
    for _ in range(4):
        clock.now_s += 100
        lanes.turn()
    assert isinstance(lanes.trouble, StorageRefusedError)
    assert {lane for lane, each in owned.fold.lanes.lanes.items() if each.finished} == {
        first.id,
        second.id,
    }
    owned.storage.foreign = ""
    clock.now_s += 100
    lanes.turn()
    assert lanes.trouble is None
    assert list(Path(owned.layout.requests).iterdir()) == []


def test_sql_of_a_replay_joins_tables_as_they_were_pinned_and_one_state_an_epoch(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned, asked, read = _Owned(tmp_path), list[Any](), list[int]()
    parts = [LaneRange(str(_source(owned.dirty, 2)), BigInt(0), BigInt(10))]
    pins = [(TablePin("users", f"u@{end}"),) for end in (5, 5, 9)]
    for number, each in enumerate(pins):
        begin = 20 + 20 * number
        body = replace(data(1, 1 + number, span(0, begin, begin + 20), dirty=10), pins=each)
        seq = owned.writer.commit(body).seq
        parts.append(LaneRange(str(_source(body, seq)), BigInt(0), BigInt(10)))
    owned.writer.set_published()
    put_request(
        owned.storage, owned.layout, LaneRequest(1, LEDGER, REPLAY, "me@host", "", tuple(parts))
    )

    def filtered(_: Lanes, _kind: str, _route: object, plan: Any, files: list[Any]) -> Any:
        read.append(len(files))
        rows = BigInt(10 * len(files))
        topics = [each.partition.topic for each in plan.splits]
        splits = [SimpleNamespace(topic=t, start=BigInt(0), end=BigInt(10)) for t in topics]
        return SimpleNamespace(
            counts=replace(NO_ROWS, read=rows, filtered=rows),
            dirty_reasons={},
            notes={},
            moved=lambda: True,
            splits=splits,
            epoch=plan.epoch,
            files=(),
            dirty_files=(),
            late_files=(),
            attempt="",
            timings_ms={},
        )

    def transformed(_: Any, result: Any, of: tuple[TablePin, ...]) -> TransformedEpoch:
        asked.append(of)
        return TransformedEpoch([result], of)

    monkeypatch.setattr(Lanes, "_replay", filtered)
    nothing = cast("Any", lambda _: None)
    hooks = LaneHooks(nothing, count(9).__next__, lambda _: True, nothing, transformed=transformed)
    lanes = _lanes(owned, hooks=hooks)
    for _ in range(4):
        clock.now_s += 100
        lanes.turn()
        assert lanes.trouble is None
    assert (asked, read) == ([(), pins[0], pins[2]], [1, 2, 1])
    committed = [each for each, _ in owned.log.records(0) if isinstance(each.body, LaneDataRecord)]
    assert [cast("Any", each.body).pins for each in committed] == asked
    assert [each.format for each in committed] == [2, 2, 2]


def test_rows_of_a_record_that_is_damaged_are_refused_and_the_route_goes_on(
    tmp_path: Path, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> None:
        raise LedgerCorruptError("the pack of folder 0 is damaged")

    owned = _Owned(tmp_path)
    asked = owned.request(REPLAY, 0, 4)
    monkeypatch.setattr(lanes_module, "find_lane_files", damaged)
    _lanes(owned).turn()
    answer = pop_refusal(owned.storage, owned.layout, asked.id)
    assert answer is not None
    assert "the pack of folder 0 is damaged" in answer


def test_garbage_among_requests_is_answered_or_left_and_the_others_are_carried_out(
    tmp_path: Path, clock: _Clock
) -> None:
    owned = _Owned(tmp_path)
    asked = owned.request(PURGE, 0, 10)
    folder = Path(owned.layout.requests)
    raw = (folder / f"{asked.id}.json").read_bytes()
    (folder / f"{'0' * 32}.json").write_bytes(raw.replace(b"me@host", b"\\ud800"))
    (folder / f"{'1' * 32}.json").write_bytes(raw.replace(b'"10"', b'"' + b"9" * 9000 + b'"'))
    (folder / f"{'n' * 240}.json").write_bytes(b"{")
    (folder / "notes.txt").write_bytes(b"")
    lanes = _lanes(owned)
    lanes.turn()
    assert lanes.trouble is None
    assert owned.fold.lanes.lanes[asked.id].finished
    for name in ("0" * 32, "1" * 32):
        assert "cannot be read" in (pop_refusal(owned.storage, owned.layout, name) or "")
    assert {path.suffix for path in folder.iterdir()} == {".json", ".txt"}
    assert len(list(folder.iterdir())) == 2


def test_another_name_for_the_same_rows_opens_no_second_lane(tmp_path: Path, clock: _Clock) -> None:
    owned = _Owned(tmp_path)
    asked = owned.request(PURGE, 0, 10)
    other = owned.request(REPLAY, 9, 10)
    lanes = _lanes(owned)
    lanes.turn()
    opened = set(owned.fold.lanes.lanes)
    assert len(opened) == 1
    (refused,) = {asked.id, other.id} - opened
    answer = pop_refusal(owned.storage, owned.layout, refused)
    assert "belong to another lane" in (answer or "")
    assert replace(asked, operator="you").id == asked.id


def test_driver_drops_answers_of_those_before_it_and_keeps_its_own(
    tmp_path: Path, clock: _Clock
) -> None:
    owned = _Owned(tmp_path)
    put_answer(owned.storage, owned.layout, "0" * 32, "said by a driver that is gone")
    folder = Path(owned.layout.requests)
    (folder / f"{'1' * 32}.json").write_bytes(b"{")
    lanes = _lanes(owned)
    for _ in range(3):
        lanes.turn()
        clock.now_s += 100
    assert [path.name for path in folder.iterdir()] == [f"{'1' * 32}.answer.json"]
    assert lanes.trouble is None


def test_answer_that_cannot_be_dropped_holds_nothing_up(tmp_path: Path, clock: _Clock) -> None:
    owned = _Owned(tmp_path)
    put_answer(owned.storage, owned.layout, "0" * 32, "said by a driver that is gone")
    asked = owned.request(PURGE, 0, 10)
    owned.storage.foreign = ".answer.json"
    lanes = _lanes(owned)
    lanes.turn()
    assert lanes.trouble is None
    assert owned.fold.lanes.lanes[asked.id].finished


class _SeenError(Exception):
    """The tool waits for its lane."""


def test_refusal_of_a_replaced_driver_is_not_told_of_a_lane_that_is_open(
    tmp_path: Path, clock: _Clock
) -> None:
    owned = _Owned(tmp_path)
    asked = owned.request(REPLAY, 0, 4)
    owned.writer.commit(asked.record())
    put_answer(owned.storage, owned.layout, asked.id, "no record has committed it")

    def watch(lane: LaneState | None, elsewhere: bool) -> None:  # noqa: FBT001
        assert (lane is not None, elsewhere) == (True, False)
        raise _SeenError

    with pytest.raises(_SeenError):
        follow(cast("Any", None), owned.log, asked.id, watch, stderr_log())


def test_fenced_driver_leaves_its_successors_mail_alone(tmp_path: Path, clock: _Clock) -> None:
    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    owned = _Owned(tmp_path)
    lanes = _lanes(owned)
    asked = owned.request(PURGE, 0, 4)
    answer = Path(owned.layout.answer("0" * 32))
    answer.write_bytes(b"{}")
    owned.log.check_held = fenced
    with pytest.raises(FencedError):
        lanes.turn()
    assert Path(owned.layout.request(asked.id)).exists()
    assert answer.exists()
    assert owned.fold.lanes.lanes == {}
