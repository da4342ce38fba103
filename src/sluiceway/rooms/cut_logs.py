"""Logs of the other room that were cut after they were copied: copies of new rows look like old."""

from collections.abc import Mapping
from typing import Final

from sluiceway.errors import OffsetsLostError
from sluiceway.ledger.room_files import RoomReport, log_name
from sluiceway.schedule.source_view import SourceView

_REPORTS_LATER: Final = 3


class CutLogs:
    """Compares what was copied with log ends that were read three reports later.

    Args:
        found: What an earlier standby of this room has found.

    Attributes:
        found: Topic id of the copy, for each log that was cut. It stays, as the log grows again.
    """

    def __init__(self, found: Mapping[str, str] | None = None) -> None:
        self.found: dict[str, str] = dict(found or {})
        self._counter = 0
        self._copied: Mapping[str, int] = {}

    def compare(self, report: RoomReport, copied: Mapping[str, int], view: SourceView) -> None:
        """Take in a report of the room that has the route.

        Args:
            report: With the ends of its logs.
            copied: How far each log is copied now, by `log_name`.
            view: The copies.
        """
        if report.counter < self._counter + _REPORTS_LATER:
            return
        ends, copies = report.log_ends, _topic_ids(view)
        cut = (name for name, end in self._copied.items() if end > ends.get(name, end))
        self.found |= {name: copies[name] for name in cut if name in copies}
        self._counter, self._copied = report.counter, copied

    def problems(self, room: str, view: SourceView) -> tuple[str, ...]:
        """What is wrong now. A copy that was created again has no rows of the log as it was.

        Args:
            room: The room of the logs.
            view: The copies.
        """
        copies = _topic_ids(view)
        return tuple(
            f"{name} was cut in room {room}: it ended before a row that was copied, so copies of "
            "new rows would look like old ones"
            for name, copy in sorted(self.found.items())
            if copies.get(name) == copy
        )


def refuse_cut(problems: tuple[str, ...], room: str) -> None:
    """Halt a standby's route, also where an operator forces a switch. Called after its report.

    Args:
        problems: What `CutLogs` has found; nothing happens without any.
        room: The standby's room.

    Raises:
        OffsetsLostError: A log was cut.
    """
    if problems:
        raise OffsetsLostError(
            "; ".join(problems),
            where=f"room {room}",
            hint="create the topic of this room again, have all rows copied to it, and start the "
            "driver again",
        )


def _topic_ids(view: SourceView) -> dict[str, str]:
    return {
        log_name(each.partition.topic, each.partition.partition): each.identity.topic_id
        for partitions in view.by_topic.values()
        for each in partitions
    }
