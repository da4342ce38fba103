"""`offsets retire`: an operator gives up partitions that are gone; no driver runs the route."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.errors import ResetRefusedError, TopicNotFoundError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import PinnedPartition, SourcesRecord
from sluiceway.operate.operator_record import put_operator_record
from sluiceway.schedule.source_view import SourceView, read_route_view
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class RetireRequest:
    """What an operator asks for.

    Attributes:
        partitions: Chosen ones only; none means all that are read and gone.
        accepts_gap: Whether the operator has said that what was not read of them never is.
    """

    reason: str
    operator: str
    partitions: tuple[SourcePartition, ...] = ()
    accepts_gap: bool = False


@dataclass(frozen=True, slots=True)
class Retirement:
    """One source partition that is given up.

    Attributes:
        end: Its committed end; what came after it is never read.
    """

    partition: SourcePartition
    end: int


def planned_retirements(
    fold: Fold, wish: RetireRequest, source: SourceClient
) -> tuple[Retirement, ...]:
    """What would be given up now, in order. Changes nothing.

    Raises:
        ResetRefusedError: A partition is not read, or the cluster has it.
        SourceUnavailableError: The brokers do not answer.
    """
    live = [SourcePartition(*key) for key, known in fold.sources.items() if not known.retired]
    unknown = sorted(set(wish.partitions) - set(live))
    if unknown:
        raise ResetRefusedError(
            f"the route does not read {', '.join(map(str, unknown))}",
            hint="`sluiceway offsets show JOB` shows what it reads",
        )
    chosen = wish.partitions or tuple(live)
    view = read_route_view(source, {one.topic for one in chosen}, fold)
    for one in sorted(wish.partitions):
        _refuse_present(one, view)
    gone = sorted(one for one in chosen if not _is_there(one, view))
    return tuple(Retirement(one, fold.sources[one.topic, one.partition].end) for one in gone)


def refuse_unaccepted(retirements: Sequence[Retirement], wish: RetireRequest) -> None:
    """Refuse to give up rows that the operator has not said may go.

    Raises:
        ResetRefusedError: Names the option that accepts it.
    """
    for each in retirements:
        if not wish.accepts_gap:
            raise ResetRefusedError(
                f"rows from offset {each.end} on would never be read",
                where=str(each.partition),
                hint="add --accept-gap to accept that",
            )


def retire_partitions(
    config: RouteConfig,
    wish: RetireRequest,
    retirements: Sequence[Retirement],
    source: SourceClient,
) -> int:
    """Fence the route as a driver would and put the record.

    Args:
        config: The route.
        wish: What is asked for.
        retirements: What `planned_retirements` returned; checked once more after the fence.
        source: Asked once more after the fence.

    Returns:
        The slot of the record.

    Raises:
        LeaseHeldError: A driver runs the route.
        ResetRefusedError: It is not accepted, or what was planned is not so any more.
        StorageUnavailableError: The store failed; the ledger says whether the record landed.
        SluicewayError: As at a driver's start.
    """
    refuse_unaccepted(retirements, wish)
    topics = {each.partition.topic for each in retirements}

    def made(fold: Fold) -> SourcesRecord:
        view = read_route_view(source, topics, fold)
        return record_of(fold, wish, retirements, view)

    return put_operator_record(config, made)


def record_of(
    fold: Fold, wish: RetireRequest, retirements: Sequence[Retirement], view: SourceView
) -> SourcesRecord:
    """The record that gives them up. Called after the fence, when no other driver can commit.

    Raises:
        ResetRefusedError: One is there again, or the ledger has moved on.
    """
    pins = []
    for each in retirements:
        one = each.partition
        known = fold.sources[one.topic, one.partition]
        _refuse_present(one, view)
        if known.retired or known.end != each.end:
            raise ResetRefusedError(
                "the ledger has moved on since it was looked at",
                where=str(one),
                hint="run it again; only a fence was written",
            )
        end, ids = BigInt(each.end), (known.cluster_id, known.topic_id)
        pins.append(
            PinnedPartition(*(one.topic, one.partition, *ids, end, "retired"), retired=True)
        )
    before = fold.subscription
    if before is None:
        raise ResetRefusedError("the ledger has no source partition yet")
    names = (before.topics, before.pattern, before.start)
    return SourcesRecord(*names, tuple(pins), wish.operator, wish.reason)


def _is_there(one: SourcePartition, view: SourceView) -> bool:
    missing = view.missing.get(one.topic)
    if missing is not None and not isinstance(missing, TopicNotFoundError):
        raise missing
    return view.has(one)


def _refuse_present(one: SourcePartition, view: SourceView) -> None:
    if _is_there(one, view):
        raise ResetRefusedError(
            "the cluster has it, so it is read again as soon as its leader answers",
            where=str(one),
            hint="only what is gone for good is given up",
        )
