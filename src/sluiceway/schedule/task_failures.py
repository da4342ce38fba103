"""What the failures of a route's tasks come to, judged by what its log and its source say now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluiceway.errors import (
    Fatal,
    OffsetsLostError,
    SluicewayError,
    SourceUnavailableError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.schedule.planner import (
    PlannedEpoch,
    PlannedSplit,
    readable_start,
    with_way_out,
)
from sluiceway.sources.contract import REFUSED_OFFSET, LogBounds, SourcePartition
from sluiceway.worker.plan import TaskResult


def failures_of(
    planned: PlannedEpoch,
    answers: Sequence[TaskResult],
    fold: Fold,
    bounds: Mapping[SourcePartition, LogBounds],
) -> list[SluicewayError]:
    """The errors that the loop reacts to, in the order of the answers. Called once an epoch.

    Args:
        planned: What was asked for.
        answers: This route's.
        fold: State of the ledger, with what the other tasks have read.
        bounds: Bounds of the source partitions that are read, as the brokers say after the tasks.
    """
    failures = []
    for answer in answers:
        if answer.failure is None:
            continue
        failure = answer.failure.to_error()
        if planned.alone:
            failure = _blamed(failure)
        splits = planned.by_task[answer.task]
        if isinstance(failure, OffsetsLostError) and (
            _is_behind(splits, fold, bounds) or _is_there(failure, bounds)
        ):
            # The next plan reads the log a second time, and says what it is with the numbers.
            failure = SourceUnavailableError(failure.message, where=failure.where)
        elif isinstance(failure, OffsetsLostError) and _is_counted_gap(splits, fold, bounds):
            # No end to waiting is needed: the log's start has risen since the plan.
            failure = SourceUnavailableError(
                f"{failure.message}; nothing of it was read before, the next epoch counts the gap",
                where=failure.where,
            )
        elif isinstance(failure, OffsetsLostError):
            failure = _with_way_out(splits, fold, failure)
        failures.append(failure)
    return failures


def _with_way_out(
    splits: Sequence[PlannedSplit], fold: Fold, failure: OffsetsLostError
) -> OffsetsLostError:
    """A cut log's loss with what resolves it; any other as the task has reported it."""
    logs = (each.split.partition for each in splits)
    one = next((one for one in logs if str(one) == failure.where), None)
    cut = one is not None and "leader_epoch" in failure.evidence
    return with_way_out(fold, one, failure) if one is not None and cut else failure


def _blamed(failure: SluicewayError) -> SluicewayError:
    """A task that served one route alone died for that route."""
    if not isinstance(failure, TaskDiedError):
        return failure
    return TaskFailedError(f"{failure.message} and served no other route", hint=failure.hint)


def _is_behind(
    splits: Sequence[PlannedSplit], fold: Fold, bounds: Mapping[SourcePartition, LogBounds]
) -> bool:
    """Whether a log ends below its committed end by now, and none begins after it."""
    behind = False
    for each in splits:
        one = each.split.partition
        known, place = fold.sources[one.topic, one.partition], bounds.get(one)
        if place is not None and place.start_offset > known.end:
            return False
        behind = behind or (place is not None and known.end > place.high_watermark)
    return behind


def _is_there(failure: OffsetsLostError, bounds: Mapping[SourcePartition, LogBounds]) -> bool:
    """Whether the leader has the offset that a task was refused.

    A broker that was cut off or stopped answers as the leader that it is no longer, with the end
    that its log had then.
    """
    offset = failure.evidence.get(REFUSED_OFFSET)
    places = (place for one, place in bounds.items() if str(one) == failure.where)
    place = next(places, None)
    if offset is None or place is None:
        return False
    return place.start_offset <= int(offset) <= place.high_watermark


def _is_counted_gap(
    splits: Sequence[PlannedSplit], fold: Fold, bounds: Mapping[SourcePartition, LogBounds]
) -> bool:
    """Whether retention took, between plan and fetch, only what a plan made now would skip."""
    risen = False
    for each in splits:
        one = each.split.partition
        if one not in bounds:
            continue
        try:
            start = readable_start(fold, one, bounds[one])
        except OffsetsLostError:
            return False
        risen = risen or start > each.split.start_offset
    return risen


FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 15.0
_FAILED_EPOCHS = 4


@dataclass(slots=True)
class RetryPause:
    """The pause of one route.

    Attributes:
        in_doubt: Whether another driver may be the reason of the last failure.
    """

    in_doubt: bool = False
    _retry_s: float = field(default_factory=lambda: FIRST_RETRY_S)
    _failed_epochs: int = 0

    def judge(self, failures: Sequence[SluicewayError], *, landed: bool) -> None:
        """Raise what the loop has to react to.

        An outage may last. A task that fails on its own rows epoch after epoch is no outage. It
        halts the route in the end, even while other source partitions commit.

        Args:
            failures: Failures of an epoch's tasks.
            landed: Whether the epoch has a record.
        """
        fatal = next((failure for failure in failures if isinstance(failure, Fatal)), None)
        if fatal is not None:
            raise fatal
        if landed and not failures:
            self._retry_s = FIRST_RETRY_S
        if not any(isinstance(failure, TaskFailedError) for failure in failures):
            self._failed_epochs = 0
        if failures:
            raise failures[0]

    def pause_s(self, error: SluicewayError) -> float | None:
        """How long to leave the route alone after an error; None halts it."""
        if isinstance(error, Fatal):
            return None
        self.in_doubt = True
        if isinstance(error, TaskFailedError):
            self._failed_epochs += 1
            if self._failed_epochs >= _FAILED_EPOCHS:
                return None
        pause, self._retry_s = self._retry_s, min(self._retry_s * 1.5, LONGEST_RETRY_S)
        return pause

    def begin_anew(self) -> None:
        """A route that comes back has all of it again."""
        self._retry_s = FIRST_RETRY_S
        self._failed_epochs = 0
