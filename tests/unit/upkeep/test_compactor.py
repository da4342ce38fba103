"""A route's compactor: what is asked for is done once, in groups, and nothing holds others up."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import FencedError, SluicewayError, TaskFailedError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, decode
from sluiceway.upkeep import compactor
from sluiceway.upkeep.compactor import Compactor, next_group
from sluiceway.upkeep.partition_requests import (
    COMPACT,
    CompactAnswer,
    CompactionOutcome,
    CompactRequest,
    PartitionDone,
)
from sluiceway.upkeep.record_queue import Build, RecordQueue
from sluiceway.upkeep.requests import put_request
from sluiceway.upkeep.rewriting import Rewritten
from tools.ledger_records import LEDGER, data, fence, sources, span
from tools.waiting import wait_for

PATIENCE_S = 120.0
TARGET = 1 << 20
HOURS = ("dt=20261120/hr=08", "dt=20261120/hr=09")


def _no_wait(attempts: int, error: Exception) -> None:
    raise AssertionError((attempts, error))


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class FakeRewriter:
    """Makes one file of all of each partition, as far as records tell.

    Attributes:
        act: Called first for each, with the time that it may take.
    """

    def __init__(self) -> None:
        self.act: Callable[[float | None], None] = lambda _: None
        self.cancelled = threading.Event()
        self.untils: list[float | None] = []

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        made: list[Rewritten | SluicewayError] = []
        for folder, live in staged:
            self.untils.append(until)
            try:
                self.act(until)
                made.append(self._merged(folder, live))
            except SluicewayError as error:
                made.append(error)
        return made

    def _merged(self, folder: str, live: Sequence[FileRecord]) -> Rewritten:
        name = f"{folder.rpartition('/')[2]}/merged.parquet"
        rows = BigInt(sum(int(file.rows) for file in live))
        merged = replace(live[0], staged=name, final="merged.parquet", rows=rows)
        return Rewritten([merged], 0.5, 0.25)

    def cancel(self) -> None:
        self.cancelled.set()


class Route:
    """A ledger with small files in two hours, a record_queue that is served, and a compactor.

    Args:
        root: Of the table.
        compact: One more hour, of one file.
    """

    def __init__(self, root: Path, compact: str = "") -> None:
        self.layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(LocalStorage(), self.layout)
        for folder in (self.layout.log, self.layout.stage):
            self.log.storage.make_folders(folder)
        self.writer = LedgerWriter(self.log, self.log.fold(), _no_wait)
        self.writer.fence(fence(), lambda: None)
        self.writer.commit(sources(0))
        for epoch, hour in enumerate(("08", "09") * 3 + (compact,) * bool(compact)):
            body = data(1, epoch, span(0, 4 * epoch, 4 * epoch + 4))
            (file,) = body.files
            final = file.final.replace("hr=08", f"hr={hour}")
            moved = replace(file, final=final, values=("20261120", hour))
            self.writer.commit(replace(body, files=(moved,)))
        self.writer.set_published()
        self.record_queue = RecordQueue(self.log, ())
        self.rewriter = FakeRewriter()
        self.lines = Lines()
        self.compactor = Compactor(self.record_queue, self.rewriter, TARGET, self.lines)  # type: ignore[arg-type]
        self.looks = 0
        self._over = threading.Event()
        self._driver = threading.Thread(target=self._serve)
        self._driver.start()

    def _serve(self) -> None:
        while not self._over.wait(0.001):
            self.record_queue.serve(self._put)

    def _put(self, build: Build) -> int | None:
        self.looks += 1
        committed = self.writer.commit_made(build)
        self.writer.set_published()
        return None if committed is None else committed.seq

    def leave(self) -> None:
        self._over.set()
        self._driver.join()
        self.record_queue.end(FencedError("the route was left"))
        self.compactor.close()

    def ask(self, *names: str) -> CompactRequest:
        """Put a request and hand it on, as a look at the requests does."""
        request = CompactRequest(1, LEDGER, COMPACT, "me@host", names)
        put_request(self.log.storage, self.layout, request)
        self.compactor.enqueue(request)
        return request

    def answer(self, request: CompactRequest) -> CompactAnswer:
        """Wait until a request is taken away; its answer."""
        wait_for(lambda: self.log.storage.status(self.layout.request(request.id)) is None)
        raw = self.log.storage.read(self.layout.answer(request.id))
        assert raw is not None
        return decode(raw, CompactAnswer)

    def kinds(self) -> list[str]:
        return [record.type.value for record, _ in self.log.records()][8:]


@pytest.fixture
def route(tmp_path: Path) -> Iterator[Route]:
    made = Route(tmp_path)
    yield made
    made.leave()


def test_request_is_carried_out_together_and_answered_by_partition(route: Route) -> None:
    answer = route.answer(route.ask("dt=20261120"))
    assert answer.finished
    assert answer.waiting == 0
    found = [(each.partition, each.outcome, each.files_after) for each in answer.partitions]
    assert found == [(hour, "compacted", 1) for hour in HOURS]
    first = answer.partitions[0]
    assert (first.files_before, first.wall_ms, first.cpu_ms, first.reason) == (3, 500, 250, "")
    assert route.kinds() == ["INTENT"] * 2 + ["REPLACE"] * 2
    told = route.lines.of("compacted")
    assert [each["partition"] for each in told] == list(HOURS)
    assert told[0]["cpu_s"] == 0.25


def test_what_is_compact_or_not_there_is_left_alone_with_a_reason(route: Route) -> None:
    route.answer(route.ask(HOURS[0]))
    answer = route.answer(route.ask(HOURS[0], "dt=20261121/hr=00"))
    reasons = [(each.outcome, each.reason) for each in answer.partitions]
    assert reasons == [
        ("left", "its files are few and large enough"),
        ("left", "the ledger has no such partition"),
    ]
    assert route.kinds() == ["INTENT", "REPLACE"]


def test_many_partitions_that_need_nothing_take_one_look_of_the_driver(tmp_path: Path) -> None:
    route = Route(tmp_path)
    try:
        for hour in HOURS:
            route.answer(route.ask(hour))
        looks = route.looks
        wait_for(lambda: route.compactor.is_done("dt=20261120"))
        assert route.looks == looks + 1
        answer = route.answer(route.ask(*(f"dt=20261121/hr={hour:02d}" for hour in range(24))))
        assert [each.outcome for each in answer.partitions] == ["left"] * 24
        assert route.looks == looks + 2
    finally:
        route.leave()


def answers_written(route: Route, monkeypatch: pytest.MonkeyPatch) -> list[CompactAnswer]:
    """All answers from here on, as they are written."""
    written: list[CompactAnswer] = []
    overwrite = route.log.storage.overwrite

    def note(path: str, data: bytes) -> None:
        if path.endswith(".answer.json"):
            written.append(decode(data, CompactAnswer))
        overwrite(path, data)

    monkeypatch.setattr(route.log.storage, "overwrite", note)
    return written


def test_answer_is_not_written_anew_for_each_of_many_partitions(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.compactor._TELL_EVERY_S", PATIENCE_S)
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    written = answers_written(route, monkeypatch)
    route.answer(route.ask("dt=20261120"))
    assert [(each.finished, each.waiting) for each in written] == [(False, 2), (True, 0)]


def test_answer_grows_with_each_group_that_takes_its_time(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    monkeypatch.setattr(compactor, "_TELL_EVERY_S", 0.01)
    route.rewriter.act = lambda _: time.sleep(0.02)
    written = answers_written(route, monkeypatch)
    route.answer(route.ask("dt=20261120"))
    assert [(each.finished, each.waiting) for each in written] == [
        (False, 2),
        (False, 1),
        (True, 0),
    ]


def test_request_that_means_no_partition_is_answered_once(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = answers_written(route, monkeypatch)
    # All that are closed are asked for, and none is.
    answer = route.answer(route.ask())
    assert (answer.finished, answer.partitions) == (True, ())
    assert len(written) == 1


def test_request_that_is_seen_again_while_it_is_under_way_is_one_request(route: Route) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(_: float | None) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)

    route.rewriter.act = wait
    request = route.ask(HOURS[0])
    assert entered.wait(PATIENCE_S)
    for _ in range(3):
        route.compactor.enqueue(request)
    go_on.set()
    route.answer(request)
    assert route.kinds() == ["INTENT", "REPLACE"]
    assert len(route.rewriter.untils) == 1


def test_partition_that_fails_is_abandoned_and_the_next_one_goes_on(route: Route) -> None:
    failures = iter([TaskFailedError("it cannot be read", where="a.parquet")])

    def fail_once(_: float | None) -> None:
        for error in failures:
            raise error

    route.rewriter.act = fail_once
    answer = route.answer(route.ask("dt=20261120"))
    assert [each.outcome for each in answer.partitions] == ["failed", "compacted"]
    assert answer.partitions[0].reason == "a.parquet: it cannot be read"
    assert route.kinds() == ["INTENT", "INTENT", "REPLACE", "ABANDON"]
    (told,) = route.lines.of("compaction_failed")
    assert told["partition"] == HOURS[0]


def test_bug_fails_its_group_once_and_the_next_group_goes_on(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    bugs = iter([KeyError("x")])

    def fail_once(_: float | None) -> None:
        for error in bugs:
            raise error

    route.rewriter.act = fail_once
    answer = route.answer(route.ask("dt=20261120"))
    assert [each.outcome for each in answer.partitions] == ["failed", "compacted"]
    assert answer.partitions[0].reason == "a bug: KeyError: 'x'"
    assert (answer.partitions[0].files_before, answer.partitions[0].files_after) == (3, 3)
    assert route.kinds() == ["INTENT", "ABANDON", "INTENT", "REPLACE"]
    (told,) = route.lines.of("compaction_failed")
    assert (told["partition"], told["reason"]) == (HOURS[0], "a bug: KeyError: 'x'")


def test_announcement_waits_for_compaction_and_goes_before_requests(route: Route) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(_: float | None) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)

    route.rewriter.act = wait
    first = route.ask(HOURS[0])
    assert entered.wait(PATIENCE_S)
    second = CompactRequest(1, LEDGER, COMPACT, "me@host", ("dt=20261120/hr=07",))
    put_request(route.log.storage, route.layout, second)
    route.compactor.enqueue(second)
    asked_at = time.monotonic()
    assert not route.compactor.is_done(HOURS[1])
    go_on.set()
    wait_for(lambda: route.compactor.is_done(HOURS[1]))
    route.answer(first)
    route.answer(second)
    moved = [
        record.body.partition
        for record, _ in route.log.records()
        if isinstance(record.body, ReplaceRecord)
    ]
    assert moved == list(HOURS)
    assert route.rewriter.untils[0] is None
    until = route.rewriter.untils[1]
    assert until is not None
    assert asked_at + compactor.BEFORE_READY_S <= until
    # An announcement has no answer to write: nothing is told but what was compacted.
    assert {event for event, _ in route.lines.lines} == {"compacted"}


def test_announcement_goes_on_without_compaction_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.compactor.BEFORE_READY_S", 0.05)
    route = Route(tmp_path)
    try:
        late = threading.Event()

        def slow(until: float | None) -> None:
            if until is not None:
                wait_for(lambda: time.monotonic() >= until)
                raise TaskFailedError("it was given up: its time is over")
            late.set()

        route.rewriter.act = slow
        assert not route.compactor.is_done("dt=20261120")
        wait_for(lambda: route.compactor.is_done("dt=20261120"))
        (told,) = route.lines.of("compaction_late")
        assert told["partitions"] == list(HOURS)
        # Then at its leisure.
        assert late.wait(PATIENCE_S)
        wait_for(lambda: route.kinds().count("REPLACE") == 2)
        assert route.kinds()[:4] == ["INTENT"] * 2 + ["ABANDON"] * 2
    finally:
        route.leave()


def late_after_the_first(route: Route, error: SluicewayError | None = None) -> None:
    """The first file that is written for an announcement takes until its time is over."""

    def slow(until: float | None) -> None:
        if until is not None:
            wait_for(lambda: time.monotonic() >= until)
            if error is not None:
                raise error

    route.rewriter.act = slow


def test_what_was_compacted_at_the_last_moment_is_not_put_off(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "BEFORE_READY_S", 0.1)
    late_after_the_first(route)
    wait_for(lambda: route.compactor.is_done("dt=20261120"))
    assert route.lines.of("compaction_late") == []
    assert [each["partition"] for each in route.lines.of("compacted")] == list(HOURS)
    assert route.kinds() == ["INTENT"] * 2 + ["REPLACE"] * 2


def test_groups_that_were_not_begun_in_time_are_put_off_with_the_one_that_was(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "BEFORE_READY_S", 0.1)
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    late_after_the_first(route, TaskFailedError("it was given up: its time is over"))
    wait_for(lambda: route.compactor.is_done("dt=20261120"))
    (told,) = route.lines.of("compaction_late")
    assert told["partitions"] == list(HOURS)
    wait_for(lambda: route.kinds().count("REPLACE") == 2)


def test_partition_that_needs_nothing_is_not_put_off_with_those_behind_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "BEFORE_READY_S", 0.1)
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    route = Route(tmp_path, compact="10")
    try:
        late_after_the_first(route)
        wait_for(lambda: route.compactor.is_done("dt=20261120"))
        (told,) = route.lines.of("compaction_late")
        assert told["partitions"] == [HOURS[1]]
    finally:
        route.leave()


def test_two_prefixes_that_are_awaited_in_turn_are_each_begun_once(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(_: float | None) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)

    route.rewriter.act = wait
    begun: list[object] = []
    add = route.compactor._add

    def noted(order: Any) -> None:
        begun.append(order)
        add(order)

    monkeypatch.setattr(route.compactor, "_add", noted)
    assert not route.compactor.is_done(HOURS[0])
    assert entered.wait(PATIENCE_S)
    for _ in range(2):
        assert not any(route.compactor.is_done(hour) for hour in HOURS)
    go_on.set()
    assert len(begun) == 2
    wait_for(lambda: all(route.compactor.is_done(hour) for hour in HOURS))
    assert len(begun) == 2


def test_request_of_many_groups_lets_what_is_to_be_announced_go_between_them(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 1)
    entered, go_on = threading.Event(), threading.Event()

    def wait(_: float | None) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)

    route.rewriter.act = wait
    asked = route.ask("dt=20261120")
    assert entered.wait(PATIENCE_S)
    assert not route.compactor.is_done(HOURS[1])
    go_on.set()
    answer = route.answer(asked)
    wait_for(lambda: route.compactor.is_done(HOURS[1]))
    # The second group was asked for by the request, and done for the announcement.
    assert [until is None for until in route.rewriter.untils] == [True, False]
    assert [each.outcome for each in answer.partitions] == ["compacted", "left"]
    assert route.kinds() == ["INTENT", "REPLACE"] * 2


def found(name: str, files: int, size_bytes: int, outcome: str = "") -> PartitionDone:
    size = BigInt(size_bytes)
    return PartitionDone(name, outcome, "", files, files, size, size, 0, 0)


def test_group_is_bounded_by_partitions_files_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "MOST_IN_A_GROUP", 3)
    monkeypatch.setattr(compactor, "MOST_GROUP_FILES", 10)
    monkeypatch.setattr(compactor, "MOST_GROUP_BYTES", 100)
    waiting = deque(
        [
            *(found(f"small{number}", 2, 1) for number in range(4)),
            found("left", 50, 500, CompactionOutcome.LEFT),
            found("many", 9, 1),
            found("large", 1, 101),
            found("more", 50, 1),
        ]
    )
    groups = []
    while waiting:
        left, names = next_group(waiting)
        groups.append((names, [each.partition for each in left]))
    assert groups == [
        (["small0", "small1", "small2"], []),
        (["small3"], ["left"]),
        (["many"], []),
        (["large"], []),
        (["more"], []),
    ]


def test_prefixes_that_were_announced_are_not_kept_in_mind(route: Route) -> None:
    for day in range(1, 4):
        wait_for(lambda: route.compactor.is_done(f"dt=202611{day:02d}"))  # noqa: B023
    assert list(route.compactor._awaited) == ["dt=20261103"]


def test_route_that_is_left_gives_its_work_up_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    route = Route(tmp_path)
    entered = threading.Event()

    def wait(_: float | None) -> None:
        entered.set()
        assert route.rewriter.cancelled.wait(PATIENCE_S)
        raise TaskFailedError("it was given up: its route is left")

    route.rewriter.act = wait
    request = route.ask(HOURS[0])
    assert entered.wait(PATIENCE_S)
    assert not route.compactor.is_done(HOURS[1])
    route.leave()
    assert route.compactor.is_done(HOURS[1])
    # The next driver carries it out: nobody was told that it is done.
    assert route.log.storage.status(route.layout.request(request.id)) is not None
    assert route.kinds() == ["INTENT"]
    route.compactor.enqueue(request)
    assert route.kinds() == ["INTENT"]


def test_driver_that_is_fenced_behind_its_answer_leaves_the_request_to_the_next(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def fenced() -> None:
        asked.set()
        raise FencedError("term 1 was taken over")

    overwrite = route.log.storage.overwrite

    def then_fenced(path: str, data: bytes) -> None:
        overwrite(path, data)
        if path.endswith(".answer.json") and decode(data, CompactAnswer).finished:
            route.log.check_held = fenced

    monkeypatch.setattr(route.log.storage, "overwrite", then_fenced)
    request = route.ask(*HOURS)
    assert asked.wait(PATIENCE_S)
    assert route.log.storage.status(route.layout.request(request.id)) is not None
