"""A lost room that is back: which of its rows the table lacks. Or an operator gives them up.

The room's mirror copies the rows, with their origins, and the driver drops what the table has. So a
drain waits for the mirror, and reads the room's logs to know that nothing is left. A lane that
reads these logs into the table would be a second way in, with connections of two rooms.
"""

import time
from dataclasses import dataclass
from typing import Final

from sluiceway.errors import NotInThisVersionError, RequestRefusedError, WrongUsageError
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.room_files import GivenUpRoom, RoomReport, lost_room, write_advice
from sluiceway.operate.switch import SWITCH_WITHIN_S, RoutePlace
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.sources.contract import SourceClient, SourcePartition, Split
from sluiceway.sources.topic_sample import read_splits

_AGAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class LeftLog:
    """A log that the route has left for its copy.

    Attributes:
        origin_end: First offset whose row is not in the table.
        log_end: First offset that no committed row has.
        rows: Committed rows between the two: the table lacks them.
        gone: Offsets after `origin_end` that retention has removed.
    """

    partition: SourcePartition
    origin_end: int
    log_end: int
    rows: int
    gone: int


def rows_left(place: RoutePlace, room: str, source: SourceClient) -> tuple[LeftLog, ...]:
    """What the logs of a room have that the table lacks. Called in that room; changes nothing.

    Args:
        place: The route.
        room: The room that the route has left.
        source: Its queue.

    Raises:
        WrongUsageError: This process is of another room.
        NotInThisVersionError: Copies do not name their rows.
        RequestRefusedError: The route has not left these logs; also where one cluster spans the
            rooms.
        SluicewayError: The queue does not answer.
    """
    rule = place.rule
    if rule.room != room:
        raise WrongUsageError(
            f"a drain reads the logs of room {room}, and this process is of room {rule.room}",
            hint=f"run it where its brokers can be reached, with --room {room}",
        )
    if rule.mirror is None:
        raise _refused(
            place,
            f"both rooms read one cluster, so room {room} has no rows of its own",
            f"start the job there: the driver is a standby; `switch --to {room}` moves it back",
        )
    if rule.mirror.origin is None:
        raise NotInThisVersionError(
            "rows without an origin header are not drained in this version",
            where=place.config.route,
            hint=f"`--give-up {room}` gives up the rows that only that room has",
        )
    if place.holder == room:
        raise _refused(place, f"room {room} has the route", "there is nothing to drain")
    known = place.fold.sources.items()
    left = {
        SourcePartition(*key): each.origin
        for key, each in known
        if each.origin is not None and not each.retired
    }
    view = read_source_view(source, {one.topic for one in left})
    return tuple(_left_log(place, view, one, origin) for one, origin in sorted(left.items()))


def _left_log(
    place: RoutePlace, view: SourceView, one: SourcePartition, origin: OriginLog
) -> LeftLog:
    identity = next(
        (each.identity for each in view.by_topic.get(one.topic, ()) if each.partition == one), None
    )
    found = None if identity is None else (identity.cluster_id, identity.topic_id)
    if found != (origin.name.partition("/")[0], origin.topic_id) or one not in view.bounds:
        raise _refused(
            place,
            f"{one} is not the log {origin.name} that the route has left",
            "its rows can be given up only: `switch --give-up`",
        )
    bounds, end = view.bounds[one], int(origin.end)
    first = max(end, bounds.start_offset)
    rows = 0
    if first < bounds.end_offset:
        split = Split(one, first, bounds.end_offset)
        rows = sum(len(batch.values) for batch in read_splits(place.config.source, [split]))
    return LeftLog(one, end, bounds.end_offset, rows, first - end)


def _refused(place: RoutePlace, message: str, hint: str) -> RequestRefusedError:
    return RequestRefusedError(message, where=place.config.route, hint=hint)


def await_drain(
    place: RoutePlace, room: str, source: SourceClient, within_s: float = SWITCH_WITHIN_S
) -> tuple[LeftLog, ...]:
    """Wait until the table has all rows of a room; how it is at the end.

    Raises:
        SluicewayError: As `rows_left`; or the log is damaged, or the store failed.
    """
    until = time.monotonic() + within_s
    while True:
        left = rows_left(place, room, source)
        if not any(each.rows for each in left) or time.monotonic() >= until:
            return left
        time.sleep(_AGAIN_S)
        place.log.advance(place.fold)


def waited_for(place: RoutePlace, room: str) -> RoomReport | None:
    """Report of the room that took over, while announcements wait for the rows of this one.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found = lost_room(place.storage, place.layout, place.holder)
    return found if found is not None and found.lost_room == room else None


def give_up(place: RoutePlace, room: str, operator: str, reason: str, *, drained: bool) -> None:
    """End the wait of announcements for a room. Called once it is drained, or never will be.

    Raises:
        RequestRefusedError: Nothing waits for it, and it was not drained.
        StorageUnavailableError: The store failed.
    """
    report = waited_for(place, room)
    if report is not None:
        given = GivenUpRoom(room, report.lost_ms, drained, operator, reason)
        write_advice(place.storage, place.layout, place.layout.given_up, given)
    elif not drained:
        raise _refused(place, f"nothing waits for rows of room {room}", "there is nothing to do")
