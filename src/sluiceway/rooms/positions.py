"""Where source partitions continue in another room's logs: a proof for each, or a refusal.

A position is exact if each row of the copy at or after it is missing in the table, and no row
before it is. The first proof that applies decides.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.log_tail import NO_TAIL, is_same_tail
from sluiceway.ledger.operator_records import MISSING, TAIL, ChangedSource, SourceChangeRecord
from sluiceway.rooms.tail_search import TailMatch
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import LogBounds, SourceIdentity, SourcePartition
from sluiceway.types.strict_json import BigInt


class PositionMethod(StrEnum):
    """How a position was found."""

    BEGIN = "begin"
    """Nothing of the log was read: the copy's first offset."""
    SAME = "same"
    """Copies keep their offsets, and the rows before the committed end are the tail's."""
    HEADER = "header"
    """Each copy has its own row's offset."""
    INSIDE = "inside"
    """The copy has the whole tail, once."""
    SHORT = "short"
    """The copy ends with the first rows of the tail."""
    MIRROR_END = "mirror_end"
    """The copy ends before the tail begins."""
    BY_HAND = "by_hand"
    """An operator says it."""


BEGINNINGS: Final = frozenset({"earliest", "discovered"})
"""`SourceState.how` of logs that are read from their first offset."""

MIRROR_ONLY: Final = "mirror_only"
MIRROR_END: Final = "mirror_end"
MIRROR_CLOSED: Final = "mirror_closed"
CONFIRMATIONS: Final[Mapping[str, str]] = {
    MIRROR_ONLY: "only the mirror wrote to the copied topics before these positions",
    MIRROR_END: "the copied topics end where the mirror ended: only the mirror wrote to them",
    MIRROR_CLOSED: "the mirror that copied from the lost room never continues",
}
"""What an operator can confirm, and what it means."""


