"""What a route that reads a table waits for: the chain of tables, up to the queue."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from sluiceway.audit.format_times import moment
from sluiceway.audit.open_table import find_ledger, read_ledger
from sluiceway.audit.partition_why import Reason, WaitExplanation
from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.open_units import UnitUpstream, open_unit_table, unit_upstream
from sluiceway.chains.options import FOLLOW, UpstreamOptions, missing
from sluiceway.chains.units import UnitRule, UnitWhen, computed_by, due_units, is_open, unit_of
from sluiceway.chains.upstream import upstream_owner
from sluiceway.errors import SluicewayError, TableNotFoundError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.reader_leases import lease_name, read_reader_lease
from sluiceway.sources.contract import TABLE_TOPIC, Correction
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage

_MOST_TABLES = 20
_BY_ROWS = frozenset({
    Reason.HELD,
    Reason.IDLE,
    Reason.NOT_OVER,
    Reason.NOT_LOOKED_AT,
    Reason.CLOSING,
})  # fmt: skip
"""What is said of rows and clocks, which close nothing where a table is read."""


@dataclass(frozen=True, slots=True)
class ObservedUnits:
    """Units of the table that a route reads.

    Attributes:
        computed: Units that have been computed.
        due: Units that are to be computed now.
        open: Units that wait, for example for an announcement.
    """

    computed: int
    due: int
    open: int


@dataclass(frozen=True, slots=True)
class ObservedUpstream:
    """The table that a route reads.

    Attributes:
        table: `database.table`.
        read_slot: Up to which slot of it all rows are committed; -1 for none, None not known.
        published_slot: Newest slot whose files are all in the table; -1 before any.
        units: How far a route with `mode: recompute` is; None for others.
        snapshots: Whether slots are sequence numbers of snapshots: the table is one of Iceberg that
            is read row by row.
        passed_over: How many snapshots that removed rows were passed over.
        corrections: Prefixes whose rows were replaced above, which the route has not followed yet.
    """

    table: str
    read_slot: int | None
    published_slot: int
    units: ObservedUnits | None = None
    snapshots: bool = False
    passed_over: int = 0
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Above:
    options: UnitUpstream
    owner: Owner
    log: LedgerLog
    fold: Fold


def reads_table(config: RouteConfig) -> bool:
    """Whether a route reads a table."""
    return any(topic.startswith(TABLE_TOPIC) for topic in config.topics)


def observed_upstream(config: RouteConfig) -> ObservedUpstream:
    """How far a route is with the table that it reads. Reads the newest part of that ledger.

    Raises:
        SluicewayError: The table, or its ledger, cannot be read.
    """
    if config.units is not None:
        return _observed_units(config, config.units)
    if config.source.kind == LAKE_SOURCE:
        return _observed_snapshots(config)
    options = UpstreamOptions.of(dict(config.source.options))
    above = _opened(options)
    layout = above.log.layout
    lease = read_reader_lease(above.log.storage, layout.reader(lease_name(config.group)))
    published = above.fold.published_through - 1
    through = above.fold.published_through
    for record, _ in above.log.published(above.log.records(through), through):
        published = record.seq
    known = lease is not None and lease.ledger == above.owner.ledger
    return ObservedUpstream(
        table=above.options.name,
        read_slot=lease.slot if known and lease is not None else None,
        published_slot=published,
        corrections=_corrections(config, above) if options.on_correction == FOLLOW else (),
    )


def _corrections(config: RouteConfig, above: _Above) -> tuple[str, ...]:
    """Prefixes that were replaced above after the route's start, and that it has not replaced."""
    if not above.fold.swaps:
        return ()
    # Seldom, and heavy to load.
    from sluiceway.route.clients import open_source  # noqa: PLC0415
    from sluiceway.upkeep.rereading import ReadSoFar, due_corrections, is_brought  # noqa: PLC0415

    try:
        own = read_ledger(find_ledger(config))
    except TableNotFoundError:
        return ()
    read, ledger = ReadSoFar.of(own.fold), above.owner.ledger
    swaps = (Correction(ledger, prefix, at, at) for prefix, at in above.fold.swaps.items())
    if all(is_brought(read.swaps, own.log, each) for each in swaps):
        return ()
    # It reads the whole log above, to know which of them come after the route's start.
    with closing(open_source(config)) as source:
        return tuple(each.prefix for each in due_corrections(source, read, own.log))


def _observed_snapshots(config: RouteConfig) -> ObservedUpstream:
    # Only routes that read such a table load the client.
    from sluiceway.chains.lake_log import LakeLog  # noqa: PLC0415
    from sluiceway.chains.lake_units import lake_table  # noqa: PLC0415

    options = LakeUpstream.of(dict(config.source.options))
    metadata = lake_table(options).metadata
    log = LakeLog(metadata, options.topic, passes_over=options.passes_over)
    sources = read_ledger(find_ledger(config)).fold.sources
    keys = sorted(key for key in sources if key[0] == options.topic)
    read = -1
    if keys:
        known = sources[keys[-1]]
        last_row = -1 if known.end_epoch is None else known.end_epoch
        through = log.number_through(known.end, known.newest_slot)
        read = max(through, known.newest_slot, last_row)
    return ObservedUpstream(
        options.name, read, log.newest, snapshots=True, passed_over=max(len(keys) - 1, 0)
    )


