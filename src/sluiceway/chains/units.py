"""Units of a table that is computed from another one: which are due, by values alone.

A unit is one value of the leading partition columns, `dt=20261120/hr=08`. It is due when the
input of its last SWAP differs from its input now. There is no other state, so a driver that dies
computes a unit again, and nothing is doubled.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluiceway.errors import RequestRefusedError, TableMismatchError
from sluiceway.ledger.partition_records import ExpireRecord, ReadyRecord, SwapRecord
from sluiceway.ledger.places import partition_of
from sluiceway.ledger.records import EpochRecord, Record

UNITS = "units"
"""Option of a source whose units a route computes; see `UnitRule.text`."""

_PREPARED_AT = "prepared_at"
_NEVER = -1


class UnitWhen(StrEnum):
    """When a unit of the upstream table may be computed."""

    READY = "ready"
    SUCCESS = "success"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class UnitRule:
    """What a route computes, and when.

    Attributes:
        columns: Leading partition columns of both tables, in lower case.
        when: When a unit may be computed.
        settle_ms: Time without a change after which a unit is settled.
        fingerprint: Hash of all that decides the result besides the rows, 64 hex digits.
    """

    columns: tuple[str, ...]
    when: UnitWhen
    settle_ms: int
    fingerprint: str

    def text(self) -> str:
        """The same as an option of a source."""
        return json.dumps([self.columns, self.when, self.settle_ms, self.fingerprint])

    @classmethod
    def of(cls, text: str) -> "UnitRule":
        """What `text` has made."""
        columns, when, settle_ms, fingerprint = json.loads(text)
        return cls(tuple(columns), UnitWhen(when), settle_ms, fingerprint)


def fingerprint_of(*parts: object) -> str:
    """Hash of what decides the result of a unit; each part goes by its `repr`."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit of the upstream table now.

    Attributes:
        prefix: Folder of the unit, `dt=20261120/hr=08`.
        version: Version of its newest announcement; 0 before one.
        announced: Slot of that announcement; -1 before one.
        slot: Slot that last changed its rows; -1 where it never had any. Of a table without a
            ledger it is a number made from the listing of its files.
        changed_ms: When that was, in milliseconds since the epoch, by the clock of who did it.
        rows: Rows it has.
        lost: Whether rows of it were let go of; what is left is not the whole unit.
        success: Whether each of its folders has a file `_SUCCESS`.
    """

    prefix: str
    version: int = 0
    announced: int = _NEVER
    slot: int = _NEVER
    changed_ms: int = 0
    rows: int = 0
    lost: bool = False
    success: bool = False


@dataclass(frozen=True, slots=True)
class ComputedUnit:
    """What the last SWAP of a unit was computed from.

    Attributes:
        ledger: Uuid of the upstream ledger.
        version: See `UnitState.version`.
        slot: See `UnitState.slot`.
        sql: `UnitRule.fingerprint` at that time.
    """

    ledger: str
    version: int
    slot: int
    sql: str


def computed_by(body: SwapRecord) -> ComputedUnit:
    """What the rows of a SWAP were computed from; rows of another origin stand for no input."""
    if not body.inputs:
        return ComputedUnit("", 0, _NEVER, body.sql)
    read = body.inputs[0]
    return ComputedUnit(read.ledger, read.version, read.slot, body.sql)


class DueReason(StrEnum):
    """Why a unit is due."""

    NEW = "new"
    INPUT = "input changed"
    SQL = "SQL changed"


@dataclass(frozen=True, slots=True)
class DueUnit:
    """A unit that has to be computed."""

    state: UnitState
    reason: DueReason

    @property
    def prefix(self) -> str:
        """Folder of the unit."""
        return self.state.prefix


def is_open(state: UnitState, rule: UnitRule, now_ms: int) -> bool:
    """Whether a unit may still change soon, so that it is not computed now.

    Args:
        state: The unit.
        rule: What the route waits for.
        now_ms: The clock, milliseconds since the epoch.
    """
    if rule.when is UnitWhen.READY:
        # Rows that came after the announcement are announced again.
        return state.version == 0 or state.slot > state.announced
    if rule.when is UnitWhen.SUCCESS:
        return not state.success
    return state.slot == _NEVER or now_ms - state.changed_ms < rule.settle_ms


def due_units(
    states: Iterable[UnitState],
    computed: Mapping[str, ComputedUnit],
    ledger: str,
    rule: UnitRule,
    now_ms: int,
) -> list[DueUnit]:
    """The units to compute now, in the order of their prefixes.

    A unit that upstream let go of stays as it was computed: its rows are not all there any more.

    Args:
        states: All units of the upstream table.
        computed: Prefix -> what its last SWAP was computed from.
        ledger: Uuid of the upstream ledger.
        rule: What the route computes, and when.
        now_ms: The clock, milliseconds since the epoch.
    """
    found = []
    for state in sorted(states, key=lambda each: each.prefix):
        reason = _why_due(state, computed.get(state.prefix), ledger, rule)
        if reason is not None and not state.lost and not is_open(state, rule, now_ms):
            found.append(DueUnit(state, reason))
    return found


def complete_unit(
    states: Iterable[UnitState], prefix: str, rule: UnitRule, now_ms: int
) -> UnitState:
    """The unit that an operator wants to be computed, due or not.

    Args:
        states: All units of the upstream table.
        prefix: Folder of the unit.
        rule: What the route computes, and when.
        now_ms: The clock, milliseconds since the epoch.

    Raises:
        RequestRefusedError: The unit is not there, not complete yet, or no longer whole.
    """
    state = next((each for each in states if each.prefix == prefix), None)
    why, hint = "", "`sluiceway partitions list JOB` of the table that is read names its partitions"
    if [part.partition("=")[0].lower() for part in prefix.split("/")] != list(rule.columns):
        whole = "/".join(f"{name}=..." for name in rule.columns)
        why, hint = f"expected a whole unit, `{whole}`", "name its partition columns, and no more"
    elif state is None:
        why = "the table that is read has no such unit"
    elif state.lost:
        why, hint = "the table that is read has let go of rows of it", "leave it as it is"
    elif is_open(state, rule, now_ms):
        why, hint = "it is not complete yet", "`partitions why` says what it waits for"
    if state is None or why:
        raise RequestRefusedError(why, where=prefix, hint=hint)
    return state


def _why_due(
    state: UnitState, before: ComputedUnit | None, ledger: str, rule: UnitRule
) -> DueReason | None:
    if before is None:
        return DueReason.NEW
    now = ComputedUnit(ledger, state.version, state.slot, before.sql)
    if before != now:
        return DueReason.INPUT
    return None if before.sql == rule.fingerprint else DueReason.SQL


@dataclass(slots=True)
class UnitBook:
    """The units of a table with a ledger, record by record. Used by one thread.

    Args:
        columns: Columns of the unit, in lower case.
        announced: Whether the route follows announcements, which have to be of units then.
    """

    columns: tuple[str, ...]
    announced: bool = True
    _units: dict[str, UnitState] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        """Take in the record of the next published slot.

        Raises:
            TableMismatchError: The table has other partition columns, or announces other times.
        """
        body = record.body
        if isinstance(body, EpochRecord):
            at_ms = body.timings_ms.get(_PREPARED_AT, 0)
            for file in body.files:
                self._add(partition_of(file.final), int(file.rows), record.seq, at_ms)
        elif isinstance(body, ExpireRecord):
            for each in body.partitions:
                state = self._unit(each.partition)
                rows = state.rows - int(each.rows)
                self._units[state.prefix] = replace(state, lost=True, rows=rows, slot=record.seq)
        elif isinstance(body, SwapRecord):
            for swapped in body.partitions:
                gained = sum(int(file.rows) for file in swapped.live)
                lost = sum(int(file.rows) for file in swapped.removed)
                self._add(swapped.partition, gained - lost, record.seq, 0)
        elif isinstance(body, ReadyRecord) and self.announced:
            state = self._unit(body.prefix)
            if state.prefix != body.prefix:
                raise self._unlike(f"it announces {body.prefix}")
            ready = replace(state, version=body.version, announced=record.seq)
            self._units[state.prefix] = ready

    def states(self) -> Iterator[UnitState]:
        """All units that have rows, or had some, or were announced."""
        yield from self._units.values()

    def rows(self, prefix: str) -> int:
        """Rows of a unit; 0 where there is none."""
        state = self._units.get(prefix)
        return 0 if state is None else state.rows

    def _add(self, partition: str, rows: int, slot: int, at_ms: int) -> None:
        state = self._unit(partition)
        self._units[state.prefix] = replace(
            state, rows=state.rows + rows, slot=slot, changed_ms=max(at_ms, state.changed_ms)
        )

    def _unit(self, partition: str) -> UnitState:
        prefix = unit_of(partition, self.columns)
        if prefix is None:
            raise self._unlike(f"it has the partition {partition or 'of the whole table'}")
        return self._units.get(prefix) or UnitState(prefix)

    def _unlike(self, found: str) -> TableMismatchError:
        return TableMismatchError(
            f"the table that is read has no units of {', '.join(self.columns)}: {found}",
            where="source.unit",
            hint="name its leading partition columns; `when: ready` needs all that it announces by",
        )


def unit_of(partition: str, columns: Sequence[str]) -> str | None:
    """The unit that a partition belongs to; None where it has other leading columns."""
    parts = partition.split("/")[: len(columns)]
    names = [part.partition("=")[0].lower() for part in parts]
    return "/".join(parts) if names == list(columns) else None
