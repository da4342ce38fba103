"""Publishing to a lake table: a projection of the log, by requests that may land late or twice.

Slots are committed one by one, with rows or without. Any number of publishers may live, so none
has a state of its own: each loads the table, builds one request and sends it; what it is answered
tells nothing. A request may be dropped, land now, or land and stay under way as a copy. Beside
them others append, compact and expire; the owner may roll the table back or replace it; a writer
without compare-and-swap may overwrite what has landed since it read.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

_ANY = ("any",)
Id = tuple[object, ...]


class Snapshot(NamedTuple):
    """A snapshot; `rows` is how often each slot is in it, and last how many rows of others."""

    id: Id
    parent: Id | None
    sequence: int
    through: int | None
    rows: tuple[int, ...]


class Through(NamedTuple):
    """The table's property: slot, our snapshot, its sequence number."""

    slot: int
    id: Id | None
    sequence: int


class Table(NamedTuple):
    """One metadata file."""

    snapshots: tuple[Snapshot, ...]
    main: Id | None
    through: Through
    sequence: int


class Request(NamedTuple):
    """What is under way; without a snapshot it only sets the property."""

    head: Id | None
    snapshot: Snapshot | None
    through: Through | None


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        committed: Slots in the log.
        looked: Slot that a publisher has read by a load of its own; only a wrong one does.
        saved: What a writer without compare-and-swap has read.
        cleaned: Snapshots whose files somebody has removed.
        taken: The owner has taken rows out of the table.
        appended: Others have rows in the table, which nothing may take out again.
    """

    table: Table
    committed: int
    flying: frozenset[Request]
    looked: int | None
    saved: Table | None
    cleaned: frozenset[Id]
    foreign: int
    expiries: int
    owner: int
    stomps: int
    taken: bool
    appended: bool


@dataclass(frozen=True, slots=True)
class LakeBounds:
    """How far the model goes.

    Attributes:
        kinds: A slot each: `D` with rows, `E` without.
        flying: Requests under way at one time.
        foreign: Compactions and appends of others.
        expiries: Times that all snapshots but the newest are expired.
        owner: Rollbacks and replacements.
        stomps: Writes without compare-and-swap.
        halts: Whether a route halts when an expiry hides its history.
    """

    kinds: str = "DED"
    flying: int = 2
    foreign: int = 1
    expiries: int = 0
    owner: int = 0
    stomps: int = 0
    halts: bool = False


class LakeModel:
    """See the module."""

    def __init__(self, bounds: LakeBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        bounds = self._bounds
        return State(
            table=Table((), None, Through(-1, None, 0), 0),
            committed=0,
            flying=frozenset(),
            looked=None,
            saved=None,
            cleaned=frozenset(),
            foreign=bounds.foreign,
            expiries=bounds.expiries,
            owner=bounds.owner,
            stomps=bounds.stomps,
            taken=False,
            appended=False,
        )

    def canonical(self, state: State) -> State:
        return state

    def steps(self, state: State) -> Steps[State]:
        if state.table.sequence > len(self._bounds.kinds) + 5:
            return  # Only wrong variants get there.
        if state.committed < len(self._bounds.kinds):
            yield f"commit {state.committed}", state._replace(committed=state.committed + 1)
        if len(state.flying) < self._bounds.flying and not self._halted(state.table):
            yield from self._send(state)
        yield from self._network(state)
        if state.table.main is not None:
            yield from self._others(state)

    # Publishers

    def _send(self, state: State) -> Steps[State]:
        table = state.table
        wrong = self._mutation
        known = _newest_of_ours(table) if wrong is Mutation.LAKE_BY_ANCESTRY else table.through.slot
        if wrong is Mutation.LAKE_TWO_LOADS:
            if state.looked is None:
                yield "look", state._replace(looked=known)
            else:
                known = state.looked
        firsts = range(known + 1, known + 2)
        if wrong is Mutation.LAKE_SLOT_LEFT_OUT:
            firsts = range(known + 1, state.committed)
        for first in firsts:
            for last in range(first, state.committed):
                for publisher in (0, 1):
                    request = self._request(table, publisher, first, last)
                    yield from self._fly(state, f"send {first}-{last}", request)
        yield from self._again(state)

    def _again(self, state: State) -> Steps[State]:
        """What only wrong publishers send."""
        table = state.table
        if self._mutation is Mutation.LAKE_RETRY_BLIND:
            for request in state.flying:
                if request.snapshot is not None:
                    _, publisher, first, last = request.snapshot.id
                    assert isinstance(publisher, int)
                    assert isinstance(first, int)
                    assert isinstance(last, int)
                    again = self._request(table, publisher, first, last)
                    yield from self._fly(state, f"again {first}-{last}", again)
        if self._mutation is Mutation.LAKE_TWO_REQUESTS:
            for each in table.snapshots:
                if each.through is not None and each.through > table.through.slot:
                    through = Through(each.through, each.id, each.sequence)
                    yield from self._fly(state, "property", Request(table.main, None, through))

    def _fly(self, state: State, label: str, request: Request) -> Steps[State]:
        if request not in state.flying:
            yield label, state._replace(flying=state.flying | {request}, looked=None)

    def _request(self, table: Table, publisher: int, first: int, last: int) -> Request:
        sequence = table.sequence + 1
        name = (sequence, publisher, first, last)
        held = _rows(table) or (0,) * (len(self._bounds.kinds) + 1)
        rows = tuple(
            count + (first <= slot <= last and self._bounds.kinds[slot] == "D")
            for slot, count in enumerate(held[:-1])
        )
        snapshot = Snapshot(name, table.main, sequence, last, (*rows, held[-1]))
        head = _ANY if self._mutation is Mutation.LAKE_HEAD_UNASSERTED else table.main
        apart = self._mutation is Mutation.LAKE_TWO_REQUESTS
        return Request(head, snapshot, None if apart else Through(last, name, sequence))

    def _halted(self, table: Table) -> bool:
        if self._mutation is Mutation.LAKE_NO_LINEAGE:
            return False
        found = _lineage(table)
        return found == "lost" or (found == "unproven" and self._bounds.halts)

    # The network and the catalog

    def _network(self, state: State) -> Steps[State]:
        for request in state.flying:
            left = state.flying - {request}
            landed = self._land(state.table, request)
            if landed is not None and landed != state.table:
                yield "land", state._replace(table=landed, flying=left)
                yield "land, a copy stays", state._replace(table=landed)
            yield "drop", state._replace(flying=left)
            if self._mutation is Mutation.LAKE_CLEANED_UP and request.snapshot is not None:
                yield "clean up", state._replace(cleaned=state.cleaned | {request.snapshot.id})

    def _land(self, table: Table, request: Request) -> Table | None:
        if request.head not in (_ANY, table.main):
            return None
        new = request.snapshot
        if new is None:
            return table._replace(through=request.through or table.through)
        if new.sequence <= table.sequence and request.head != _ANY:
            return None
        kept = tuple(each for each in table.snapshots if each.id != new.id)
        return Table(
            (*kept, new),
            new.id,
            request.through or table.through,
            max(table.sequence, new.sequence),
        )

    # Other writers

    def _others(self, state: State) -> Steps[State]:
        table = state.table
        rows = _rows(table) or ()
        if state.foreign:
            compacted = _added(table, rows, table.main, "compaction")
            left = state._replace(foreign=state.foreign - 1)
            yield "compaction", left._replace(table=compacted)
            more = _added(table, (*rows[:-1], rows[-1] + 1), table.main, "append")
            yield "foreign append", left._replace(table=more, appended=True)
        if state.expiries:
            kept = tuple(each for each in table.snapshots if each.id == table.main)
            after = table._replace(snapshots=kept)
            yield "expire", state._replace(table=after, expiries=state.expiries - 1)
        if state.owner:
            taken = state._replace(owner=state.owner - 1, taken=True)
            for each in table.snapshots:
                if each.id != table.main:
                    yield "rollback", taken._replace(table=table._replace(main=each.id))
            empty = (0,) * (len(self._bounds.kinds) + 1)
            yield "replace", taken._replace(table=_added(table, empty, None, "replace"))
        if state.stomps and state.saved is None:
            yield "foreign read", state._replace(saved=table)
        if state.saved is not None and state.saved.main is not None:
            held = _rows(state.saved) or ()
            over = _added(state.saved, held, state.saved.main, "overwrite")
            yield (
                "overwrite",
                state._replace(table=over, saved=None, stomps=state.stomps - 1, appended=False),
            )

    # What must hold

    def broken(self, state: State) -> str | None:
        rows = _rows(state.table)
        if rows is None:
            return None
        if state.appended and not state.taken and rows[-1] == 0:
            return "LOSS of rows that another writer had committed"
        ours = rows[:-1]
        for slot, count in enumerate(ours):
            if count > 1:
                return f"DUPLICATE rows of slot {slot}"
        with_rows = [n for slot, n in enumerate(ours) if self._bounds.kinds[slot] == "D"]
        if any(later > earlier for earlier, later in pairwise(with_rows)):
            return "GAP: a later slot is shown without an earlier one"
        through = state.table.through.slot
        for slot, count in enumerate(ours):
            owed = slot <= through and self._bounds.kinds[slot] == "D"
            if owed and count == 0 and not state.taken:
                return f"LOSS: the property says {through}, slot {slot} is not there"
        if any(each in state.cleaned for each in _line(state.table)):
            return "LOSS: files of a snapshot that has landed were cleaned up"
        return None

    def at_rest(self, state: State) -> str | None:
        done = self.is_goal(state) or self._halted(state.table)
        return None if done else "STUCK"

    def is_goal(self, state: State) -> bool:
        wanted = tuple(int(kind == "D") for kind in self._bounds.kinds)
        rows = _rows(state.table)
        last = len(self._bounds.kinds) - 1
        return rows is not None and state.table.through.slot == last and rows[:-1] == wanted

    def must_reach_goal(self, state: State) -> bool:
        return not state.taken


def _find(table: Table, name: Id | None) -> Snapshot | None:
    return next((each for each in table.snapshots if each.id == name), None)


def _rows(table: Table) -> tuple[int, ...] | None:
    found = _find(table, table.main)
    return None if found is None else found.rows


def _line(table: Table) -> list[Id]:
    """The head of main and all its parents that are there."""
    names: list[Id] = []
    found = _find(table, table.main)
    while found is not None:
        names.append(found.id)
        found = _find(table, found.parent)
    return names


def _lineage(table: Table) -> str:
    through = table.through
    if through.id is None:
        return "good"
    name = table.main
    while name is not None:
        if name == through.id:
            return "good"
        found = _find(table, name)
        if found is None:
            return "unproven"
        if found.sequence <= through.sequence:
            return "lost"
        name = found.parent
    return "lost"


def _newest_of_ours(table: Table) -> int:
    """The last slot of the newest snapshot of ours that main still shows."""
    for name in _line(table):
        found = _find(table, name)
        if found is not None and found.through is not None:
            return found.through
    return -1


def _added(table: Table, rows: tuple[int, ...], parent: Id | None, by: str) -> Table:
    sequence = table.sequence + 1
    new = Snapshot((sequence, by), parent, sequence, None, rows)
    return Table((*table.snapshots, new), new.id, table.through, sequence)
