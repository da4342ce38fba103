"""The rooms of a route from outside: who has it, and who could take over."""

import time
from dataclasses import dataclass, field, replace

from sluiceway.audit.format_times import span
from sluiceway.audit.partition_why import Reason, WaitExplanation
from sluiceway.errors import LedgerCorruptError, StorageUnavailableError
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.generations import read_generations
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease
from sluiceway.ledger.room_files import (
    SILENT_AFTER_S,
    DrillResult,
    RoomReport,
    lost_room,
    read_advice,
    read_reports,
)
from sluiceway.storage.contract import Storage

DRILL_AGE_S = 30 * 86_400
"""A drill that is older needs attention."""


@dataclass(frozen=True, slots=True)
class ObservedRooms:
    """The rooms of one route at one moment.

    Attributes:
        here: Room of this process.
        home: Room where the job normally runs.
        names: All rooms.
        holder: Room whose driver has the route, or had it last; empty when none had.
        reports: What the drivers of the rooms said last, by room.
        drill: The last drill; None before the first.
        problem: Why that is not known; empty when it is.
        lost: Report of the holder, while announcements wait for rows of a lost room; else None.
        waits: How long the holder reads no row that another room lacks, in words; else empty.
        copied: Whether each room has a store of its own: reports of others are copies, and old.
        term: Latest term, which `switch --now` has to name; None where no driver has one.
    """

    here: str
    home: str
    names: tuple[str, ...]
    holder: str = ""
    reports: dict[str, RoomReport] = field(default_factory=dict)
    drill: DrillResult | None = None
    problem: str = ""
    lost: RoomReport | None = None
    waits: str = ""
    copied: bool = False
    term: int | None = None

    def attention(self, now_ms: int) -> list[str]:
        """Sentences about what an operator should check."""
        told = [f"the rooms are not known: {self.problem}"] if self.problem else []
        digests = {each.digest for each in self.reports.values()}
        for name in self.names:
            report = self.reports.get(name)
            if report is not None and report.confirm_term:
                command = f"switch JOB --to {name} --now --term {report.confirm_term} --reason WHY"
                told.append(
                    f"room {name} needs a confirmation: if room {self.holder} is lost, run "
                    f"`sluiceway {command} --execute`"
                )
            if name != self.holder and not self.copied:
                waits = f"; {self.waits}" if self.waits else ""
                told += [f"{each}{waits}" for each in self._not_ready(name, report, now_ms)]
        if len(digests) > 1:
            told.append("the job files of the rooms differ: bring them in line")
        told += [each for report in self.reports.values() for each in report.notices]
        if self.lost is not None:
            room = self.lost.lost_room
            told.append(
                f"announcements wait for rows of room {room}: when it is back, run `sluiceway "
                f"switch JOB --drain {room} --room {room}`, else `switch JOB --give-up {room}`"
            )
        if self.drill is not None and now_ms - self.drill.ended_ms > 1000 * DRILL_AGE_S:
            told.append("the last drill is over 30 days old; run `sluiceway drill JOB --to ROOM`")
        return told

    def standbys(self, now_ms: int) -> dict[str, str]:
        """Rooms that could take over: `ready`, `not ready` or `silent`, by room."""
        return {
            name: _readiness(self.reports[name], now_ms)
            for name in self.names
            if name != self.holder and name in self.reports
        }

    def _not_ready(self, name: str, report: RoomReport | None, now_ms: int) -> list[str]:
        if report is None:
            return [f"no driver of room {name} has ever reported"]
        if (age_s := _silent_s(report, now_ms)) is not None:
            return [f"room {name} has not reported for {span(int(1e6 * age_s))}"]
        return [] if report.ready else [f"room {name} is not ready: {'; '.join(report.reasons)}"]

    def lines(self) -> list[str]:
        """The rooms in words."""
        term = "" if self.term is None else f", term {self.term}"
        holder = f"room {self.holder} has it{term}" if self.holder else "no room has it yet"
        now_ms = time.time_ns() // 1_000_000
        others = ", ".join(f"{name} {word}" for name, word in self.standbys(now_ms).items())
        standby = f"; standby: {others}" if others else ""
        if self.copied:
            standby = "; another room has to adopt its copy: `sluiceway adopt JOB --dry-run`"
        lines = [f"{holder}; home {self.home}, here {self.here}{standby}"]
        for name in self.names:
            counts = self.reports[name].positions if name in self.reports else {}
            if counts and name != self.holder:
                found = ", ".join(f"{count} {method}" for method, count in counts.items())
                of = sum(counts.values())
                lines.append(f"room {name} continues in copies: of {of} positions {found}")
        if self.drill is not None:
            made = self.drill
            how = f"{made.seconds:.1f} s" if made.ok else "failed"
            ago = span(max(0, 1000 * (now_ms - made.ended_ms)))
            lines.append(f"last drill: {made.came_from} to {made.to}, {how}, {ago} ago")
        return lines


