"""Publishing changes of keyed rows: positions of older rows, found at the head that is asserted.

A slot has changes, each a key and its new value, or none for a delete. A publisher loads the
table, looks where the keys of its batch are, and sends one request with the new rows and the
positions of the old ones; it may write the living rows of all files anew within the same request.
Requests may be dropped, land, or land and stay under way as a copy. Beside them others compact:
the same rows in a new file, at other positions.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

Row = tuple[int, int]
"""Key and value."""
Change = tuple[int, int | None]
Position = tuple[int, int]
"""File and row in it."""


class Table(NamedTuple):
    """One metadata file; `head` is the number of its snapshot, files are named by theirs."""

    head: int
    files: tuple[tuple[int, tuple[Row, ...]], ...]
    dead: frozenset[Position]
    through: int


class Request(NamedTuple):
    """What is under way: what it asserts, and what it makes of the table."""

    head: int | None
    through: int
    added: tuple[Row, ...]
    dead: frozenset[Position]
    removed: frozenset[int]


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        looked: Table that a publisher has resolved its keys in before; only a wrong one does.
        foreign: Compactions that others may make still.
    """

    table: Table
    committed: int
    flying: frozenset[Request]
    looked: Table | None
    foreign: int


@dataclass(frozen=True, slots=True)
class KeyedBounds:
    """How far the model goes.

    Attributes:
        slots: Changes of each slot, in their order.
        flying: Requests under way at one time.
        foreign: Compactions of others.
    """

    slots: tuple[tuple[Change, ...], ...] = (
        ((1, 0), (2, 0)),
        ((1, 1), (1, 2)),
        ((2, None), (1, None), (1, 3)),
    )
    flying: int = 2
    foreign: int = 1


class KeyedModel:
    """See the module."""

    def __init__(self, bounds: KeyedBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        table = Table(0, (), frozenset(), -1)
        return State(table, 0, frozenset(), None, self._bounds.foreign)

    def canonical(self, state: State) -> State:
        return state

    def steps(self, state: State) -> Steps[State]:
        if state.table.head > len(self._bounds.slots) + self._bounds.foreign + 2:
            return  # Only wrong variants get there.
        if state.committed < len(self._bounds.slots):
            yield f"commit {state.committed}", state._replace(committed=state.committed + 1)
        if self._mutation is Mutation.KEYED_OTHER_HEAD and state.looked is None:
            yield "look", state._replace(looked=state.table)
        yield from self._send(state)
        for request in state.flying:
            left = state.flying - {request}
            landed = _land(state.table, request)
            if landed is not None:
                yield "land", state._replace(table=landed, flying=left)
                yield "land, a copy stays", state._replace(table=landed)
            yield "drop", state._replace(flying=left)
        if state.foreign and state.table.files:
            compacted = _compacted(state.table)
            yield "compaction", state._replace(table=compacted, foreign=state.foreign - 1)

    def _send(self, state: State) -> Steps[State]:
        if len(state.flying) >= self._bounds.flying:
            return
        for last in range(state.table.through + 1, state.committed):
            for again in (False, True):
                request = self._request(state, state.table.through + 1, last, again=again)
                if request not in state.flying:
                    label = f"send to {last}{' again' if again else ''}"
                    flying = state.flying | {request}
                    yield label, state._replace(flying=flying, looked=None)

    def _request(self, state: State, first: int, last: int, *, again: bool) -> Request:
        table, wrong = state.table, self._mutation
        changes = [each for slot in self._bounds.slots[first : last + 1] for each in slot]
        final = dict(changes)
        if wrong is Mutation.KEYED_FIRST_CHANGE:
            final = dict(reversed(changes))
        added = [(key, value) for key, value in final.items() if value is not None]
        seen = state.looked or table
        dead = frozenset(at for at, row in _living(seen) if row[0] in final)
        removed: frozenset[int] = frozenset()
        if again:
            unresolved = wrong is Mutation.KEYED_REWRITE_UNRESOLVED
            gone: frozenset[Position] = frozenset() if unresolved else dead
            added = [row for at, row in _living(table) if at not in gone] + added
            removed, dead = frozenset(name for name, _ in table.files), frozenset()
        head = None if wrong is Mutation.KEYED_HEAD_UNASSERTED else table.head
        return Request(head, last, tuple(added), dead, removed)

    def broken(self, state: State) -> str | None:
        found = sorted(row for _, row in _living(state.table))
        keys = [key for key, _ in found]
        if len(keys) != len(set(keys)):
            return "DOUBLE: a key is in the table twice"
        if found != self._wanted(state.table.through):
            return f"WRONG: the table is not the log up to slot {state.table.through}"
        return None

    def _wanted(self, through: int) -> list[Row]:
        final: dict[int, int | None] = {}
        for slot in self._bounds.slots[: through + 1]:
            final.update(dict(slot))
        return sorted((key, value) for key, value in final.items() if value is not None)

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) else "STUCK"

    def is_goal(self, state: State) -> bool:
        return state.table.through == len(self._bounds.slots) - 1

    def must_reach_goal(self, state: State) -> bool:
        del state
        return True


def _living(table: Table) -> list[tuple[Position, Row]]:
    return [
        ((name, place), row)
        for name, rows in table.files
        for place, row in enumerate(rows)
        if (name, place) not in table.dead
    ]


def _land(table: Table, request: Request) -> Table | None:
    if request.head is not None and request.head != table.head:
        return None
    head = table.head + 1
    files = tuple(each for each in table.files if each[0] not in request.removed)
    if request.added:
        files = (*files, (head, request.added))
    names = {name for name, _ in files}
    dead = frozenset(at for at in table.dead | request.dead if at[0] in names)
    return Table(head, files, dead, request.through)


def _compacted(table: Table) -> Table:
    """The same rows in one file, the last ones first: at other positions."""
    rows = tuple(row for _, row in reversed(_living(table)))
    files = ((table.head + 1, rows),) if rows else ()
    return Table(table.head + 1, files, frozenset(), table.through)