@dataclass(frozen=True, slots=True)
class CopiedLog:
    """A source partition that was read in another room, and its log in this one.

    Attributes:
        known: How the ledger left it.
        identity: The log of this room.
        bounds: Where that begins and ends; None where this room has no such partition.
        compacted: Whether it lacks rows whose key came again.
    """

    partition: SourcePartition
    known: SourceState
    identity: SourceIdentity
    bounds: LogBounds | None
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class ResumePosition:
    """Where one source partition continues, or why that is not known.

    Attributes:
        log: The source partition.
        offset: First offset of this room's log that is not in the table; None when refused.
        method: How it was found; None when it was not.
        needs: Confirmations without which it is not exact (`CONFIRMATIONS`).
        why: Why it is refused, and what helps; empty when it is not.
        evidence: What the record keeps of it.
        unread: Offsets of the copy that were not read along yet. The driver reads from earlier
            than it could, and drops the copies.
        halts: Whether the copy contradicts the log that it is of: the standby's route halts.
    """

    log: CopiedLog
    offset: int | None
    method: PositionMethod | None
    needs: tuple[str, ...] = ()
    why: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    unread: int = 0
    halts: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is proved, without any confirmation."""
        return self.offset is not None and not self.needs

    def missing(self, confirmed: Collection[str]) -> tuple[str, ...]:
        """Confirmations that are needed and were not given."""
        return tuple(each for each in self.needs if each not in confirmed)


@dataclass(frozen=True, slots=True)
class TailReader:
    """Reads copies. The functions read `read_committed`, and raise `SluicewayError`.

    Attributes:
        search: Where tails end in the copies of these logs, which all have a tail.
        before: Tails of the copies before these offsets; empty where no row is.
    """

    search: Callable[[Sequence[CopiedLog]], Mapping[SourcePartition, TailMatch]]
    before: Callable[[Mapping[SourcePartition, int]], Mapping[SourcePartition, str]]


OriginMethod = Callable[[CopiedLog], ResumePosition | None]
"""Finds a position by the header of copied rows; None where rows have none."""


def resume_positions(
    logs: Sequence[CopiedLog], rule: MirrorRule, rows: TailReader, origin: OriginMethod | None
) -> tuple[ResumePosition, ...]:
    """The position of each log. Called by a standby, and by a driver before and after its fence.

    Args:
        logs: Logs that were read in another room.
        rule: What copies them.
        rows: Reads the copies.
        origin: Asks for the header; None where the mirror adds none.

    Raises:
        SluicewayError: This room's queue does not answer.
    """
    found = {log.partition: _without_rows(log, origin) for log in logs}
    left = [log for log in logs if found[log.partition] is None]
    if rule.linked and left:
        found |= _same_offsets(left, rows)
        left = [log for log in left if found[log.partition] is None]
    if left:
        matches = rows.search(left)
        found |= {log.partition: tail_position(log, rule, matches[log.partition]) for log in left}
    return tuple(each for each in found.values() if each is not None)


def _without_rows(log: CopiedLog, origin: OriginMethod | None) -> ResumePosition | None:
    """The position where no row of the copy has to be compared."""
    found = None if origin is None else origin(log)
    if found is not None:
        return found
    known, bounds = log.known, log.bounds
    nothing_read = not known.has_data and known.how in BEGINNINGS
    if bounds is None:
        needs = () if nothing_read else (MIRROR_CLOSED,)
        method = PositionMethod.BEGIN if nothing_read else PositionMethod.MIRROR_END
        evidence = {"log_end": "none", MISSING: "" if nothing_read else known.tail}
        return ResumePosition(log, 0, method, needs, evidence=evidence)
    if nothing_read:
        return ResumePosition(log, bounds.start_offset, PositionMethod.BEGIN)
    if known.tail == NO_TAIL:
        return refused_position(log, "the ledger keeps no row before its committed end")
    return None


def _same_offsets(
    logs: Sequence[CopiedLog], rows: TailReader
) -> dict[SourcePartition, ResumePosition | None]:
    """Logs whose copy is as long as the committed end, with the same rows before it."""
    long = {
        log.partition: log.known.end
        for log in logs
        if log.bounds is not None
        and log.bounds.start_offset < log.known.end <= _end(log)
        and not log.known.missing
    }
    tails = rows.before(long) if long else {}
    return {
        log.partition: ResumePosition(
            log,
            log.known.end,
            PositionMethod.SAME,
            evidence={TAIL: log.known.tail, "log_end": str(_end(log))},
        )
        for log in logs
        if log.partition in tails and is_same_tail(log.known.tail, tails[log.partition])
    }


def tail_position(log: CopiedLog, rule: MirrorRule, match: TailMatch) -> ResumePosition:
    """What a search of a copy comes to.

    Args:
        log: The log.
        rule: What copies it.
        match: What the search found.
    """
    evidence = {
        "scanned": str(match.scanned),
        "matches": str(match.matches),
        "log_end": str(_end(log)),
        TAIL: match.tail,
    }
    if not rule.exactly_once:
        why = "the mirror may repeat rows, so there may be no right offset"
        return refused_position(
            log, why, "set `mirror.copies: exactly_once` once it does", evidence
        )
    others = () if rule.own_writers else (MIRROR_ONLY,)
    if match.offset is not None and match.inside:
        return ResumePosition(log, match.offset, PositionMethod.INSIDE, others, evidence=evidence)
    if match.offset is not None:
        needs = (*others, MIRROR_CLOSED)
        evidence[MISSING] = match.missing
        return ResumePosition(log, match.offset, PositionMethod.SHORT, needs, evidence=evidence)
    if not match.found and not log.compacted and match.complete:
        needs = (*(() if rule.own_writers else (MIRROR_END,)), MIRROR_CLOSED)
        method = PositionMethod.MIRROR_END
        evidence[MISSING] = match.missing
        return ResumePosition(log, _end(log), method, needs, evidence=evidence)
    return refused_position(log, match.why, evidence=evidence)


def _end(log: CopiedLog) -> int:
    return 0 if log.bounds is None else log.bounds.end_offset


def refused_position(
    log: CopiedLog, why: str, helps: str = "", evidence: Mapping[str, str] | None = None
) -> ResumePosition:
    """No position.

    Args:
        log: The source partition.
        why: Why there is none.
        helps: What an operator can do; to move it by hand unless said.
        evidence: What was found.
    """
    one = log.partition
    helps = helps or (
        f"`switch --accept-gap {one.topic}:{one.partition}=OFFSET` or --accept-doubles sets one"
    )
    why = f"{one.topic}/{one.partition} has no resume position: {why}; {helps}"
    return ResumePosition(log, None, None, why=why, evidence=evidence or {})


def copied_logs(fold: Fold, view: SourceView) -> tuple[tuple[CopiedLog, ...], tuple[str, ...]]:
    """Source partitions that were read in another cluster than this room's.

    Args:
        fold: The ledger.
        view: This room's cluster.

    Returns:
        The logs, and why others cannot be judged.
    """
    identities = {
        topic: partitions[0].identity for topic, partitions in view.by_topic.items() if partitions
    }
    here = {identity.cluster_id for identity in identities.values()}
    logs, lacking = [], set[str]()
    for (topic, key), known in sorted(fold.sources.items()):
        if known.retired or known.cluster_id in here:
            continue
        one = SourcePartition(topic, key)
        bounds = view.bounds.get(one)
        if topic not in identities:
            lacking.add(f"this room has no topic {topic}")
        elif bounds is None and view.has(one):
            lacking.add(f"no leader answers for {topic}/{key}")
        else:
            logs.append(CopiedLog(one, known, identities[topic], bounds))
    return tuple(logs), tuple(sorted(lacking))


def switch_record(
    positions: Iterable[ResumePosition], operator: str, reason: str, confirmed: Collection[str]
) -> SourceChangeRecord:
    """The record that moves all source partitions to this room. Put right after the fence.

    Args:
        positions: Position of each; none is refused.
        operator: `user@host` who asked for it, or the room that takes over by itself.
        reason: In the operator's words.
        confirmed: What the operator confirmed.
    """
    return SourceChangeRecord(
        operator, reason, tuple(_changed(each, confirmed) for each in positions)
    )


def _changed(position: ResumePosition, confirmed: Collection[str]) -> ChangedSource:
    log, known = position.log, position.log.known
    used = ",".join(each for each in position.needs if each in confirmed)
    method = "" if position.method is None else position.method.value
    evidence = {"method": method, **position.evidence, **({"confirmed": used} if used else {})}
    return ChangedSource(
        topic=log.partition.topic,
        partition=log.partition.partition,
        old_cluster_id=known.cluster_id,
        old_topic_id=known.topic_id,
        new_cluster_id=log.identity.cluster_id,
        new_topic_id=log.identity.topic_id,
        old_end=BigInt(known.end),
        new_end=BigInt(-1 if position.offset is None else position.offset),
        generation=known.generation + 1,
        evidence={name: value for name, value in evidence.items() if value},
    )
