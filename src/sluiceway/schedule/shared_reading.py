"""Routes that read one source partition from one offset are dealt to the same task.

Each route still has its own epoch, files and record (ADR 126). Only the fetch, and the decoding
where it agrees, are one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess

# Routes that are further apart do not wait for each other.
MEET_RECORDS: Final = 50_000

_Log = tuple[SourceAccess, SourcePartition]


@dataclass(slots=True)
class SharedReading:
    """Routes that are dealt out as one.

    Attributes:
        epoch: Stands for all of them: each of their splits once.
        routes: Their names; the first one names the group.
    """

    epoch: PlannedEpoch
    routes: list[str]
    splits: dict[SourcePartition, Split] = field(default_factory=dict)

    def fits(self, epoch: PlannedEpoch) -> bool:
        """Whether a route has a split in common with it, and no source partition that differs."""
        if epoch.route.source != self.epoch.route.source:
            return False
        known = [(self.splits.get(each.split.partition), each.split) for each in epoch.splits]
        return any(mine is not None for mine, _ in known) and all(
            mine in (None, split) for mine, split in known
        )

    def add(self, route: str, epoch: PlannedEpoch) -> None:
        """Take a route in that fits."""
        self.routes.append(route)
        for each in epoch.splits:
            if each.split.partition not in self.splits:
                self.splits[each.split.partition] = each.split
                self.epoch.splits.append(each)

    def deal(self, epochs: Mapping[str, PlannedEpoch]) -> None:
        """Give each route its part of the tasks that its group was dealt."""
        for route in self.routes:
            mine = {each.split.partition: each for each in epochs[route].splits}
            by_task = {
                task: tuple(_own(mine[piece.split.partition], piece) for piece in pieces)
                for task, dealt in self.epoch.by_task.items()
                if (pieces := [piece for piece in dealt if piece.split.partition in mine])
            }
            epochs[route].by_task = by_task


def shared_readings(epochs: Mapping[str, PlannedEpoch]) -> list[SharedReading]:
    """Group routes whose splits are equal. Called once an epoch, before its splits are dealt out.

    A route that has stopped elsewhere in one of its source partitions reads alone.

    Args:
        epochs: Epochs by route, in a stable order.
    """
    found: list[SharedReading] = []
    by_log: dict[tuple[SourceAccess, Split], list[SharedReading]] = {}
    for route, epoch in epochs.items():
        keys = [(epoch.route.source, each.split) for each in epoch.splits]
        near = (each for key in keys for each in by_log.get(key, ()))
        group = next((each for each in near if each.fits(epoch)), None)
        if group is None:
            group = SharedReading(replace(epoch, splits=[], by_task={}), [])
            found.append(group)
        group.add(route, epoch)
        for key in keys:
            groups = by_log.setdefault(key, [])
            if group not in groups:
                groups.append(group)
    return found


def meet(epochs: Mapping[str, PlannedEpoch]) -> dict[str, PlannedEpoch]:
    """Let routes that read one source partition from several offsets end at one. Once an epoch.

    Where they are near each other, this epoch stops where the first of them begins, or at the
    log's end if that is nearer: from there they read together. Else each reads on by itself.

    Args:
        epochs: Epochs by route; their splits are replaced.

    Returns:
        Epochs that have something to read; a route that is there already waits for the others.
    """
    logs: dict[_Log, list[PlannedSplit]] = {}
    for epoch in epochs.values():
        for each in epoch.splits:
            logs.setdefault((epoch.route.source, each.split.partition), []).append(each)
    ends = {log: _meeting(readers) for log, readers in logs.items()}
    for epoch in epochs.values():
        epoch.splits = [
            ended
            for each in epoch.splits
            if (ended := _ended(each, ends[epoch.route.source, each.split.partition])) is not None
        ]
    return {route: epoch for route, epoch in epochs.items() if epoch.splits}


def _meeting(readers: list[PlannedSplit]) -> int | None:
    """Offset at which routes meet; None where they are together, or cannot be."""
    starts = [each.split.start_offset for each in readers]
    first = max(starts)
    if not 0 < first - min(starts) <= MEET_RECORDS or any(map(_is_limited, readers)):
        return None
    end = max(each.split.start_offset + each.lag_records for each in readers)
    # What lies beyond is read once for all, where it is more than a laggard has to catch up.
    return first if end - first > first - min(starts) else end


def _is_limited(planned: PlannedSplit) -> bool:
    """Whether a rate ends it before the log does: no route waits for that."""
    stop = planned.split.stop_offset
    return stop is not None and stop < planned.split.start_offset + planned.lag_records


def _ended(planned: PlannedSplit, end: int | None) -> PlannedSplit | None:
    split = planned.split
    if end is None or (split.stop_offset is not None and split.stop_offset <= end):
        return planned
    if split.start_offset >= end:
        return None
    most = min(planned.expected_records, end - split.start_offset)
    return replace(planned, split=replace(split, stop_offset=end), expected_records=most)


def _own(mine: PlannedSplit, piece: PlannedSplit) -> PlannedSplit:
    """A piece of the group's split, as the route has it."""
    first = piece.split.start_offset == mine.split.start_offset
    return replace(piece, range_start=mine.range_start) if first else piece
