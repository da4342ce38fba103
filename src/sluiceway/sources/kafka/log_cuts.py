"""What librdkafka says when a log no longer holds what its leader epoch promised (KIP-320)."""

import re
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer

from sluiceway.errors import OffsetsLostError, SourceUnavailableError, TaskFailedError
from sluiceway.sources.contract import Split
from sluiceway.sources.kafka.jump_check import log_bounds
from sluiceway.sources.kafka.native_consumer import NativeConsumer

_CUT: Final = re.compile(
    r"offset (\d+) \(leader epoch (\d+)\): "
    r"broker end offset is (-?\d+) \(offset leader epoch (-?\d+)\)"
)


@dataclass(frozen=True, slots=True)
class LogCut:
    """Where a log was cut, as its leader answered to a leader epoch.

    Attributes:
        requested: The offset that the consumer was at.
        epoch: The leader epoch that it asked for.
        end: First offset that is not of that epoch or an older one; -1 when the leader knows none.
        end_epoch: The newest epoch up to that one which the leader knows; -1 for none.
    """

    requested: int
    epoch: int
    end: int
    end_epoch: int


def log_cut(reason: str) -> LogCut | None:
    """Read the library's text; None when it says something else."""
    found = _CUT.search(reason)
    return LogCut(*map(int, found.groups())) if found else None


def cut_failure(
    consumer: Consumer | NativeConsumer, split: Split, cut: LogCut
) -> OffsetsLostError | SourceUnavailableError | TaskFailedError:
    """Build the error for a log that was cut, by whether it lost anything that is committed."""
    where = str(split.partition)
    if cut.end >= split.start_offset:
        # Only what this attempt has read and no epoch has committed; another reads on from there.
        return TaskFailedError(
            f"the log was truncated to offset {cut.end} while it was read at {cut.requested}",
            where=where,
        )
    try:
        start, end = log_bounds(consumer, split.partition)
    except SourceUnavailableError as failure:
        return failure
    evidence = {
        "committed_end": split.start_offset,
        "leader_epoch": cut.epoch,
        "log_start": start,
        "log_end": end,
    }
    if cut.end < 0:
        said = f"its leader knows no leader epoch up to {cut.epoch}, of which the rows before were"
    else:
        evidence |= {"cut_at": cut.end, "cut_epoch": cut.end_epoch}
        said = (
            f"what it holds of leader epochs up to {cut.epoch} ends at {cut.end}: "
            "it was truncated, and other rows came after it"
        )
    return OffsetsLostError(
        f"the log runs from {start} to {end}, the committed end is {split.start_offset}, "
        f"and {said}",
        where=where,
        hint="`sluiceway explain SW455` has the ways out",
    ).with_report(evidence)