def _observed_units(config: RouteConfig, rule: UnitRule) -> ObservedUpstream:
    """By both logs, as the driver finds what is due."""
    options = unit_upstream(dict(config.source.options), config.source.kind)
    table = open_unit_table(options, rule)
    table.read_on()
    found = find_ledger(config)
    bodies = (record.body for record, _ in LedgerLog(found.storage, found.layout).records())
    computed = {each.prefix: computed_by(each) for each in bodies if isinstance(each, SwapRecord)}
    states, now_ms = table.states(), time.time_ns() // 1_000_000
    due = due_units(states, computed, table.identity.topic_id, rule, now_ms)
    newest = max((max(each.slot, each.announced) for each in states), default=-1)
    units = ObservedUnits(
        len(computed), len(due), sum(is_open(each, rule, now_ms) for each in states)
    )
    read = max((each.slot for each in computed.values()), default=-1)
    return ObservedUpstream(options.name, read, newest, units)


def with_upstream(config: RouteConfig, fold: Fold, why: WaitExplanation) -> WaitExplanation:
    """The same with what the table waits for that the route reads, and the one above it.

    Args:
        config: The route.
        fold: Its ledger.
        why: What is known else.
    """
    if config.units is not None:
        return _with_units(config, config.units, why)
    closed = why.prefix in fold.closed
    by_ledger = reads_table(config) and config.source.kind != LAKE_SOURCE
    if not by_ledger or why.version or closed or why.reason not in _BY_ROWS:
        return why
    text = "; ".join(_texts(UpstreamOptions.of(dict(config.source.options)), why.prefix))
    return replace(why, reason=Reason.HELD, text=text, holders=(), expected_us=None, needs_us=None)


def _with_units(config: RouteConfig, rule: UnitRule, why: WaitExplanation) -> WaitExplanation:
    """Why a unit is not computed yet, which announces it too."""
    if why.version:
        return why
    unit = unit_of(why.prefix, rule.columns)
    if unit is None:
        wanted = "/".join(f"{name}=..." for name in rule.columns)
        text = f"{why.prefix} is no unit of this table; units are written {wanted}"
        return replace(why, reason=Reason.NO_TIME, text=text)
    options = unit_upstream(dict(config.source.options), config.source.kind)
    if rule.when is UnitWhen.READY:
        text = "; ".join(_texts(options, unit))
    elif rule.when is UnitWhen.SUCCESS:
        text = f"it is computed once each folder of {options.name}/{unit} has a file _SUCCESS"
    else:
        settle_s = rule.settle_ms // 1000
        text = f"it is computed once {options.name}/{unit} has not changed for {settle_s:,} s"
    return replace(why, prefix=unit, reason=Reason.HELD, text=text)


def _texts(options: UnitUpstream, prefix: str) -> Iterator[str]:
    """What each table of the chain says, the nearest first."""
    for _ in range(_MOST_TABLES):
        try:
            above = _opened(options)
        except SluicewayError as error:
            yield f"it waits for {options.name}, which cannot be asked: {error}"
            return
        closed = above.fold.closed.get(prefix)
        if (closed is not None and closed.version) or above.fold.sealed_above(prefix) is not None:
            yield f"{options.name} has announced it; its rows are not all read yet"
            return
        yield _open_text(above)
        next_one = next(
            (topic for topic, _ in above.fold.sources if topic.startswith(TABLE_TOPIC)), None
        )
        if next_one is None or isinstance(options, LakeUpstream):
            # How the next one is reached is in the job file of this one alone.
            return
        options = replace(options, name=next_one.removeprefix(TABLE_TOPIC), root="")


def _open_text(above: _Above) -> str:
    mark, owner = above.fold.watermark, above.owner
    far = "it has no watermark yet"
    if any(topic.startswith(TABLE_TOPIC) for topic, _ in above.fold.sources):
        far = "it is made from another table"
    if mark.us is not None:
        far = f"its watermark is {moment(mark.us)}"
    held = ", ".join(f"{each.topic}[{each.partition}]" for each in mark.held_by)
    far += f", held by {held}" if held else ""
    return (
        f"it waits for {above.options.name}, which has not announced it: {far} "
        f"(`partitions why` with the file of job {owner.job}, route {owner.route}, "
        "says more)"
    )


def _opened(options: UnitUpstream) -> _Above:
    if isinstance(options, LakeUpstream):
        from sluiceway.chains.lake_units import lake_table, ledger_of  # noqa: PLC0415 - likewise

        root, stores = ledger_of(lake_table(options), options)
    else:
        try:
            root, stores = options.found_root(), options.stores
        except TableNotFoundError as error:
            raise missing(options.topic) from error
    storage, place = open_storage(normalise_location(root), stores)
    owner = upstream_owner(storage, place)
    log = LedgerLog(storage, LedgerLayout(place, owner.route))
    return _Above(options, owner, log, log.fold())
