"""A start resolved for new partitions; the source is asked on real servers elsewhere."""

from collections.abc import Mapping, Sequence

import pytest

from sluiceway.errors import OffsetsLostError
from sluiceway.jobfile.blocks.start import EARLIEST, LATEST, StartAt
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourcePartition,
)

P0, P1 = SourcePartition("orders", 0), SourcePartition("orders", 1)
BOUNDS = {P0: LogBounds(5, 100, 110), P1: LogBounds(0, 7, 7)}


class KnownSource(SourceClient):
    """A source that has answers for starts only."""

    def __init__(self, answers: Mapping[SourcePartition, int]) -> None:
        self.answers = dict(answers)
        self.asked: list[object] = []

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        raise NotImplementedError

    def list_topics(self) -> tuple[str, ...]:
        raise NotImplementedError

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        raise NotImplementedError

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        self.asked.append(timestamp_ms)
        return {one: self.answers[one] for one in partitions}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        self.asked.append(group)
        return {one: self.answers[one] for one in partitions if one in self.answers}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def resolved(start: StartAt, **answers: int) -> list[tuple[int, str]]:
    source = KnownSource({SourcePartition("orders", int(p[1:])): at for p, at in answers.items()})
    found = resolve_start(start, [P0, P1], BOUNDS, source)
    return [(found[one].offset, found[one].how) for one in (P0, P1)]


def test_words_are_the_ends_of_the_log_that_can_be_read() -> None:
    assert resolved(EARLIEST) == [(5, "earliest"), (0, "earliest")]
    assert resolved(LATEST) == [(100, "latest"), (7, "latest")]


def test_timestamp_is_what_the_source_says() -> None:
    start = StartAt("timestamp", timestamp_ms=9)
    assert resolved(start, p0=40, p1=7) == [(40, "timestamp"), (7, "timestamp")]


def test_offsets_and_groups_leave_the_rest_at_its_earliest() -> None:
    given = StartAt("offsets", offsets=(("orders", 0, 44), ("other", 1, 3)))
    assert resolved(given) == [(44, "offsets"), (0, "earliest")]
    group = StartAt("group", group="g")
    assert resolved(group, p0=110) == [(110, "group"), (0, "earliest")]
    assert resolved(group) == [(5, "earliest"), (0, "earliest")]


@pytest.mark.parametrize("offset", [4, 111])
def test_offset_outside_of_the_log_is_lost_with_the_numbers(offset: int) -> None:
    message = rf"orders\[0\]: .*offset {offset}, the log runs from 5 to 110"
    with pytest.raises(OffsetsLostError, match=message):
        resolved(StartAt("offsets", offsets=(("orders", 0, offset),)))
    with pytest.raises(OffsetsLostError, match=message):
        resolved(StartAt("group", group="g"), p0=offset)


def test_nothing_new_asks_nothing() -> None:
    source = KnownSource({})
    assert resolve_start(StartAt("group", group="g"), [], BOUNDS, source) == {}
    assert source.asked == []
