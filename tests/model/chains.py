"""A table that follows another one: appended rows, corrections, rebuilds while epochs go on.

The table that is read gets rows and SWAPs, which replace the rows of a partition by corrected ones.
Its follower plans an epoch from its committed end, and commits it or, after a crash, plans again.
Rows that a SWAP below the epoch's end has replaced are a gap. Their partition is due then: a
rebuild reads it as of the follower's own committed end, and replaces what the follower had.
An epoch may put a row aside, as a late or a dirty one, which a replay brings in later: no rebuild
begins meanwhile, as it reads that row too. An epoch may also end within a slot: then a partition
with rows in the part that was read is not rebuilt, as no slot has just those.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

Row = tuple[int, int]
"""Number of a row, and how often it was corrected."""

Record = tuple[str, int, int]
"""`data` or `swap`, the partition, and the number of a row; -1 for a SWAP. `more` is another row of
the slot before."""


class Epoch(NamedTuple):
    """An epoch in flight: slots `[start, end)` of the table that is read, and their rows."""

    start: int
    end: int
    rows: tuple[tuple[int, Row], ...]


class Rebuild(NamedTuple):
    """A rebuild under way.

    Attributes:
        as_of: Slot of the table that is read, up to which it was read.
        read: Rows as of there.
        had: What the partition had when it began; what came since is carried over.
    """

    partition: int
    as_of: int
    read: tuple[Row, ...]
    had: tuple[Row, ...]


class State(NamedTuple):
    """Everything that survives, and what the follower's driver holds.

    Attributes:
        log: The table that is read, slot by slot.
        end: First of its slots that no committed epoch has read.
        rows: Rows of the follower, by partition.
        due: Slot of the newest correction of a partition that was met; -1 when none is due.
        aside: Rows that wait for a replay, by partition.
        asides: How many more rows may be put aside.
    """

    log: tuple[Record, ...]
    end: int
    rows: tuple[tuple[Row, ...], ...]
    due: tuple[int, ...]
    epoch: Epoch | None
    rebuild: Rebuild | None
    crashes: int
    aside: tuple[tuple[Row, ...], ...]
    asides: int


@dataclass(frozen=True, slots=True)
class ChainBounds:
    """How far the model goes.

    Attributes:
        data: Rows of the table that is read.
        swaps: Its corrections.
        partitions: Partitions of both tables.
        asides: Rows that are put aside.
    """

    data: int = 3
    swaps: int = 2
    partitions: int = 2
    crashes: int = 1
    asides: int = 1


class ChainModel:
    """See the module."""

    def __init__(self, bounds: ChainBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        """Nothing was written yet."""
        many, crashes = self._bounds.partitions, self._bounds.crashes
        none = ((),) * many
        return State((), 0, none, (-1,) * many, None, None, crashes, none, self._bounds.asides)

    def canonical(self, state: State) -> State:
        """Nothing differs in names only."""
        return state

    def steps(self, state: State) -> Steps[State]:
        """Both tables."""
        yield from self._written(state)
        yield from self._epochs(state)
        yield from self._rebuilds(state)
        for part, rows in enumerate(state.aside):
            if rows:
                back = _with(state, part, *rows)
                yield f"replay {part}", back._replace(aside=_changed(state.aside, part, ()))
        if state.crashes and (state.epoch or state.rebuild):
            yield "crash", state._replace(epoch=None, rebuild=None, crashes=state.crashes - 1)

    def _written(self, state: State) -> Steps[State]:
        rows = sum(kind != "swap" for kind, _, _ in state.log)
        for part in range(self._bounds.partitions):
            if rows < self._bounds.data:
                yield f"data {part}", _put(state, ("data", part, rows))
            for other in range(self._bounds.partitions) if rows + 1 < self._bounds.data else ():
                first = _put(state, ("data", part, rows))
                yield f"data {part} {other}", _put(first, ("more", other, rows + 1))
            filled = any(kind != "swap" and of == part for kind, of, _ in state.log)
            if filled and len(state.log) - rows < self._bounds.swaps:
                yield f"swap {part}", _put(state, ("swap", part, -1))

    def _epochs(self, state: State) -> Steps[State]:
        epoch = state.epoch
        if epoch is None:
            log = state.log
            for end in range(state.end + 1, len(log) + 1):
                if end == len(log) or log[end][0] == "more":
                    yield f"plan to {end}", state._replace(epoch=self._planned(state, end))
            return
        due = list(state.due)
        if self._mutation is not Mutation.CHAIN_GAP_FORGOTTEN:
            for slot in range(epoch.start, epoch.end):
                kind, part, _ = state.log[slot]
                if kind == "swap":
                    due[part] = slot
        after = state._replace(end=epoch.end, due=tuple(due), epoch=None)
        yield "commit", _committed(after, epoch)
        for part, row in epoch.rows if state.asides else ():
            aside = _changed(state.aside, part, (*state.aside[part], row))
            kept = after._replace(aside=aside, asides=state.asides - 1)
            yield f"commit, aside {row[0]}", _committed(kept, epoch, row)

    def _planned(self, state: State, end: int) -> Epoch:
        found = list[tuple[int, Row]]()
        if self._mutation is Mutation.CHAIN_BY_LIVE_PLACE:
            for part in range(self._bounds.partitions):
                before = state.log[: state.end]
                read = sum(kind != "swap" and of == part for kind, of, _ in before)
                found += [(part, row) for row in _in_order(state.log, part)[read:]]
            return Epoch(state.end, end, tuple(found))
        for slot in range(state.end, end):
            kind, part, row = state.log[slot]
            if kind != "swap" and ("swap", part, -1) not in state.log[slot:]:
                found.append((part, (row, 0)))
        return Epoch(state.end, end, tuple(found))

    def _rebuilds(self, state: State) -> Steps[State]:
        work = state.rebuild
        if work is None:
            whole = _whole(state.log, state.end)
            begun = {of for _, of, _ in state.log[whole : state.end]}
            if self._mutation is Mutation.CHAIN_PART_OF_SLOT:
                begun = set()
            for part, slot in enumerate(state.due):
                unsaid = self._mutation is Mutation.CHAIN_ASIDE_REBUILT
                if slot >= 0 and part not in begun and (unsaid or not state.aside[part]):
                    tail = self._mutation is Mutation.CHAIN_REBUILD_OF_TAIL
                    as_of = len(state.log) if tail else whole
                    read = _content(state.log, part, as_of)
                    made = Rebuild(part, as_of, read, state.rows[part])
                    yield f"rebuild {part}", state._replace(rebuild=made)
            return
        part = work.partition
        since = tuple(row for row in state.rows[part] if row not in work.had)
        if self._mutation is Mutation.CHAIN_NOT_CARRIED:
            since = ()
        rows, due = list(state.rows), list(state.due)
        rows[part] = tuple(sorted((*work.read, *since)))
        if due[part] < work.as_of or self._mutation is Mutation.CHAIN_ALWAYS_DONE:
            due[part] = -1
        yield "swap own", state._replace(rows=tuple(rows), due=tuple(due), rebuild=None)

    def broken(self, state: State) -> str | None:
        """No row is there twice; when all is done, the follower has what the table has."""
        for part, rows in enumerate(state.rows):
            if len({row for row, _ in rows}) < len(rows):
                return f"DOUBLED in partition {part}: {rows}"
            wanted = _content(state.log, part, len(state.log))
            if self.is_goal(state) and rows != wanted:
                return f"WRONG: partition {part} has {rows}, the table that is read has {wanted}"
        return None

    def at_rest(self, state: State) -> str | None:
        """Work that is due never rests."""
        return None if self.is_goal(state) else "STUCK"

    def is_goal(self, state: State) -> bool:
        """All is read, no partition is due, and no row is aside."""
        idle = state.epoch is None and state.rebuild is None
        return idle and state.end == len(state.log) and max(state.due) < 0 and not any(state.aside)

    def must_reach_goal(self, state: State) -> bool:
        """Always."""
        del state
        return True


def _whole(log: tuple[Record, ...], end: int) -> int:
    """Where the slot begins that goes on at `end`; `end` itself between two slots."""
    while end < len(log) and log[end][0] == "more":
        end -= 1
    return end


def _changed(
    parts: tuple[tuple[Row, ...], ...], part: int, rows: tuple[Row, ...]
) -> tuple[tuple[Row, ...], ...]:
    return (*parts[:part], rows, *parts[part + 1 :])


def _with(state: State, part: int, *rows: Row) -> State:
    """The follower's partition has these rows too."""
    now = tuple(sorted((*state.rows[part], *rows)))
    return state._replace(rows=_changed(state.rows, part, now))


def _committed(state: State, epoch: Epoch, aside: Row | None = None) -> State:
    """The rows of an epoch are in their partitions, but for one that was put aside."""
    for part, row in epoch.rows:
        if row != aside:
            state = _with(state, part, row)
    return state


def _put(state: State, record: Record) -> State:
    return state._replace(log=(*state.log, record))


def _content(log: tuple[Record, ...], part: int, through: int) -> tuple[Row, ...]:
    """Rows of a partition as of a slot."""
    return tuple(sorted(_in_order(log[:through], part)))


def _in_order(log: tuple[Record, ...], part: int) -> list[Row]:
    """The same in the order of live files: a SWAP writes its rows in an order of its own."""
    rows: list[Row] = []
    for kind, of, row in log:
        if of == part:
            rows = [*rows, (row, 0)] if kind != "swap" else [(n, k + 1) for n, k in rows[::-1]]
    return rows
