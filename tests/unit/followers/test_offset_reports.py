"""Reports for lag tools: handed over at once, newest ends only, nobody waits for a dead group."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sluiceway.errors import FencedError, SourceUnavailableError
from sluiceway.followers.offset_reports import OffsetReports
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourcePartition,
)

_LOG = SourcePartition("orders", 0)
_PATIENCE_S = 60.0


def no_question() -> None:
    """Of a driver that nobody has replaced."""


class _Source(SourceClient):
    """Takes reports when `gate` is open; groups of `dead` never answer."""

    def __init__(self, *dead: str) -> None:
        self.dead = set(dead)
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.reported: list[tuple[str, int]] = []

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        self.asked.set()
        assert self.gate.wait(_PATIENCE_S)
        self.reported.append((group, ends[_LOG]))
        if group in self.dead:
            raise SourceUnavailableError("no coordinator", where=group)

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        raise NotImplementedError

    def list_topics(self) -> tuple[str, ...]:
        raise NotImplementedError

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        raise NotImplementedError

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        raise NotImplementedError

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        raise NotImplementedError

    def close(self) -> None:
        self.gate.set()


@contextmanager
def _reports(source: _Source, *, rest_s: float = 3600.0) -> Iterator[OffsetReports]:
    reports = OffsetReports(source, stderr_log(level="error"), rest_s=rest_s)
    try:
        yield reports
    finally:
        source.close()
        reports.close()


def test_caller_goes_on_while_a_report_hangs_and_only_the_newest_ends_follow() -> None:
    source = _Source()
    with _reports(source) as reports:
        reports.want("a", {_LOG: 1}, no_question)
        assert source.asked.wait(_PATIENCE_S)
        for end in (2, 3, 4):
            reports.want("a", {_LOG: end}, no_question)
            reports.want("b", {_LOG: end}, no_question)
        assert source.reported == []
    assert source.reported == [("a", 1), ("a", 4), ("b", 4)]


def test_group_that_does_not_answer_rests_and_others_are_reported() -> None:
    source = _Source("dead")
    source.gate.set()
    with _reports(source) as reports:
        reports.want("dead", {_LOG: 1}, no_question)
        _wait_until(source, ("dead", 1))
        for end in (2, 3):
            reports.want("dead", {_LOG: end}, no_question)
            reports.want("live", {_LOG: end}, no_question)
            _wait_until(source, ("live", end))
    assert source.reported == [("dead", 1), ("live", 2), ("live", 3)]


def test_group_is_asked_again_with_its_newest_ends_when_its_rest_is_over() -> None:
    source = _Source("late")
    with _reports(source, rest_s=0.01) as reports:
        reports.want("late", {_LOG: 1}, no_question)
        assert source.asked.wait(_PATIENCE_S)
        reports.want("late", {_LOG: 2}, no_question)
        source.gate.set()
        _wait_until(source, ("late", 2))
        source.dead.clear()
    assert source.reported[0] == ("late", 1)
    assert set(source.reported[1:]) == {("late", 2)}


def test_nothing_is_taken_after_the_end() -> None:
    source = _Source()
    with _reports(source) as reports:
        pass
    reports.want("a", {_LOG: 1}, no_question)
    reports.close()
    assert source.reported == []


def _wait_until(source: _Source, report: tuple[str, int]) -> None:
    pause = threading.Event()
    for _ in range(int(_PATIENCE_S / 0.01)):
        if report in source.reported:
            return
        pause.wait(0.01)
    raise AssertionError(f"{report} never came: {source.reported}")


def test_driver_that_was_fenced_does_not_report_its_older_ends() -> None:
    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    source = _Source()
    source.gate.set()
    with _reports(source) as reports:
        reports.want("a", {_LOG: 1}, fenced)
        reports.want("b", {_LOG: 7}, no_question)
        _wait_until(source, ("b", 7))
    assert source.reported == [("b", 7)]
