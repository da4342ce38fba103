"""Lanes: dirty rows that tools ask to be replayed, each consumed once, whoever dies on the way.

One dirty file. Tools put requests for ranges of its rows, the same one again too. Drivers start,
crash and take over; they answer requests with LANE records and then run the lanes, a few rows an
epoch. Each record is put as in the other models, shortened to one step that fails when the slot is
taken. Files of late rows are taken whole, and go once their rows are in the table.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from model.checker import Steps
from model.mutation import Mutation

T = TypeVar("T")


class Lane(NamedTuple):
    """In the log: rows `[start, stop)`, consumed up to `end`; -1 before it is opened."""

    start: int
    stop: int
    end: int


class Driver(NamedTuple):
    """A driver.

    Attributes:
        phase: `off`, `own`, `opened` (a LANE has landed, its request is still there) or `read`.
        lane: That it works on.
        since: First row that its epoch has read; `upto` the first that it has not.
        memory: How far it has come in each lane; what it believes under one mutant.
    """

    phase: str
    term: int
    lane: int
    since: int
    upto: int
    memory: tuple[int, ...]


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        asked: Which requests lie there.
        written: How often each row of the dirty file is in the table.
        owners: How many lanes have taken each row.
        gone: Rows whose late file was removed.
    """

    term: int
    asked: tuple[bool, ...]
    lanes: tuple[Lane, ...]
    written: tuple[int, ...]
    owners: tuple[int, ...]
    drivers: tuple[Driver, ...]
    asks: int
    starts: int
    crashes: int
    gone: tuple[bool, ...]


_NO_LANE = Lane(-1, -1, -1)


@dataclass(frozen=True, slots=True)
class LaneBounds:
    """How far the model goes.

    Attributes:
        ranges: Rows `[start, stop)` that tools ask for; a request a range.
        asks: How often tools ask in all.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
        whole: Each range is a file of late rows, which an epoch copies whole or not at all.
    """

    ranges: tuple[tuple[int, int], ...] = ((0, 2), (1, 3))
    asks: int = 3
    starts: int = 2
    crashes: int = 1
    whole: bool = False


