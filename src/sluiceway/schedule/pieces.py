"""Several tasks read one source partition's backlog: each a piece of it, one after another.

Tasks that would have nothing to do get a piece each. All pieces but the last end at the offset at
which the next one begins. The last reads on to the deadline, as the whole split would have. What a
task has read counts only when all pieces before it were read to their ends. So a piece is somewhat
shorter than what an earlier epoch read of the source partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.sources.contract import SourcePartition
from sluiceway.worker.plan import SplitResult, TaskResult

# Below this a task costs more than it brings.
LEAST_PIECE: Final = 10_000
# Of what an epoch has read; tasks that share a machine are slower than one alone.
_PIECE_SHARE: Final = (3, 4)

_Key = tuple[str, SourcePartition]


@dataclass(slots=True)
class _Chain:
    """The tasks that read one source partition of a route, in the order of its offsets.

    Attributes:
        place: Place of the last piece, among the splits of its task.
    """

    tasks: list[int]
    place: int


class SplitPieces:
    """Cuts splits of an epoch, and puts together what came of them. Used by the loop's thread."""

    def __init__(self) -> None:
        self._reached: dict[_Key, int] = {}
        self._chains: dict[str, dict[SourcePartition, _Chain]] = {}

    def cut(self, epochs: Mapping[str, PlannedEpoch], idle: Sequence[int]) -> None:
        """Give idle tasks a piece of the longest backlogs. Called once the splits are dealt out.

        Args:
            epochs: Epochs by route; `by_task` of epochs with a backlog is changed.
            idle: Numbers of tasks that have no split.
        """
        self._chains = {}
        for task in idle:
            if not self._cut_longest(epochs, task):
                return

    def share(self, route: str, epochs: Mapping[str, PlannedEpoch]) -> None:
        """Join the answers of these routes as those of the one whose splits were cut for all."""
        chains = self._chains.get(route, {})
        for name, epoch in epochs.items():
            read = {each.split.partition for each in epoch.splits}
            self._chains[name] = {each: chain for each, chain in chains.items() if each in read}

    def _cut_longest(self, epochs: Mapping[str, PlannedEpoch], task: int) -> bool:
        longest: tuple[int, str, SourcePartition, int] | None = None
        for route, epoch in epochs.items():
            for each in epoch.splits:
                partition = each.split.partition
                if each.split.origin is not None:
                    # Which copies a piece drops depends on all that is before it.
                    continue
                piece = self._piece(route, partition)
                last = _last(self._chains.get(route, {}), epoch, partition)
                left = 0 if last is None else _backlog(last) - piece
                if piece >= LEAST_PIECE <= left and (longest is None or left > longest[0]):
                    longest = (left, route, partition, piece)
        if longest is None:
            return False
        _, route, partition, piece = longest
        chains = self._chains.setdefault(route, {})
        _append(chains, epochs[route], partition, piece, task)
        return True

    def _piece(self, route: str, partition: SourcePartition) -> int:
        share, of = _PIECE_SHARE
        return self._reached.get((route, partition), 0) * share // of

    def join(
        self, route: str, epoch: PlannedEpoch, answers: Sequence[TaskResult]
    ) -> list[TaskResult]:
        """Leave out what was read after a hole. Called with what the tasks have answered.

        Args:
            route: Its name, as in `cut`.
            epoch: The epoch as it was planned.
            answers: Answers of its tasks; a task that did not finish has none.

        Returns:
            The others; of each source partition in the order of its offsets. What is left out is
            read again in a later epoch.
        """
        by_task = {answer.task: answer for answer in answers}
        followers: dict[int, None] = {}
        holed: set[int] = set()
        for partition, chain in self._chains.get(route, {}).items():
            whole = True
            for task in chain.tasks:
                answer = by_task.get(task)
                if task != chain.tasks[0]:
                    followers[task] = None
                    if not whole and (answer is None or answer.failure is None):
                        holed.add(task)
                whole = whole and _is_whole(answer, epoch.by_task[task], partition)
        kept = [answer for answer in answers if answer.task not in followers]
        kept += [by_task[task] for task in followers if task in by_task and task not in holed]
        self._set_reached(route, epoch, kept)
        return kept

    def _set_reached(self, route: str, epoch: PlannedEpoch, answers: Sequence[TaskResult]) -> None:
        """Keep how much a task can read of each source partition in an epoch."""
        ended: dict[SourcePartition, int] = {}
        open_ended: dict[SourcePartition, int] = {}
        for answer in answers:
            if answer.failure is not None:
                continue
            for planned, split in zip(epoch.by_task[answer.task], answer.splits, strict=True):
                partition, length = planned.split.partition, int(split.end - split.start)
                found = ended if _is_read(planned, split) else open_ended
                found[partition] = max(length, found.get(partition, 0))
        for partition, length in ended.items():
            # A task that came to its end might have read more.
            self._reached[route, partition] = max(length, self._reached.get((route, partition), 0))
        for partition, length in open_ended.items():
            self._reached[route, partition] = length


def _last(
    chains: Mapping[SourcePartition, _Chain], epoch: PlannedEpoch, partition: SourcePartition
) -> PlannedSplit | None:
    """The last piece of a source partition; None when no task reads it now."""
    chain = chains.get(partition)
    if chain is not None:
        return epoch.by_task[chain.tasks[-1]][chain.place]
    first = _find(epoch, partition)
    return None if first is None else epoch.by_task[first[0]][first[1]]


def _find(epoch: PlannedEpoch, partition: SourcePartition) -> tuple[int, int] | None:
    for task, splits in epoch.by_task.items():
        for place, each in enumerate(splits):
            if each.split.partition == partition:
                return task, place
    return None


def _backlog(planned: PlannedSplit) -> int:
    """Records that lie in the log already, up to where the split ends."""
    stop = planned.split.stop_offset
    if stop is None:
        return planned.lag_records
    return min(planned.lag_records, stop - planned.split.start_offset)


def _append(
    chains: dict[SourcePartition, _Chain],
    epoch: PlannedEpoch,
    partition: SourcePartition,
    piece: int,
    task: int,
) -> None:
    chain = chains.get(partition)
    if chain is None:
        found = _find(epoch, partition)
        if found is None:
            return
        chain = chains[partition] = _Chain([found[0]], found[1])
    before, place = chain.tasks[-1], chain.place
    splits = list(epoch.by_task[before])
    cut = splits[place]
    middle = cut.split.start_offset + piece
    splits[place] = replace(
        cut, split=replace(cut.split, stop_offset=middle), expected_records=piece
    )
    rest = PlannedSplit(
        # The committed epoch belongs to the committed end, which is not where this begins.
        split=replace(cut.split, start_offset=middle, leader_epoch=None, new_leader=False),
        range_start=middle,
        expected_records=max(0, cut.expected_records - piece),
        lag_records=cut.lag_records - piece,
        leader_epoch=cut.leader_epoch,
    )
    epoch.by_task = dict(sorted({**epoch.by_task, before: tuple(splits), task: (rest,)}.items()))
    chain.tasks.append(task)
    chain.place = 0


def _is_whole(
    answer: TaskResult | None, planned: Sequence[PlannedSplit], partition: SourcePartition
) -> bool:
    """Whether a piece was read to its end."""
    if answer is None or answer.failure is not None:
        return False
    return any(
        each.split.partition == partition and _is_read(each, split)
        for each, split in zip(planned, answer.splits, strict=True)
    )


def _is_read(planned: PlannedSplit, split: SplitResult) -> bool:
    stop = planned.split.stop_offset
    return stop is not None and int(split.end) >= stop
