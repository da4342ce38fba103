"""From a table to its topic: a new route follows the table, and one record hands over.

A job fills the table from the topic, slot by slot; a slot may hold records that became no row. Its
slots are published later than they are committed. Two drivers of the new route start, crash and
take over at any time. They read published rows, or the topic once that was handed over. A put is
one step that fails when the slot is taken.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

_SHAPES = ((1, 1), (2, 2), (2, 1), (1, 0))
"""Records and rows of a slot; the first records are the rows."""


class Driver(NamedTuple):
    """A driver of the new route; `start` and `end` are what its tasks have read."""

    phase: str
    term: int
    topic: bool
    start: int
    end: int


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        slots: Of the table: records and rows.
        published: How many of them readers may see.
        term: Of the new route's latest FENCE.
        place: Rows of the table that the new route has committed.
        retired: The table is read no more.
        start: Where the topic begins; -1 before that is pinned.
        end: Committed end of the topic.
        copies: How often each record is in the new table.
    """

    slots: tuple[tuple[int, int], ...]
    published: int
    term: int
    place: int
    retired: bool
    start: int
    end: int
    copies: tuple[int, ...]
    drivers: tuple[Driver, ...]
    starts: int
    crashes: int


_OFF = Driver("off", 0, topic=False, start=0, end=0)


@dataclass(frozen=True, slots=True)
class BootstrapBounds:
    """How far the model goes.

    Attributes:
        records: Of the topic.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
    """

    records: int = 4
    starts: int = 2
    crashes: int = 1


class BootstrapModel:
    """See the module."""

    def __init__(self, bounds: BootstrapBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        bounds = self._bounds
        return State(
            slots=(),
            published=0,
            term=0,
            place=0,
            retired=False,
            start=-1,
            end=-1,
            copies=(0,) * bounds.records,
            drivers=(_OFF, _OFF),
            starts=bounds.starts,
            crashes=bounds.crashes,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike."""
        first, second = state.drivers
        return state if first <= second else state._replace(drivers=(second, first))

    def steps(self, state: State) -> Steps[State]:
        yield from self._upstream(state)
        for number, driver in enumerate(state.drivers):
            if driver.phase == "off":
                if state.starts:
                    began = Driver("own", state.term + 1, topic=False, start=0, end=0)
                    after = _with(state, number, began)
                    yield "fence", after._replace(term=state.term + 1, starts=state.starts - 1)
                continue
            if state.crashes:
                gone = _with(state, number, _OFF)
                yield f"t{driver.term} crash", gone._replace(crashes=state.crashes - 1)
            if driver.phase == "own":
                yield from self._read(state, number, driver)
                yield from self._hand_over(state, number, driver)
            else:
                yield from self._commit(state, number, driver)
                if self._mutation is Mutation.HAND_OVER_IN_FLIGHT and not driver.topic:
                    yield from self._hand_over(state, number, driver)

    def _upstream(self, state: State) -> Steps[State]:
        taken = _records(state.slots)
        for shape in _SHAPES:
            if taken + shape[0] <= self._bounds.records:
                slots = (*state.slots, shape)
                yield f"upstream commits {shape}", state._replace(slots=slots)
        if state.published < len(state.slots):
            yield "upstream publishes", state._replace(published=state.published + 1)

    def _read(self, state: State, number: int, driver: Driver) -> Steps[State]:
        if not state.retired:
            for end in range(state.place + 1, _rows(state.slots[: state.published]) + 1):
                read = driver._replace(phase="read", topic=False, start=state.place, end=end)
                yield f"t{driver.term} reads rows to {end}", _with(state, number, read)
        elif state.start >= 0 and state.end < self._bounds.records:
            end = state.end + 1
            read = driver._replace(phase="read", topic=True, start=state.end, end=end)
            yield f"t{driver.term} reads the topic to {end}", _with(state, number, read)

    def _commit(self, state: State, number: int, driver: Driver) -> Steps[State]:
        if driver.term != state.term:
            yield f"t{driver.term} fenced-off", _with(state, number, _OFF)
            return
        after = _with(state, number, driver._replace(phase="own", topic=False, start=0, end=0))
        if driver.topic:
            known = list(range(driver.start, driver.end))
            committed = after._replace(end=driver.end)
        else:
            known = _records_of(state.slots, driver.start, driver.end)
            committed = after._replace(place=driver.end)
        copies = tuple(count + (at in known) for at, count in enumerate(state.copies))
        yield f"t{driver.term} DATA", committed._replace(copies=copies)

    def _hand_over(self, state: State, number: int, driver: Driver) -> Steps[State]:
        published = state.slots[: state.published]
        if driver.term != state.term or (state.retired and state.start >= 0):
            return
        if state.retired:
            # Only the mutant that needs two records comes here.
            end = _records(published)
            yield f"t{driver.term} pins at {end}", state._replace(start=end, end=end)
            return
        through = self._left(state, published)
        if through is None:
            return
        if self._mutation is Mutation.HAND_OVER_IN_TWO:
            yield f"t{driver.term} retires", state._replace(retired=True)
            return
        end = _records(published[:through])
        if self._mutation is Mutation.HAND_OVER_AT_NEWEST:
            end = _records(state.slots)
        after = state._replace(retired=True, start=end, end=end)
        yield f"t{driver.term} hands over at {end}", after

    def _left(self, state: State, published: tuple[tuple[int, int], ...]) -> int | None:
        """How many slots the new route has read, all of them, and no row of another."""
        for through in range(len(published), 0, -1):
            rows = _rows(published[:through])
            if rows == state.place:
                return through
            if self._mutation is Mutation.HAND_OVER_MID_SLOT and rows > state.place:
                before = _rows(published[: through - 1])
                if before < state.place:
                    return through
        return None

    # What must hold

    def broken(self, state: State) -> str | None:
        if max(state.copies) > 1:
            return f"BOTH: record {state.copies.index(max(state.copies))} is there twice"
        clean = _clean(state.slots)
        for at in range(min(max(state.start, 0), len(clean))):
            if state.retired and clean[at] and not state.copies[at]:
                return f"MISSING: record {at} is in neither"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or not state.starts else "STUCK"

    def is_goal(self, state: State) -> bool:
        return state.retired and state.end == self._bounds.records

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _records(slots: tuple[tuple[int, int], ...]) -> int:
    return sum(records for records, _ in slots)


def _rows(slots: tuple[tuple[int, int], ...]) -> int:
    return sum(rows for _, rows in slots)


def _clean(slots: tuple[tuple[int, int], ...]) -> list[bool]:
    return [at < rows for records, rows in slots for at in range(records)]


def _records_of(slots: tuple[tuple[int, int], ...], start: int, end: int) -> list[int]:
    """Offsets of the records that became the rows `[start, end)`."""
    return [at for at, clean in enumerate(_clean(slots)) if clean][start:end]


def _with(state: State, number: int, driver: Driver) -> State:
    first, second = state.drivers
    return state._replace(drivers=(first, driver) if number else (driver, second))