class LaneModel:
    """See the module."""

    def __init__(self, bounds: LaneBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation
        self._off = Driver("off", 0, -1, 0, 0, tuple(start for start, _ in bounds.ranges))

    def initial(self) -> State:
        bounds = self._bounds
        rows = max(stop for _, stop in bounds.ranges)
        return State(
            term=0,
            asked=tuple(False for _ in bounds.ranges),
            lanes=tuple(_NO_LANE for _ in bounds.ranges),
            written=(0,) * rows,
            owners=(0,) * rows,
            drivers=(self._off, self._off),
            asks=bounds.asks,
            starts=bounds.starts,
            crashes=bounds.crashes,
            gone=(False,) * rows,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike."""
        first, second = state.drivers
        return state if first <= second else state._replace(drivers=(second, first))

    def steps(self, state: State) -> Steps[State]:
        for number, there in enumerate(state.asked):
            if state.asks and not there:
                after = state._replace(asked=_set(state.asked, number, new=True))
                yield f"ask {number}", after._replace(asks=state.asks - 1)
        if self._bounds.whole:
            yield from self._remove(state)
        for number, driver in enumerate(state.drivers):
            if driver.phase == "off":
                if state.starts:
                    began = self._off._replace(phase="own", term=state.term + 1)
                    after = state._replace(term=state.term + 1, starts=state.starts - 1)
                    yield "fence", _with(after, number, began)
                continue
            if state.crashes:
                after = _with(state, number, self._off)
                yield f"t{driver.term} crash", after._replace(crashes=state.crashes - 1)
            match driver.phase:
                case "own":
                    yield from self._answer(state, number, driver)
                    yield from self._read(state, number, driver)
                case "opened":
                    asked = _set(state.asked, driver.lane, new=False)
                    after = _with(state, number, driver._replace(phase="own", lane=-1))
                    yield f"t{driver.term} take away", after._replace(asked=asked)
                case _:
                    yield self._commit(state, number, driver)

    def _answer(self, state: State, number: int, driver: Driver) -> Steps[State]:
        """Take a request in: open its lane, or take away what is done or cannot be."""
        for request, there in enumerate(state.asked):
            if not there:
                continue
            if driver.term != state.term:
                yield f"t{driver.term} fenced-off", _with(state, number, self._off)
                continue
            known = state.lanes[request] != _NO_LANE
            again = known and self._mutation is Mutation.REQUEST_TWICE
            if (known and not again) or (self._overlaps(state, request) and not again):
                asked = _set(state.asked, request, new=False)
                yield f"t{driver.term} refuse {request}", state._replace(asked=asked)
                continue
            start, stop = self._bounds.ranges[request]
            lanes = _set(state.lanes, request, Lane(start, stop, start))
            after = _with(state, number, driver._replace(phase="opened", lane=request))
            taken = _add(state.owners, start, stop)
            yield f"t{driver.term} LANE {request}", after._replace(lanes=lanes, owners=taken)

    def _remove(self, state: State) -> Steps[State]:
        """Whoever tidies up removes a late file; never the log's business."""
        for number, lane in enumerate(state.lanes):
            early = self._mutation is Mutation.LATE_FILE_GOES_EARLY
            over = lane != _NO_LANE and (early or lane.end == lane.stop)
            if over and not any(state.gone[lane.start : lane.stop]):
                inside = range(lane.start, lane.stop)
                gone = tuple(was or row in inside for row, was in enumerate(state.gone))
                yield f"remove file {number}", state._replace(gone=gone)

    def _overlaps(self, state: State, request: int) -> bool:
        if self._mutation is Mutation.LANES_OVERLAP:
            return False
        start, stop = self._bounds.ranges[request]
        return any(state.owners[start:stop])

    def _read(self, state: State, number: int, driver: Driver) -> Steps[State]:
        for number_of, lane in enumerate(state.lanes):
            if lane == _NO_LANE:
                continue
            since = self._end(driver, number_of, lane)
            if any(state.gone[since : lane.stop]):
                continue
            first = lane.stop if self._bounds.whole else since + 1
            for upto in range(max(first, since + 1), lane.stop + 1):
                read = driver._replace(phase="read", lane=number_of, since=since, upto=upto)
                yield f"t{driver.term} read {number_of} to {upto}", _with(state, number, read)

    def _end(self, driver: Driver, number: int, lane: Lane) -> int:
        in_memory = self._mutation is Mutation.LANE_END_IN_MEMORY
        return driver.memory[number] if in_memory else lane.end

    def _commit(self, state: State, number: int, driver: Driver) -> tuple[str, State]:
        if driver.term != state.term and self._mutation is not Mutation.LANE_UNCHECKED:
            return f"t{driver.term} fenced-off", _with(state, number, self._off)
        lane = state.lanes[driver.lane]
        memory = _set(driver.memory, driver.lane, driver.upto)
        own = driver._replace(phase="own", lane=-1, since=0, upto=0, memory=memory)
        end = lane._replace(end=max(lane.end, driver.upto))
        after = _with(state, number, own)._replace(
            lanes=_set(state.lanes, driver.lane, end),
            written=_add(state.written, driver.since, driver.upto),
        )
        return f"t{driver.term} LANE_DATA {driver.lane} [{driver.since},{driver.upto})", after

    # What must hold

    def broken(self, state: State) -> str | None:
        if any(count > 1 for count in state.written):
            return f"DOUBLE: rows of the dirty file are in the table {state.written} times"
        if any(count > 1 for count in state.owners):
            return f"rule 14: rows belong to {state.owners} lanes"
        lost = [row for row, gone in enumerate(state.gone) if gone and not state.written[row]]
        if lost:
            return f"LOST: the late file of rows {lost} is gone, and they are in no partition"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or not state.starts else "STUCK"

    def is_goal(self, state: State) -> bool:
        done = all(lane.end == lane.stop for lane in state.lanes)
        return done and not any(state.asked) and state.written == state.owners

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _with(state: State, number: int, driver: Driver) -> State:
    first, second = state.drivers
    return state._replace(drivers=(first, driver) if number else (driver, second))


def _set(values: tuple[T, ...], place: int, new: T) -> tuple[T, ...]:
    return (*values[:place], new, *values[place + 1 :])


def _add(counts: tuple[int, ...], start: int, stop: int) -> tuple[int, ...]:
    return tuple(count + (start <= row < stop) for row, count in enumerate(counts))
