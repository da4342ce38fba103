"""Small tables that a route's SQL joins: read whole, in a state that records pin."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.ledger_rows import whole_ledger_table
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.whole_table import WholeTable
from sluiceway.errors import JobFileError, NotInThisVersionError, SourceUnavailableError
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.ledger.data_parts import TablePin
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.sources.registry import SourceAccess

MOST_BYTES = 256 << 20
"""Largest small table; it goes to every task."""

_REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Held:
    table: JoinedTable
    read_at: float


class SqlTables:
    """Small tables of one route. Used by one thread at a time.

    Args:
        rule: The SQL that joins them.
        clock: Monotonic, in seconds.
    """

    def __init__(self, rule: SqlRule, clock: Callable[[], float] = time.monotonic) -> None:
        self._rule = rule
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def read(self, pins: Sequence[TablePin] = ()) -> tuple[JoinedTable, ...]:
        """The tables for an epoch; each is read again when its rows are older than `refresh`.

        Called before each job. All tries of an epoch use the same rows.

        Args:
            pins: States of tables to read. A table that was created again since, or has let go of
                its state, is read as it is now.

        Raises:
            JobFileError: A table is too large.
            NotInThisVersionError: A table is of a kind that is not read.
            SourceUnavailableError: A table is not there, or has no row yet.
            SluicewayError: Its catalog or its store does not answer.
        """
        found, by_name = [], {each.name: each.state for each in pins}
        for each in self._rule.tables:
            if each.name in by_name:
                found.append(read_table(each, self._rule, pin=by_name[each.name]))
                continue
            held, now = self._held.get(each.name), self._clock()
            if held is None or now - held.read_at >= each.refresh_s:
                before = None if held is None else held.table
                held = _Held(read_table(each, self._rule, before), now)
                self._held[each.name] = held
            found.append(held.table)
        return tuple(found)


def read_table(
    rule: DimensionRule,
    sql: SqlRule,
    before: JoinedTable | None = None,
    pin: str = "",
) -> JoinedTable:
    """All published rows of a table; see `SqlTables.read`.

    Args:
        rule: Which table.
        sql: The SQL that joins it.
        before: Its rows as they were read before; they are kept where nothing was published since.
        pin: The state to read; empty for the newest one.
    """
    if rule.access is None:
        raise NotInThisVersionError(
            f"`transform.tables.{rule.name}` in a catalog of a plug-in is not in this version",
            where=sql.places.place(None),
            hint="write `connection` of a metastore or an Iceberg catalog",
        )
    state = _state(rule, rule.access, pin)
    if before is not None and before.pin == state.pin:
        return before
    pieces, size_bytes = [], 0
    with closing(state.rows):
        for piece in state.rows:
            pieces.append(piece)
            size_bytes += piece.nbytes
            _check_size(rule, sql, size_bytes)
    if not any(piece.num_rows for piece in pieces):
        raise _no_row(rule)
    return JoinedTable(rule.name, state.pin, pa.concat_tables(pieces, promote_options="default"))


def _state(rule: DimensionRule, access: SourceAccess, pin: str) -> WholeTable:
    """The newest state of a table, or the pinned one."""
    if access.kind != LAKE_SOURCE:
        return whole_ledger_table(UpstreamOptions.of(dict(access.options)), pin)
    # Only such routes load the library of Iceberg.
    from sluiceway.chains.lake_rows import whole_lake_table  # noqa: PLC0415

    state = whole_lake_table(LakeUpstream.of(dict(access.options)), pin, _REQUEST_TIMEOUT_S)
    if state is None:
        raise _no_row(rule)
    return state


def _no_row(rule: DimensionRule) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"the table {rule.table} has no row; the route waits until it has one",
        where=f"transform.tables.{rule.name}",
        hint="run the job that fills it, or remove the table from the SQL",
    )


def _check_size(rule: DimensionRule, sql: SqlRule, size_bytes: int) -> None:
    if size_bytes > MOST_BYTES:
        raise JobFileError(
            f"the table {rule.table} has more than {MOST_BYTES >> 20} MiB of rows",
            where=sql.places.place(None),
            hint="join a smaller table, or use a route with `source: {mode: recompute}`",
        )
