"""Where logs begin and end, asked of each leader by itself: a silent one holds up no other."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from sluiceway.sources.contract import LogBounds, SourcePartition

Answers = Mapping[TopicPartition, Future[Any]]
Ask = Callable[[int, Sequence[SourcePartition], float], Answers]
"""Asks for one kind of offsets (0 first, 1 last stable, 2 high watermark) within seconds."""

_KINDS = 3
_LEAST_S = 0.05
_GRACE_S = 1.0


@dataclass(slots=True)
class LeaderBounds:
    """The questions to one leader, one kind of offsets after the other.

    In this order start <= end <= high watermark holds in a log that lives meanwhile.

    Attributes:
        leader: Id of the broker; None when it is not known.
        give_up_at: Monotonic time after which it is silent.
        found: Offsets of each kind so far.
        epochs: Leader epochs that the last answers came with.
        failures: Why a partition has no bounds.
    """

    leader: int | None
    partitions: Sequence[SourcePartition]
    ask: Ask
    give_up_at: float
    found: list[dict[SourcePartition, int]] = field(default_factory=list)
    epochs: dict[SourcePartition, int] = field(default_factory=dict)
    failures: dict[SourcePartition, KafkaException | TimeoutError] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)

    def begin(self) -> None:
        """Ask for the first kind."""
        self._next()

    def advance(self) -> bool:
        """Take in answers and ask for the next kind; whether it is over."""
        if not all(answer.done() for answer in self.answers.values()):
            # The library's own time-out comes first, and says more.
            if time.monotonic() < self.give_up_at + _GRACE_S:
                return False
            left = self._requested() - self.failures.keys()
            self.failures |= {one: TimeoutError("no answer in time") for one in left}
            return True
        offsets: dict[SourcePartition, int] = {}
        for asked, answer in self.answers.items():
            one = SourcePartition(asked.topic, asked.partition)
            try:
                said = answer.result(timeout=0)
            except KafkaException as failure:
                self.failures[one] = failure
                continue
            offset = int(said.offset)
            if said.leader_epoch is not None:
                self.epochs[one] = int(said.leader_epoch)
            if offset < 0:
                # What the library says, without an error, of a leader that did not answer.
                self.failures[one] = TimeoutError(f"no answer: offset {offset}")
            else:
                offsets[one] = offset
        self.found.append(offsets)
        if len(self.found) == _KINDS or not offsets:
            return True
        self._next()
        return False

    def bounds(self) -> dict[SourcePartition, LogBounds]:
        """Bounds of the partitions of which everything is known."""
        if len(self.found) < _KINDS:
            return {}
        start, stable, high = self.found
        return {
            one: LogBounds(start[one], stable[one], high[one], self.epochs.get(one)) for one in high
        }

    @property
    def is_silent(self) -> bool:
        """Whether the leader did not answer in time."""
        return any(isinstance(failure, TimeoutError) for failure in self.failures.values()) or any(
            failure.args and failure.args[0].name() == "_TIMED_OUT"
            for failure in self.failures.values()
            if isinstance(failure, KafkaException)
        )

    def _requested(self) -> set[SourcePartition]:
        return {SourcePartition(asked.topic, asked.partition) for asked in self.answers}

    def _next(self) -> None:
        wanted = [one for one in self.partitions if one not in self.failures]
        left_s = max(_LEAST_S, self.give_up_at - time.monotonic())
        self.answers = self.ask(len(self.found), wanted, left_s)
