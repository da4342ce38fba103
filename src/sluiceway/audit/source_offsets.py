"""The offsets of a route in each of its source partitions: by the ledger and by the brokers."""

from dataclasses import dataclass

from sluiceway.audit.open_table import (
    OpenTable,
    identity_problems,
    open_place,
    open_table,
    read_ledger,
)
from sluiceway.errors import OffsetsLostError, Retriable, SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.route.clients import open_source
from sluiceway.schedule.planner import new_partitions, readable_start, way_out_of
from sluiceway.schedule.source_view import SourceView, is_same_log, read_route_view
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.types.log_key import LogKey


def table_reasons(table: OpenTable, fold: Fold) -> tuple[str, ...]:
    """Why a start would refuse the table or the owner of its ledger; empty when it would not.

    Raises:
        StorageUnavailableError: The store failed.
    """
    try:
        table.table.state()
    except SluicewayError as error:
        return (_reason(error),)
    problems = identity_problems(table.storage, table.layout, fold, table.table, table.config)
    return tuple(f"{where}: {message}" for where, message in problems)


def source_reasons(
    config: RouteConfig, fold: Fold, view: SourceView, source: SourceClient
) -> tuple[str, ...]:
    """Why a start would not read the route's topics; empty when it would.

    Source partitions in the ledger are left out: each is judged by itself.

    Raises:
        Retriable: The brokers do not answer.
    """
    wanted = config.subscription
    # Topics of a pattern may go; without a start in the job file, new ones have no fixed start.
    topics = view.present(wanted.topics)
    gone = (
        []
        if wanted.pattern
        else [view.missing[one] for one in wanted.topics if one in view.missing]
    )
    reasons = [_reason(error) for error in gone]
    new = [one for one in new_partitions(fold, wanted, view.of(topics)) if one in view.bounds]
    try:
        resolve_start(config.start, new, view.bounds, source)
    except Retriable:
        raise
    except SluicewayError as error:
        reasons.append(_reason(error))
    return tuple(reasons)


def _reason(error: SluicewayError) -> str:
    return f"[{error.code}] {error}"


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """One source partition. What only the broker knows is None when it does not answer.

    Attributes:
        start: First offset of its generation; `how` says how that was found.
        committed_end: The next offset to be read.
        log_end: First offset that cannot be read yet.
        lag: Offsets in the log that are not committed.
        newest_event_us: Greatest event time of the written rows, us since the epoch; None without
            rows.
        problem: Why the next start would halt; None when it would not.
    """

    topic: str
    partition: LogKey
    start: int
    how: str
    generation: int
    retired: bool
    committed_end: int
    log_start: int | None
    log_end: int | None
    lag: int | None
    newest_event_us: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class RouteOffsets:
    """All source partitions of a route, in order.

    Attributes:
        broker_error: Why the broker's side is missing; None when it is there.
        problems: Other reasons why the next start would halt, with codes.
    """

    route: str
    table: str
    partitions: tuple[PartitionOffsets, ...]
    broker_error: str | None
    problems: tuple[str, ...] = ()


def route_offsets(config: RouteConfig) -> RouteOffsets:
    """Read the offsets of a route. Changes nothing; a driver may go on.

    Raises:
        TableNotFoundError: There is no such table.
        LedgerMismatchError: Its ledger is another job's or route's.
        LedgerCorruptError: The log is damaged.
        MetastoreUnavailableError: The place of the table is not known.
        StorageUnavailableError: The store failed.
    """
    fold, problems = _ledger_and_table(config)
    config = config.at(fold)
    topics = {topic for (topic, _), known in fold.sources.items() if not known.retired}
    view, broker_error = None, None
    source = open_source(config)
    try:
        view = read_route_view(source, topics | {*config.subscription.topics}, fold)
        problems += source_reasons(config, fold, view, source)
    except Retriable as error:
        broker_error = str(error)
    except SluicewayError as error:
        broker_error = str(error)
        problems += (f"[{error.code}] {error}",)
    finally:
        source.close()
    rows = tuple(_offsets(fold, SourcePartition(*key), view) for key in sorted(fold.sources))
    table = f"{config.table.database}.{config.table.table}"
    return RouteOffsets(config.route, table, rows, broker_error, problems)


def _ledger_and_table(config: RouteConfig) -> tuple[Fold, tuple[str, ...]]:
    """The ledger, and why a start would refuse the table; a lake table is not checked."""
    if config.table.lake is not None:
        return read_ledger(open_place(config)).fold, ()
    table = open_table(config)
    try:
        fold = read_ledger(table).fold
        return fold, table_reasons(table, fold)
    finally:
        table.close()


def _offsets(fold: Fold, one: SourcePartition, view: SourceView | None) -> PartitionOffsets:
    known = fold.sources[one.topic, one.partition]
    bounds = view.bounds.get(one) if view is not None and not known.retired else None
    same = view is not None and is_same_log(one, known, view)
    usable = bounds if same else None
    first = None if usable is None else max(known.end, usable.start_offset)
    return PartitionOffsets(
        topic=one.topic,
        partition=one.partition,
        start=known.start,
        how=known.how,
        generation=known.generation,
        retired=known.retired,
        committed_end=known.end,
        log_start=None if bounds is None else bounds.start_offset,
        log_end=None if bounds is None else bounds.end_offset,
        lag=None if usable is None or first is None else max(0, usable.end_offset - first),
        newest_event_us=known.max_event_time_us,
        problem=None if view is None or known.retired else _problem(fold, one, known, view),
    )


def _problem(fold: Fold, one: SourcePartition, known: SourceState, view: SourceView) -> str | None:
    bounds = view.bounds.get(one)
    if one.topic in view.by_topic and not view.has(one):
        return f"the cluster does not have it; {way_out_of(fold, one)}"
    if bounds is None:
        return "no leader answers for it" if view.has(one) else "the cluster does not have it"
    if not is_same_log(one, known, view):
        return "another log of this name: the topic was created again, or it is another cluster"
    try:
        readable_start(fold, one, bounds)
    except OffsetsLostError as error:
        return error.message
    return None
