"""What `offsets reset` would change, from the ledger's fold and what the source says. No I/O."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from sluiceway.errors import ResetRefusedError, SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.log_tail import NO_TAIL
from sluiceway.ledger.operator_records import (
    GAP,
    TAIL,
    TWICE,
    ChangedSource,
    ResetPartition,
    ResetRecord,
    SourceChangeRecord,
)
from sluiceway.schedule.planner import way_out_of
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import LogBounds, SourceIdentity, SourcePartition
from sluiceway.types.strict_json import BigInt

TargetKind = Literal["earliest", "latest", "timestamp", "offset", "tail"]


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """Where source partitions are to go on.

    Attributes:
        kind: `tail` goes to where the last rows that were read are in the log now.
        timestamp_ms: For `timestamp`: at the first record that is not older.
        offset: For `offset`.
    """

    kind: TargetKind
    timestamp_ms: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """What an operator asks for.

    Attributes:
        partitions: Chosen ones only; none means all that are read.
        accepted: `gap`, `twice` and `identity`, as far as the operator has said so.
    """

    target: ResetTarget
    reason: str
    operator: str
    partitions: tuple[SourcePartition, ...] = ()
    accepted: frozenset[str] = frozenset()


IDENTITY = "identity"
NO_TAILS: Final[Mapping[SourcePartition, str]] = MappingProxyType({})
# What the operator adds to accept a consequence.
OPTIONS = {GAP: "--accept-gap", TWICE: "--accept-doubles", IDENTITY: "--accept-identity"}


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One source partition's way from its committed end to another offset.

    Attributes:
        accepts: What the operator has to accept for it: `gap`, `twice` or `identity`.
        offsets: How many are left out, or read again; 0 for another log, and for the same offset
            under another leader epoch.
        identity: Identity of the new log; None when the log is the one that was read.
    """

    partition: SourcePartition
    old_end: int
    new_end: int
    log_start: int
    log_end: int
    generation: int
    accepts: str
    offsets: int
    identity: SourceIdentity | None = None


def chosen_partitions(fold: Fold, wish: ResetRequest) -> tuple[SourcePartition, ...]:
    """The source partitions that are to be moved, in order.

    A retired one is moved only when it is named and another log may be read in its place, as its
    topic was created again. Every other one goes on by itself where it ended.

    Raises:
        ResetRefusedError: The ledger does not read one of them, or nothing at all.
    """
    live = {
        SourcePartition(topic, number)
        for (topic, number), known in fold.sources.items()
        if not known.retired
        or (IDENTITY in wish.accepted and SourcePartition(topic, number) in wish.partitions)
    }
    if not live:
        raise ResetRefusedError(
            "the ledger has no source partition yet",
            hint="`source.start` in the job file says where it begins",
        )
    unknown = [one for one in wish.partitions if one not in live]
    if unknown:
        raise ResetRefusedError(
            f"the route does not read {', '.join(map(str, unknown))}",
            hint=f"it reads {', '.join(str(one) for one in sorted(live)[:20])}",
        )
    return tuple(sorted(wish.partitions or live))


def plan_moves(
    fold: Fold,
    wish: ResetRequest,
    view: SourceView,
    found: Mapping[SourcePartition, int],
) -> tuple[OffsetMove, ...]:
    """The moves that the wish comes to. Partitions that are there already are left out.

    Args:
        fold: State of the ledger.
        wish: What is asked for.
        view: What the brokers say of the chosen partitions' topics.
        found: For a `timestamp`: where each chosen partition has it; likewise for a `tail`.

    Raises:
        ResetRefusedError: A partition is gone, or the offset is outside of its log.
        SourceUnavailableError: No leader answers for one of them.
    """
    chosen = chosen_partitions(fold, wish)
    identities = {
        found.partition: found.identity for found in view.of({one.topic for one in chosen})
    }
    moves = []
    for one in chosen:
        known = fold.sources[one.topic, one.partition]
        if one not in identities:
            raise ResetRefusedError(
                "the cluster does not have it any more",
                where=str(one),
                hint=f"name the others with --partition; {way_out_of(fold, one)}",
            )
        if one not in view.bounds:
            raise SourceUnavailableError("no leader answers for it", where=str(one))
        identity = identities[one]
        same = (identity.cluster_id, identity.topic_id) == (known.cluster_id, known.topic_id)
        if same and IDENTITY in wish.accepted and wish.target.kind != "tail":
            continue
        bounds = view.bounds[one]
        new_end = _new_end(one, wish.target, bounds, found)
        if same and new_end == known.end and not _is_rewritten(known, bounds):
            continue
        moves.append(_move(one, known, new_end, bounds, None if same else identity))
    # One record is of one kind: other logs come first, as they do once they are accepted.
    others = [move for move in moves if move.identity is not None]
    return tuple(others or moves)


def _is_rewritten(known: SourceState, bounds: LogBounds) -> bool:
    """Whether the log may have other rows below the committed end than were read.

    The move forgets the leader epoch that the log was held against, and begins a generation.
    """
    return known.end_epoch is not None and known.end_epoch != bounds.leader_epoch


def _new_end(
    one: SourcePartition,
    target: ResetTarget,
    bounds: LogBounds,
    found: Mapping[SourcePartition, int],
) -> int:
    match target.kind:
        case "earliest":
            return bounds.start_offset
        case "latest":
            return bounds.end_offset
        case "timestamp" | "tail":
            return found[one]
        case "offset":
            if not bounds.start_offset <= target.offset <= bounds.high_watermark:
                raise ResetRefusedError(
                    f"offset {target.offset} is outside of the log, which runs from "
                    f"{bounds.start_offset} to {bounds.high_watermark}",
                    where=str(one),
                    hint="choose an offset within it, `earliest` or `latest`",
                )
            return target.offset


