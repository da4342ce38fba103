"""Columns of the table while a route runs: a change takes effect at an epoch's border, or halts.

An epoch is committed with what it was planned with. The plan of its tasks, and so the schema's
fingerprint in its record, is the one of the moment in which it was planned.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from sluiceway.errors import SchemaChangedError, TableMismatchError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.route.columns_to_add import (
    ColumnsToAdd,
    DesiredColumn,
    ObservedPlace,
    filled_columns,
    merged_fields,
)
from sluiceway.route.route_meter import RouteMeter
from sluiceway.route.route_plan import route_plan
from sluiceway.route.takeover import OwnedTable
from sluiceway.sinks.contract import ColumnsRefused, TableSink, TableState
from sluiceway.types.dirty import shown
from sluiceway.types.evolution import (
    ColumnChanges,
    Evolution,
    column_changes,
)
from sluiceway.types.key_path import path_text
from sluiceway.types.schema import Field
from sluiceway.worker.plan import ObservedField, RoutePlan, TaskResult

_MOST_TOLD = 20


class RouteUnfilledColumns:
    """One route's, while its driver lives. Used by one thread at a time.

    Args:
        log: The route's log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._empty: frozenset[str] | None = None
        self._told: set[str] = set()

    def check(
        self, columns: Sequence[Field], results: Sequence[TaskResult], ignored: Mapping[str, int]
    ) -> dict[str, str]:
        """Take in what the tasks of an epoch have filled; each column is logged once.

        Args:
            columns: Columns of the payload, as the tasks got them.
            results: What they have answered.
            ignored: Fields that no column reads, seen so far.

        Returns:
            Columns that no row has filled so far, each with the field that was meant if a name is
            like it; else with an empty text. None while every field is read.
        """
        for each in results:
            if each.unfilled is not None:
                found = frozenset(each.unfilled)
                self._empty = found if self._empty is None else self._empty & found
        if not self._empty or not ignored:
            return {}
        empty = [column for column in columns if column.name in self._empty][:_MOST_TOLD]
        named = {column.name: _nearest(column, ignored) for column in empty}
        self._log_fields({name: n for name, n in named.items() if name not in self._told}, ignored)
        return named

    def _log_fields(self, named: Mapping[str, str], ignored: Mapping[str, int]) -> None:
        if not named:
            return
        self._told.update(named)
        meant = ", ".join(f"`{field}` for {name}" for name, field in named.items() if field)
        ask = f"did you mean the field {meant}? " if meant else ""
        self._log.warning(
            "columns_never_filled",
            columns=list(named),
            fields_not_read=list(ignored)[:_MOST_TOLD],
            hint=f"{ask}No row since this driver started fills the columns. Name the field as "
            "`path` of the column in the job file; rows that are there stay null",
        )


def _nearest(column: Field, ignored: Mapping[str, int]) -> str:
    """The field that a column's name was meant to be; empty when none is like it."""
    by_name = {name.lower(): name for name in ignored}
    wanted = path_text(column.path or (column.name,)).lower()
    close = get_close_matches(wanted, by_name, n=1)
    return by_name[close[0]] if close else ""


_MOST_NAMES = 200
_MOST_CHARS = 200


