"""What the rooms of a job say to each other in a route's folder `rooms`. Advice, never truth.

The log decides who has the route. A lost or torn file costs a wait or a question to an operator.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import Storage
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import StrictJsonError, decode, encode

REPORT_EVERY_S = 10.0
SILENT_AFTER_S = 60.0
"""A room whose counter stood still for so long, by the reader's clock, is silent."""

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class RoomReport:
    """What the driver of a room says of itself, in `rooms/<room>.json`.

    Attributes:
        counter: Rises with each report: a reader sees by it that the room lives.
        digest: Digest of the driver's job file, without `rooms` and secrets.
        holds: Whether it has the route; else it is a standby.
        ready: Whether it could take over now.
        reasons: Why it could not; empty when it is ready.
        waiting_rows: Rows in the logs that are not committed; None when that is not known.
        term: Latest term of the log that it has seen.
        reported_ms: When, by the room's own clock; for people.
        auto_term: Last term that this room has taken without an operator; 0 for none.
        compare_owed: Whether the catalog is still to be compared with the whole fold.
        confirm_term: Term that an operator has to confirm to be replaced by this room; 0 for none.
        notices: What is wrong with the rooms themselves, such as copies in one room only.
        positions: How many source partitions continue in its copies, by method; empty where one
            cluster spans the rooms.
        lost_room: Room that may have rows which no copy has, since this one took over; empty for
            none.
        lost_ms: When this room took over from it, by this room's clock; 0 for never.
        copied: How far each `<topic>/<partition>` is copied, as an offset of the other room's log;
            empty where copies neither name their rows nor keep their offsets.
        unfaithful: Copies, by `<topic>/<partition>`, that got more or fewer rows than the table:
            until a switch, `mirror_only` has to be confirmed for them.
        cut: Logs of the other room, by `<topic>/<partition>`, that ended before a row that was
            copied, and the topic id of that copy. While it has this id, the route is halted here.
        log_ends: Where each log of the room that has the route ended after its report before; empty
            where copies do not name their rows.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {
            "auto_term",
            "compare_owed",
            "confirm_term",
            "notices",
            "positions",
            "lost_room",
            "lost_ms",
            "copied",
            "log_ends",
            "unfaithful",
            "cut",
        }
    )
    room: str
    counter: int
    driver: str
    host: str
    pid: int
    digest: str
    holds: bool
    ready: bool
    reasons: tuple[str, ...]
    waiting_rows: int | None
    term: int
    reported_ms: int
    auto_term: int = 0
    compare_owed: bool = False
    confirm_term: int = 0
    notices: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)
    lost_room: str = ""
    lost_ms: int = 0
    copied: dict[str, int] = field(default_factory=dict)
    log_ends: dict[str, int] = field(default_factory=dict)
    unfaithful: tuple[str, ...] = ()
    cut: dict[str, str] = field(default_factory=dict)


def has_taken(storage: Storage, layout: LedgerLayout, room: str, term: int) -> bool:
    """Whether a room's driver has fenced this term and knows where its logs continue.

    The fence alone does not say so. Until then producers must not write to copies whose end is
    the position.

    Raises:
        StorageUnavailableError: The store failed.
    """
    report = read_advice(storage, layout.room(room), RoomReport)
    return report is not None and report.holds and report.term >= term


def log_name(topic: str, partition: LogKey) -> str:
    """How `RoomReport` names a source partition."""
    return f"{topic}/{partition}"


@dataclass(frozen=True, slots=True)
class HandPosition:
    """Where an operator has a source partition continue in another room's log.

    Attributes:
        accepted: `gap` or `twice`: what the operator accepts to be possible.
    """

    topic: str
    partition: LogKey
    offset: int
    accepted: str


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    """What an operator asks for, in `rooms/_switch.json`.

    Attributes:
        id: Uuid of the request.
        to: The room that is to have the route.
        term: The term that may be replaced: a later one makes the request void.
        now: Whether the room may fence although the driver of the term has not released its lease.
        force: Whether it may although it is not ready.
        requested_ms: When, by the operator's clock; for people.
        confirms: What the operator confirms of the mirror (`rooms.positions.CONFIRMATIONS`).
        by_hand: Positions that the operator decides.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"confirms", "by_hand"})
    id: str
    to: str
    term: int
    operator: str
    reason: str
    now: bool
    force: bool
    requested_ms: int
    confirms: tuple[str, ...] = ()
    by_hand: tuple[HandPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenUpRoom:
    """A lost room holds no announcement any more, in `rooms/_given_up.json`.

    Attributes:
        room: The room that was lost.
        lost_ms: `RoomReport.lost_ms` of the room that took over.
        drained: Whether the table has all its rows; else an operator has given them up.
        operator: `user@host`.
        reason: In the operator's words.
    """

    room: str
    lost_ms: int
    drained: bool
    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class DrillResult:
    """The last drill of a route, in `rooms/_drill.json`. Times are milliseconds since 1970.

    Attributes:
        came_from: Room that had the route before.
        to: Room that has it since.
        ended_ms: When the new room had committed.
        seconds: From the request to the first record after the new room's fence.
        rows_before: Rows of the ledger when the drill began, and `rows_after` when it ended.
        ok: Whether the new room has the route, and no row is missing.
    """

    came_from: str
    to: str
    ended_ms: int
    seconds: float
    rows_before: int
    rows_after: int
    ok: bool


def read_advice(storage: Storage, path: str, kind: type[_Kind]) -> _Kind | None:
    """A file of the folder; None when it is absent, torn or of another version.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(path)
    try:
        return None if raw is None else decode(raw, kind)
    except StrictJsonError:
        return None


def write_advice(
    storage: Storage,
    layout: LedgerLayout,
    path: str,
    content: RoomReport | SwitchRequest | GivenUpRoom | DrillResult,
) -> None:
    """Replace a file of the folder.

    Raises:
        StorageUnavailableError: The store failed.
    """
    storage.make_folders(layout.rooms)
    storage.overwrite(path, encode(content))


def lost_room(storage: Storage, layout: LedgerLayout, room: str) -> RoomReport | None:
    """What the room that has the route reports, while a lost room may have rows that no copy has.

    Args:
        storage: The store of the table.
        layout: Where the route's ledger is.
        room: The room that has the route.

    Returns:
        None when no room was lost, or when it was drained or given up since.

    Raises:
        StorageUnavailableError: The store failed.
    """
    report = read_advice(storage, layout.room(room), RoomReport)
    if report is None or not report.lost_room:
        return None
    given = read_advice(storage, layout.given_up, GivenUpRoom)
    lost = (report.lost_room, report.lost_ms)
    return None if given is not None and (given.room, given.lost_ms) == lost else report


def read_reports(
    storage: Storage, layout: LedgerLayout, rooms: Iterable[str]
) -> dict[str, RoomReport]:
    """Reports of these rooms, as far as there are any.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found = {room: read_advice(storage, layout.room(room), RoomReport) for room in rooms}
    return {room: report for room, report in found.items() if report is not None}


class Liveness:
    """Which rooms live, by counters that rise and by the reader's own clock."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[tuple[str, int], float, bool]] = {}

    def update(self, report: RoomReport) -> bool:
        """Take in a report; whether its counter has risen since an earlier one, not long ago."""
        mark, now = (report.driver, report.counter), time.monotonic()
        before, since, rose = self._marks.get(report.room, (mark, now, False))
        if mark != before:
            since, rose = now, True
        self._marks[report.room] = (mark, since, rose)
        return rose and now - since < SILENT_AFTER_S