def _move(
    one: SourcePartition,
    known: SourceState,
    new_end: int,
    bounds: LogBounds,
    identity: SourceIdentity | None,
) -> OffsetMove:
    accepts = GAP if new_end >= known.end else TWICE
    return OffsetMove(
        partition=one,
        old_end=known.end,
        new_end=new_end,
        log_start=bounds.start_offset,
        log_end=bounds.high_watermark,
        generation=known.generation + 1,
        accepts=accepts if identity is None else IDENTITY,
        offsets=abs(new_end - known.end) if identity is None else 0,
        identity=identity,
    )


def refuse_unaccepted(moves: Sequence[OffsetMove], accepted: Collection[str]) -> None:
    """Refuse moves with a consequence that the operator has not accepted.

    Raises:
        ResetRefusedError: Names the option that accepts it.
    """
    for move in moves:
        if move.accepts in accepted:
            continue
        if move.identity is not None:
            raise ResetRefusedError(
                f"topic id {move.identity.topic_id} in cluster {move.identity.cluster_id} is not "
                "the log that was read",
                where=str(move.partition),
                hint="add --accept-identity when this log is to be read in its place",
            )
        if move.new_end == move.old_end:
            raise ResetRefusedError(
                f"rows that came below {move.new_end} when the log was truncated would never be "
                "read",
                where=str(move.partition),
                hint="add --accept-gap to accept that; without a truncation there are none",
            )
        if move.accepts == GAP:
            raise ResetRefusedError(
                f"{move.offsets} offsets from {move.old_end} to {move.new_end} would never be read",
                where=str(move.partition),
                hint="add --accept-gap to accept that",
            )
        raise ResetRefusedError(
            f"{move.offsets} offsets from {move.new_end} to {move.old_end} would be read again, "
            "and rows that are in the table would be there twice",
            where=str(move.partition),
            hint="add --accept-doubles to accept that; nothing removes rows from the table",
        )


def refuse_stale(fold: Fold, moves: Sequence[OffsetMove], view: SourceView) -> None:
    """Refuse moves that were planned from a ledger or a log that is not so any more.

    Called after the fence, when no other driver can commit.

    Raises:
        ResetRefusedError: Says what has moved on.
        TopicNotFoundError: The topic is gone.
    """
    identities = {
        found.partition: found.identity
        for found in view.of({move.partition.topic for move in moves})
    }
    for move in moves:
        one = move.partition
        known = fold.sources[one.topic, one.partition]
        was_read = SourceIdentity(known.cluster_id, known.topic_id)
        bounds = view.bounds.get(one)
        same_log = identities.get(one) == (move.identity or was_read)
        # Another operator may have moved the end to where it was.
        same_end = (known.end, known.generation + 1) == (move.old_end, move.generation)
        if not same_end or not same_log or bounds is None:
            raise _stale(one, "the ledger or the topic")
        if not bounds.start_offset <= move.new_end <= bounds.high_watermark:
            raise _stale(one, "the log")


def _stale(one: SourcePartition, what: str) -> ResetRefusedError:
    return ResetRefusedError(
        f"{what} has moved on since it was looked at",
        where=str(one),
        hint="run it again; only a fence was written",
    )


def record_of(
    fold: Fold,
    wish: ResetRequest,
    moves: Sequence[OffsetMove],
    tails: Mapping[SourcePartition, str] = NO_TAILS,
) -> ResetRecord | SourceChangeRecord:
    """The record that makes the moves; all of one kind.

    Args:
        fold: State of the ledger.
        wish: What is asked for.
        moves: What moves.
        tails: Tails of the logs before the new ends, where the route keeps them.
    """
    if any(move.identity is not None for move in moves):
        changed = tuple(_changed(fold, move, tails) for move in moves)
        return SourceChangeRecord(wish.operator, wish.reason, changed)
    resets = tuple(_reset(fold, move, tails) for move in moves)
    return ResetRecord(wish.operator, wish.reason, resets)


def _reset(fold: Fold, move: OffsetMove, tails: Mapping[SourcePartition, str]) -> ResetPartition:
    one = move.partition
    newest = fold.sources[one.topic, one.partition].max_event_time_us
    return ResetPartition(
        topic=one.topic,
        partition=one.partition,
        old_end=BigInt(move.old_end),
        new_end=BigInt(move.new_end),
        generation=move.generation,
        accepted=move.accepts,
        max_event_time_us=None if newest is None else BigInt(newest),
        tail=tails.get(one, NO_TAIL),
    )


def _changed(fold: Fold, move: OffsetMove, tails: Mapping[SourcePartition, str]) -> ChangedSource:
    one, identity = move.partition, move.identity
    if identity is None:
        raise ResetRefusedError("it is the log that was read", where=str(one))
    known = fold.sources[one.topic, one.partition]
    return ChangedSource(
        topic=one.topic,
        partition=one.partition,
        old_cluster_id=known.cluster_id,
        old_topic_id=known.topic_id,
        new_cluster_id=identity.cluster_id,
        new_topic_id=identity.topic_id,
        old_end=BigInt(move.old_end),
        new_end=BigInt(move.new_end),
        generation=move.generation,
        evidence={
            "log_start": str(move.log_start),
            "log_end": str(move.log_end),
            **({TAIL: tails[one]} if tails.get(one) else {}),
        },
    )