def _silent_s(report: RoomReport, now_ms: int) -> float | None:
    """Seconds since a report that is too old; else None. By two clocks, for people only."""
    age_s = (now_ms - report.reported_ms) / 1000
    return age_s if age_s > SILENT_AFTER_S else None


def _readiness(report: RoomReport, now_ms: int) -> str:
    if _silent_s(report, now_ms) is not None:
        return "silent"
    return "ready" if report.ready else "not ready"


def observed_rooms(
    storage: Storage, layout: LedgerLayout, rule: RoomRule, lease: Lease | None
) -> ObservedRooms:
    """Read what the rooms of a route say. Changes nothing."""
    # A lease from before the job had rooms is the home room's.
    holder = "" if lease is None else lease.room or rule.home
    if lease is not None and lease.released and lease.released_to:
        holder = lease.released_to
    holds = rule.mirror is not None and rule.mirror.holds and bool(holder)
    try:
        claims = read_generations(storage, layout) if rule.copied and lease is None else ()
        holder = claims[-1].room if claims else holder
        reports = read_reports(storage, layout, (rule.room,) if rule.copied else rule.names)
        drill = read_advice(storage, layout.drill, DrillResult)
        lost = lost_room(storage, layout, holder) if holds else None
    except (LedgerCorruptError, StorageUnavailableError) as error:
        return ObservedRooms(rule.room, rule.home, rule.names, problem=str(error))
    waits = _waits(rule) if holder == rule.home else ""
    return ObservedRooms(
        *(rule.room, rule.home, rule.names, holder, reports, drill),
        lost=lost,
        waits=waits,
        copied=rule.copied,
        term=None if lease is None else lease.term,
    )


def _waits(rule: RoomRule) -> str:
    if rule.mirror is None or not rule.mirror.first:
        return ""
    limit = rule.mirror.first_s
    how_long = "until it has copies of them" if limit is None else f"{limit:.0f} s for its copies"
    return f"by `mirrored_first` new rows wait {how_long}"


def with_lost_room(why: WaitExplanation, lost: RoomReport | None) -> WaitExplanation:
    """The explanation of a time that waits for a lost room's rows.

    Args:
        why: What is known so far.
        lost: What the room that took over reports; None where no lost room has rows.
    """
    closed = why.reason in (Reason.IN_ORDER, Reason.COMPACTING, Reason.ANNOUNCING)
    if lost is None or why.begin_us is None or not closed:
        return why
    if why.begin_us >= 1000 * lost.lost_ms:
        return why
    room = lost.lost_room
    text = (
        f"room {room} may have rows of it. When {room} is back, its mirror copies them: "
        f"`sluiceway switch JOB --drain {room} --room {room}`; when it is gone for good: "
        f"`sluiceway switch JOB --give-up {room} --reason WHY --execute`"
    )
    return replace(why, reason=Reason.LOST_ROOM, text=text, expected_us=None)