class IgnoredFields:
    """One route's, while its driver lives. Used by one thread at a time.

    Args:
        log: The route's log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rows: Counter[str] = Counter()

    def count(self, seen: Sequence[ObservedField]) -> dict[str, int]:
        """Take in what the tasks of an epoch have seen; each name is logged once.

        Args:
            seen: Fields in the rows that were sampled.

        Returns:
            Rows in which each was seen so far.
        """
        new: dict[str, str] = {}
        for each in seen:
            name = shown(each.name, _MOST_CHARS)[1:-1]
            if name not in self._rows:
                if len(self._rows) >= _MOST_NAMES:
                    continue
                new[name] = each.type or "of no one type"
            self._rows[name] += each.rows
        if new:
            self._log.info("fields_ignored", fields=new)
        return dict(self._rows)


_MOST_REFUSED = 100
_COMMANDS = ("sluiceway validate JOB", "sluiceway run JOB")


class SchemaFollower:
    """What the tasks of a route share, as the table has it now. Any thread may read `plan`.

    Args:
        config: The route.
        owned: Its ledger, and the table as START has found it.
        sink: The table.
        log: The route's log.
        metrics: Gets which fields are ignored, and which columns no row fills meanwhile.

    Attributes:
        plan: For the next epoch to be planned.

    Raises:
        TableMismatchError: The table's columns cannot be filled as the job file says, or it does
            not take the columns that it lacks.
        JobFileError: The declared columns cannot.
        MetastoreUnavailableError: The metastore does not answer; columns may be there or not.
    """

    def __init__(
        self,
        config: RouteConfig,
        owned: OwnedTable,
        sink: TableSink,
        log: Log,
        metrics: RouteMeter,
    ) -> None:
        state = _with_lacking(owned.state, sink, log)
        self.plan: RoutePlan = route_plan(config, owned, state)
        self._config = config
        self._owned = owned
        self._sink = sink
        self._log = log
        self._meter = metrics
        self._state = state
        self._lock = threading.Lock()
        self._refused: set[ObservedPlace] = set()
        self._told: set[str] = set()
        self._ignored = IgnoredFields(log)
        self._unfilled = RouteUnfilledColumns(log)
        # Partitions may lack columns that were added while no driver watched.
        self._owes_columns = config.evolution.follows
        self._warn()

    def current(self) -> RoutePlan:
        """What tasks share now."""
        return self.plan

    def owes_columns(self) -> bool:
        """Whether partitions may have fewer columns than the table; said once for each change.

        The driver's thread calls it where it decides what the catalog shows.
        """
        with self._lock:
            owed, self._owes_columns = self._owes_columns, False
        return owed

    def read(self) -> RoutePlan:
        """Take in what was last seen of the table's columns; calls no server.

        Called by the loop's thread before each epoch is planned.

        Returns:
            What the tasks of that epoch share.

        Raises:
            SchemaChangedError: They have changed in a way that the route does not follow.
            TableMismatchError: The new columns cannot be filled.
        """
        with self._lock:
            seen = self._sink.observed_columns()
            if seen is None or seen == self._state.columns:
                return self.plan
            changes = self._concerning(column_changes(self._state.columns, seen))
            evolution = self._config.evolution
            by_place = self._state.files.columns is not None
            if changes.breaks(by_place=by_place) or (changes and evolution is Evolution.FAIL):
                raise self._changed(changes)
            if not changes or not evolution.follows:
                self._state = replace(self._state, columns=seen)
                if changes:
                    self._log.warning("schema_not_followed", **changes.evidence())
                return self.plan
            self._use(self._sink.observed_state())
            self._log.info("schema_followed", schema=self.plan.schema_version, **changes.evidence())
            return self.plan

    def add_columns(self, planned: RoutePlan, results: Sequence[TaskResult]) -> bool:
        """Add columns for the fields that an epoch has met. Called before its commit.

        Args:
            planned: What its tasks got.
            results: What they have answered.

        Returns:
            Whether the epoch has to be read again, by the new columns: nothing of it is committed.

        Raises:
            TableMismatchError: The table is gone, or another one.
            MetastoreUnavailableError: It does not answer; the epoch is discarded.
        """
        fields = merged_fields(seen for result in results for seen in result.unknown_fields)
        if planned.samples == "few":
            # What the job file leaves out by name is no news.
            left_out = self._config.left_out
            news = [
                each
                for each in fields.values()
                if each.column or each.path[0].lower() not in left_out
            ]
            self._meter.ignored_fields = ignored = self._ignored.count(news)
            self._meter.unfilled_columns = self._unfilled.check(
                planned.schema.fields, results, ignored
            )
        if planned.samples != "dirty" or not fields:
            return False
        if planned.schema_version != self.plan.schema_version:
            # What was not known when the epoch was planned may be known now.
            return True
        wanted = self._desired_columns(fields)
        if not wanted:
            return False
        self._owned.tenure.check()
        state = self._sink.add_columns([each.column for each in wanted])
        if isinstance(state, ColumnsRefused):
            # One by one: perhaps it is only one of them.
            added = [each for each in wanted if self._add(each)]
            return bool(added)
        self._use_added(state, wanted)
        return True

    def _add(self, wanted: DesiredColumn) -> bool:
        state = self._sink.add_columns([wanted.column])
        if isinstance(state, ColumnsRefused):
            for place in wanted.places:
                self._refuse(place, state.reason)
            return False
        self._use_added(state, [wanted])
        return True

    def _use_added(self, state: TableState, added: Sequence[DesiredColumn]) -> None:
        with self._lock:
            self._use(state)
        columns = {f"column {each.column.name}": each.column.type for each in added}
        self._log.info("columns_added", schema=self.plan.schema_version, **columns)

    def _use(self, state: TableState) -> None:
        self.plan = route_plan(self._config, self._owned, state)
        self._state = state
        self._owes_columns = True
        self._warn()

    def _warn(self) -> None:
        for warning in self._state.warnings:
            self._log.warning("table", table=str(self._state.identity), warning=warning)

    def _concerning(self, changes: ColumnChanges) -> ColumnChanges:
        """Without columns that are none of this route's."""
        if self._config.columns is None or self._config.evolution.follows:
            return changes
        return changes.within(frozenset(name.lower() for name in filled_columns(self.plan)))

    def _changed(self, changes: ColumnChanges) -> SchemaChangedError:
        evidence = changes.evidence()
        said = "; ".join(
            f"{name.removeprefix('column ')}: {what}" for name, what in evidence.items()
        )
        follows = self._config.evolution.follows
        hint = (
            "bring the column back, or leave it out of the job file; start the job again then"
            if follows
            else "start the job again to go on with the table as it is; with table.evolution: "
            "follow_table new columns need no restart"
        )
        return SchemaChangedError(
            f"the table's columns have changed while the route runs: {said[:2000]}",
            where=str(self._state.identity),
            hint=hint,
        ).with_report(evidence, _COMMANDS)

    # add_columns

    def _desired_columns(self, fields: dict[ObservedPlace, ObservedField]) -> list[DesiredColumn]:
        found = ColumnsToAdd(self._config, self.plan, self._state)
        found.add(fields, self._refused)
        for place, why in found.refused.items():
            self._refuse(place, why)
        for place, why in found.unfit.items():
            self._log_fields(ObservedField(*place, type=""), why)
        return list(found.desired.values())

    def _refuse(self, place: ObservedPlace, why: str) -> None:
        """Say once that rows with this field stay dirty."""
        if len(self._refused) < _MOST_REFUSED:
            self._refused.add(place)
            self._log_fields(ObservedField(*place, type=""), why)

    def _log_fields(self, seen: ObservedField, why: str) -> None:
        """Say that rows with a field are dirty; once for each, and it may get a column later."""
        if seen.name not in self._told and len(self._told) < _MOST_REFUSED:
            self._told.add(seen.name)
            self._log.warning("field_not_added", field=shown(seen.name, 200)[1:-1], reason=why)


def _with_lacking(state: TableState, sink: TableSink, log: Log) -> TableState:
    """The table with the columns that a schema has and it does not; called once it is fenced."""
    if not state.lacking:
        return state
    found = sink.add_columns(state.lacking)
    names = ", ".join(f"{column.name} {column.type}" for column in state.lacking)
    if isinstance(found, ColumnsRefused):
        raise TableMismatchError(
            f"the table does not take the columns that the schema has: {names}: {found.reason}",
            where=str(state.identity),
            hint="alter the table, or name the version before in the job file: table.subject",
        )
    log.info("columns_added", **{f"column {each.name}": each.type for each in state.lacking})
    return found
