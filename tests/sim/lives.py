"""Drivers of the simulated world from their start to their end, and what they say meanwhile."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from sim.scheduler import Process
from sim.tasks import SimRunner
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import TaskFailedError

_TOLD = {
    "fenced": "FENCE",
    "committed": "DATA",
    "sources_pinned": "SOURCES",
    "snapshot": "SNAPSHOT",
    "lane_opened": "LANE",
    "lane_committed": "LANE_DATA",
}


class SimLog:
    """Takes log lines into the trace, and halts to the world."""

    def __init__(
        self,
        life: "Life",
        note: Callable[[str], None],
        told: Callable[[int, str, int], None],
        has_fenced: Callable[[Process, int], None],
    ) -> None:
        self._has_fenced = has_fenced
        self._life = life
        self._note = note
        self._told = told

    def bind(self, **fields: object) -> "SimLog":
        del fields
        return self

    def debug(self, event: str, **fields: object) -> None:
        self._note(f"{self._life.process.name}: [{event}] {fields}")

    def warning(self, event: str, **fields: object) -> None:
        self.debug(event, **fields)
        # Only the product damages records here. The weather has codes of its own: a replay
        # that waits with this one met a bug, or a substitute that does not fit.
        self._life.seen["rooms_released"] += event == "room_released"
        is_bug = event == "lane_waits" and fields["code"] == TaskFailedError.code
        if event == "old_records_damaged" or is_bug:
            self._life.halts.append((str(fields["code"]), str(fields["error"])))

    def info(self, event: str, **fields: object) -> None:
        self.debug(event, **fields)
        if event == "fenced":
            self._life.term = cast("int", fields["term"])
            self._has_fenced(self._life.process, self._life.term)
        if event == "epoch_discarded" or fields.get("ahead"):
            self._life.seen["thrown_away" if "ahead" not in fields else "ahead"] += 1
        self._life.seen["old_folders_removed"] += event == "old_folder_removed"
        self._life.seen["pieces_retried"] += event == "pieces_retried"
        self._life.seen["closed"] += event == "prefixes_closed"
        if event in _TOLD:
            self._told(cast("int", fields["seq"]), _TOLD[event], self._life.term)

    def error(self, event: str, **fields: object) -> None:
        self.debug(event, **fields)
        if event in ("route_halted",):
            self._life.halts.append((str(fields.get("code", event)), str(fields.get("error"))))


@dataclass(eq=False, slots=True)
class Life:
    """A driver from its start to its end."""

    process: Process
    stop: StopSignal
    runner: SimRunner
    seen: Counter[str]
    halts: list[tuple[str, str]] = field(default_factory=list)
    halts_seen: int = 0
    term: int = 0
    ended: bool = False
