"""Small tables that a route's SQL joins: read by the driver, at a slot of their ledgers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluiceway.errors import JobFileError, NotInThisVersionError, SourceUnavailableError
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.route.clients import REQUEST_TIMEOUT_S
from sluiceway.schedule.source_view import read_source_view
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.sources.contract import Split
from sluiceway.sources.registry import open_client, open_reader, reader_access

MOST_BYTES = 256 << 20
"""Largest small table; it goes to every task."""

_READ_S = 5.0


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

    def read(self) -> tuple[JoinedTable, ...]:
        """The tables for an epoch; each is read again when its rows are older than `refresh`.

        Called before each job. All tries of an epoch use the same rows.

        Raises:
            JobFileError: A table is too large.
            NotInThisVersionError: A table is of a kind that is not read.
            SourceUnavailableError: A table is not there, or has no row yet.
            SluicewayError: Its catalog or its store does not answer.
        """
        found = []
        for each in self._rule.tables:
            held, now = self._held.get(each.name), self._clock()
            if held is None or now - held.read_at >= each.refresh_s:
                before = None if held is None else held.table
                held = _Held(read_table(each, self._rule, before), now)
                self._held[each.name] = held
            found.append(held.table)
        return tuple(found)


def read_table(rule: DimensionRule, sql: SqlRule, before: JoinedTable | None = None) -> JoinedTable:
    """All published rows of a table; see `SqlTables.read`.

    Args:
        rule: Which table.
        sql: The SQL that joins it.
        before: Its rows as they were read before; they are kept where nothing was published since.
    """
    if rule.access is None:
        raise NotInThisVersionError(
            f"`transform.tables.{rule.name}` in a catalog of Iceberg is not in this version",
            where=sql.places.place(None),
            hint="join tables that a job fills, in the metastore of the route's own table",
        )
    client = open_client(rule.access, REQUEST_TIMEOUT_S)
    try:
        view = read_source_view(client, [rule.topic])
        (found,) = view.of((rule.topic,))
        bounds = view.bounds[found.partition]
        pin = f"{found.identity.cluster_id}@{bounds.end_offset}"
        if before is not None and before.pin == pin:
            return before
        access = reader_access(rule.access, client)
    finally:
        client.close()
    if bounds.end_offset == bounds.start_offset:
        raise SourceUnavailableError(
            f"the table {rule.table} has no row yet; it is read again",
            where=f"transform.tables.{rule.name}",
            hint="run the job that fills it",
        )
    split = Split(found.partition, bounds.start_offset, bounds.end_offset)
    reader = open_reader(access, [split], owner=f"sql-{rule.name}")
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    try:
        while not reader.finished():
            for batch in _columns(reader.read(_READ_S)):
                batches.append(batch)
                size_bytes += batch.nbytes
                if size_bytes > MOST_BYTES:
                    raise _too_large(rule, sql)
    finally:
        reader.close(reusable=False)
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return JoinedTable(rule.name, pin, pa.concat_tables(tables, promote_options="default"))


def _columns(batches: list[Any]) -> Iterator[pa.RecordBatch]:
    """The columns of rows of a table."""
    for batch in batches:
        yield batch.values.columns


def _too_large(rule: DimensionRule, sql: SqlRule) -> JobFileError:
    return JobFileError(
        f"the table {rule.table} has more than {MOST_BYTES >> 20} MiB of rows",
        where=sql.places.place(None),
        hint="join a smaller table, or use a route with `source: {mode: recompute}`",
    )
