"""Positions of all source partitions of a route in this room's copies, at one moment."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sluiceway.errors import OffsetsLostError
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import ORIGIN_HEADER, ORIGIN_LOG
from sluiceway.ledger.room_files import HandPosition
from sluiceway.rooms.copy_reader import CopyReader
from sluiceway.rooms.positions import (
    MIRROR_CLOSED,
    CopiedLog,
    PositionMethod,
    ResumePosition,
    copied_logs,
    resume_positions,
)
from sluiceway.schedule.planner import readable_start
from sluiceway.schedule.source_view import SourceView, is_same_log
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.sources.registry import SourceAccess

REFUSED: Final = "refused"
"""Key of `Resume.counts` of source partitions without a position."""

ORIGIN: Final = (ORIGIN_HEADER, ORIGIN_LOG)
"""Evidence that the ledger goes by."""

OriginFinder = Callable[[MirrorRule, CopiedLog], ResumePosition | None]


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a route continues in this room.

    Attributes:
        positions: Of all source partitions that were read in another room.
        lacking: Why others have none: this room's queue lacks them.
    """

    positions: tuple[ResumePosition, ...] = ()
    lacking: tuple[str, ...] = ()

    def with_hand(self, by_hand: Sequence[HandPosition]) -> "Resume":
        """The same, where an operator decides some of the positions."""
        given = {SourcePartition(each.topic, each.partition): each for each in by_hand}
        positions = tuple(
            _by_hand(each, given[each.log.partition]) if each.log.partition in given else each
            for each in self.positions
        )
        return replace(self, positions=positions)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why this room cannot take over, whatever an operator confirms."""
        return (*self.lacking, *(each.why for each in self.positions if each.offset is None))

    def missing(self, confirmed: Collection[str]) -> tuple[str, ...]:
        """Confirmations that an operator has to give."""
        return tuple(sorted({n for each in self.positions for n in each.missing(confirmed)}))

    @property
    def counts(self) -> dict[str, int]:
        """Method -> how many source partitions are exact by it, and `refused`; also by need."""
        found = Counter(
            REFUSED if each.method is None else proof_of(each) for each in self.positions
        )
        found[REFUSED] += len(self.lacking)
        return {name: count for name, count in sorted(found.items()) if count}

    @property
    def waiting_rows(self) -> int:
        """Offsets that wait in this room's logs."""
        return sum(
            max(0, each.log.bounds.high_watermark - each.offset)
            for each in self.positions
            if each.offset is not None and each.log.bounds is not None
        )

    @property
    def short(self) -> int:
        """Source partitions whose copies end before the committed end."""
        return sum(MIRROR_CLOSED in each.needs for each in self.positions)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Copies that are not of the log that they name: no room continues in them."""
        return tuple(each.why for each in self.positions if each.halts)

    @property
    def unread(self) -> int:
        """Offsets of copies that were not read along yet."""
        return sum(each.unread for each in self.positions)

    @property
    def moved(self) -> frozenset[SourcePartition]:
        """Source partitions that this room's own logs say nothing of."""
        return frozenset(each.log.partition for each in self.positions)


def _by_hand(position: ResumePosition, given: HandPosition) -> ResumePosition:
    log, offset = position.log, given.offset
    bounds = log.bounds
    if bounds is not None and not bounds.start_offset <= offset <= bounds.high_watermark:
        span = f"{bounds.start_offset} to {bounds.high_watermark}"
        why = f"{log.partition}: offset {offset} is outside of its log, which runs from {span}"
        return replace(position, offset=None, method=None, needs=(), why=why)
    # Copies that name their rows are known from others all the same.
    origin = {key: position.evidence[key] for key in ORIGIN if key in position.evidence}
    evidence = {"accepted": given.accepted, **origin}
    return ResumePosition(log, offset, PositionMethod.BY_HAND, evidence=evidence)


def proof_of(position: ResumePosition) -> str:
    """How a position was found and what it needs; or why it is refused."""
    if position.method is None:
        return position.why
    if position.exact:
        return position.method.value
    return f"{position.method.value}, needs {' and '.join(position.needs)}"


def find_resume(
    rule: MirrorRule,
    access: SourceAccess,
    client: SourceClient,
    fold: Fold,
    view: SourceView,
    origin: OriginFinder | None = None,
) -> Resume:
    """Compute the positions. Called every 30 s by a standby, and around a fence.

    Args:
        rule: What copies the logs.
        access: Access to this room's queue.
        client: The driver's view of it.
        fold: The ledger.
        view: The room's queue now.
        origin: Finds positions by the header of copied rows; None where they have none.

    Raises:
        SluicewayError: The queue does not answer.
    """
    logs, lacking = copied_logs(fold, view)
    if not logs:
        return Resume((), lacking)
    traits = client.copy_traits(sorted({log.partition.topic for log in logs}))
    usable, timeless = [], set[str]()
    for log in logs:
        topic = log.partition.topic
        if traits[topic].append_time:
            timeless.add(topic)
        else:
            usable.append(replace(log, compacted=traits[topic].compacted))
    lacking += tuple(
        f"{topic} has `message.timestamp.type=LogAppendTime`, so copies lack their record times; "
        "set `CreateTime`, and have it copied again"
        for topic in sorted(timeless)
    )
    by_origin = None if origin is None else partial(origin, rule)
    found = resume_positions(usable, rule, CopyReader(access, client).reader(), by_origin)
    return Resume(found, lacking)


def silent_leaders(view: SourceView) -> list[str]:
    """Why a room could not read, in one sentence; none while each leader answers."""
    found = [each.partition for partitions in view.by_topic.values() for each in partitions]
    silent = [one for one in found if one not in view.bounds]
    if not silent:
        return []
    named = ", ".join(f"{one.topic}/{one.partition}" for one in silent[:3])
    return [f"no leader answers for {len(silent)} of {len(found)} source partitions: {named}"]


def own_positions(
    fold: Fold, view: SourceView, moved: Collection[SourcePartition]
) -> tuple[list[str], int]:
    """Source partitions that could not continue at their committed ends, and rows that wait.

    Args:
        fold: The ledger.
        view: This room's queue now.
        moved: Source partitions that move to other logs; they are left out.
    """
    lost, waiting = [], 0
    for one, bounds in view.bounds.items():
        known = fold.sources.get((one.topic, one.partition))
        if known is None or known.retired or one in moved:
            continue
        try:
            start = readable_start(fold, one, bounds)
        except OffsetsLostError as error:
            lost.append(f"{one.topic}/{one.partition}: {error.message}")
        else:
            waiting += max(0, bounds.high_watermark - start)
        if not is_same_log(one, known, view):
            lost.append(f"{one.topic} is another topic from here than in the ledger")
    return lost, waiting
