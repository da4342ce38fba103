"""What the next run of a route would change, where it would read, and what may go wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from sluiceway.audit.planned_route import (
    COMMITTED,
    PlannedRoute,
    PlannedSource,
    PlannedStart,
    foresee_route,
    foresee_source,
)
from sluiceway.audit.row_preview import NOTHING, Preview, newest_splits, preview_rows
from sluiceway.errors import Fatal, SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig

_SHOWN = 5


class Weight(IntEnum):
    """How bad it is; the worst come first."""

    STOPS = 0
    LOSES = 1
    ASIDE = 2
    HIDES = 3
    COSTS = 4

    @property
    def label(self) -> str:
        """In a word."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Risk:
    """What may go wrong, and what to do about it."""

    weight: Weight
    text: str
    todo: str


@dataclass(frozen=True, slots=True)
class Change:
    """What the next run would change outside of its files.

    Attributes:
        what: In words.
        statement: Hive SQL that would do the same; empty where there is none.
    """

    what: str
    statement: str = ""


@dataclass(frozen=True, slots=True)
class NextRun:
    """What the next run of a route would find and do.

    Attributes:
        exists: Whether its table exists.
        changes: In the order in which they would be made; empty when the run would only go on.
        starts: Where each source partition would be read from.
        sample: The newest records as rows.
        risks: The worst first.
    """

    route: str
    table: str
    exists: bool
    changes: tuple[Change, ...]
    starts: tuple[PlannedStart, ...]
    sample: Preview
    risks: tuple[Risk, ...]


def foresee_run(config: RouteConfig, records: int) -> NextRun:
    """Plan a route's next run. Changes nothing.

    Args:
        config: The route.
        records: How many records to read as a sample; 0 reads none.

    Raises:
        SluicewayError: A server does not answer, or the run would not begin; its class says which.
    """
    route = foresee_route(config)
    source = foresee_source(route)
    stops = (*source.problems, *source.lost)
    risks = [Risk(Weight.STOPS, _error_text(error), error.hint) for error in stops]
    sample = NOTHING
    try:
        # Units are computed whole: no single row of them can be shown.
        records = 0 if route.config.units is not None else records
        sample = preview_rows(route, newest_splits(source.starts, records) if records else ())
    except Fatal as error:
        risks.append(Risk(Weight.STOPS, _error_text(error), error.hint))
    risks += [*_start_risks(route, source.starts), *_row_risks(route, sample), *_table_risks(route)]
    return NextRun(
        route=route.config.route,
        table=f"{config.table.database}.{config.table.table}",
        exists=route.table.exists,
        changes=_changes(route, source, sample),
        starts=source.starts,
        sample=sample,
        risks=tuple(sorted(risks, key=lambda risk: risk.weight)),
    )


def _error_text(error: SluicewayError) -> str:
    place = f"{error.where}: " if error.where else ""
    return f"[{error.code}] {place}{error.message}"


def _changes(route: PlannedRoute, source: PlannedSource, sample: Preview) -> tuple[Change, ...]:
    changes, table = [], route.table
    if not table.exists:
        changes.append(Change(f"create the table {table.name}", table.statement))
    elif table.state.lacking:
        names = ", ".join(each.name for each in table.state.lacking)
        changes.append(Change(f"add columns: {names}", table.statement))
    if sample.tables:
        named = _some(sample.tables)
        changes.append(Change(f"make tables for values of the records looked at: {named}"))
    if sample.added:
        named = _some(sample.added)
        changes.append(Change(f"add columns for fields of the records looked at: {named}"))
    if not route.fold.sources:
        place = route.ledger_place or "a folder next to the table"
        changes.append(Change(f"begin a ledger in {place}"))
    new = [each for each in source.starts if each.how != COMMITTED]
    if new:
        named = _some([str(each.partition) for each in new])
        changes.append(Change(f"read for the first time: {named}"))
    return tuple(changes)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _start_risks(route: PlannedRoute, starts: Sequence[PlannedStart]) -> list[Risk]:
    risks = []
    passed = sum(max(0, each.offset - each.log_start) for each in starts if each.how == "latest")
    if passed:
        risks.append(
            Risk(
                Weight.LOSES,
                f"it begins at the end of the log: {passed:,} records before it are never read",
                "write source.start: earliest to have them; into closed hours of a Hive table "
                "`sluiceway backfill JOB PREFIX --from offsets` brings them later",
            )
        )
    if not starts and route.config.units is None:
        risks.append(
            Risk(Weight.HIDES, "no source partition answers", "look at the brokers and the topics")
        )
    return risks


def _row_risks(route: PlannedRoute, sample: Preview) -> list[Risk]:
    risks, counts = [], sample.counts
    if counts.dirty:
        reasons = ", ".join(f"{name} {rows:,}" for name, rows in sorted(sample.reasons.items()))
        ratio = route.config.dirty.ratio
        over = ratio is not None and counts.dirty > ratio * counts.read
        what = f", above dirty.max_rate {ratio}: it would halt" if over else "; they are put aside"
        risks.append(
            Risk(
                Weight.STOPS if over else Weight.ASIDE,
                f"{counts.dirty:,} of {counts.read:,} records are dirty ({reasons}){what}",
                f"`sluiceway preview JOB --route {route.config.route}` shows them; "
                "see docs/guides/dirty-rows.md",
            )
        )
    if counts.read and not counts.written and not counts.dirty and not sample.shared:
        risks.append(Risk(Weight.LOSES, "no record becomes a row", "look at `where` and `format`"))
    unread = ", ".join(sample.unread[:_SHOWN])
    if sample.unfilled:
        risks.append(
            Risk(
                Weight.LOSES,
                f"no row fills {', '.join(sample.unfilled)}, and no column reads {unread}",
                "is a name misspelt? Give the column its `path`",
            )
        )
    if sample.refused:
        told = [f"{name}: {why}" for name, why in list(sample.refused.items())[:_SHOWN]]
        risks.append(
            Risk(
                Weight.ASIDE,
                f"rows with a field that gets no column are put aside: {'; '.join(told)}",
                "give it a column with its `path`, or write table.evolution: follow_table",
            )
        )
    return risks


def _table_risks(route: PlannedRoute) -> list[Risk]:
    risks = [
        Risk(Weight.HIDES, text, "see docs/guides/hive-tables.md")
        for text in route.table.state.warnings
    ]
    if route.config.ready is None and any(rule.pattern for rule in route.config.partitions):
        risks.append(
            Risk(
                Weight.HIDES,
                "readers see hours before they are complete",
                "a block `ready` shows an hour when it is; see docs/guides/complete-hours.md",
            )
        )
    return risks
