"""What librdkafka's words about a cut log come to."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import (
    OffsetsLostError,
    SluicewayError,
    SourceUnavailableError,
    TaskFailedError,
)
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.log_cuts import LogCut, cut_failure, log_cut

_SAID = (
    "Partition log truncation detected at offset 10 (leader epoch 4): broker end offset is 6 "
    "(offset leader epoch 3). Reset to INVALID.: Local: Partition log truncation detected"
)
_UNKNOWN = (
    "No epoch found less or equal to offset 6 (leader epoch 9): broker end offset is -1 (offset "
    "leader epoch -1). Reset using configured policy.: Local: Partition log truncation detected"
)


def _failure(start: int, cut: LogCut) -> SluicewayError:
    consumer = cast("Any", SimpleNamespace(get_watermark_offsets=lambda *_, **__: (2, 15)))
    return cut_failure(consumer, Split(SourcePartition("orders", 0), start), cut)


def test_words_of_the_library_are_read() -> None:
    assert log_cut(_SAID) == LogCut(10, 4, 6, 3)
    assert log_cut(_UNKNOWN) == LogCut(6, 9, -1, -1)
    assert log_cut("fetch failed due to requested offset not available on the broker") is None


def test_cut_below_the_committed_end_is_a_loss_with_the_numbers() -> None:
    failure = _failure(10, LogCut(10, 4, 6, 3))
    assert isinstance(failure, OffsetsLostError)
    assert failure.evidence == {
        "committed_end": "10",
        "leader_epoch": "4",
        "log_start": "2",
        "log_end": "15",
        "cut_at": "6",
        "cut_epoch": "3",
    }


def test_leader_that_knows_no_such_epoch_is_a_loss_without_a_place() -> None:
    failure = _failure(6, LogCut(6, 9, -1, -1))
    assert isinstance(failure, OffsetsLostError)
    assert "cut_at" not in failure.evidence
    assert "knows no leader epoch up to 9" in str(failure)


def test_log_that_was_cut_to_its_very_begin_is_told_with_the_place() -> None:
    failure = _failure(6, LogCut(6, 9, 0, 3))
    assert isinstance(failure, OffsetsLostError)
    assert failure.evidence["cut_at"] == "0"


def test_cut_of_a_log_whose_leader_does_not_answer_is_looked_at_again() -> None:
    consumer = cast("Any", SimpleNamespace(get_watermark_offsets=lambda *_, **__: None))
    split = Split(SourcePartition("orders", 0), 10)
    failure = cut_failure(consumer, split, LogCut(10, 4, 6, 3))
    assert isinstance(failure, SourceUnavailableError)


@pytest.mark.parametrize("start", [5, 6])
def test_cut_of_what_nobody_has_committed_is_read_again(start: int) -> None:
    assert isinstance(_failure(start, LogCut(10, 4, 6, 3)), TaskFailedError)
