"""Where reading starts: SOURCES before any read, `latest` resolved once, topics created anew.

One source partition exists from the start; another may appear later. A producer appends, the
topic may be deleted and created again. Two drivers start, crash and take over at any time; each
record is put as in the other models, shortened to one step that fails when the slot is taken.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from model.checker import Steps
from model.mutation import Mutation

_ABSENT = -1

T = TypeVar("T")


class Topic(NamedTuple):
    """One source partition: which creation of the topic, and its rows; -1 before it exists."""

    identity: int
    rows: int


class Pin(NamedTuple):
    """What the ledger says of a source partition; start -1 while it says nothing."""

    identity: int
    start: int
    end: int


class Read(NamedTuple):
    """What a task has read: rows `[start, end)` of the topic's creation `identity`."""

    part: int
    identity: int
    start: int
    end: int


class Writer(NamedTuple):
    """A driver; `starts` are the offsets that it resolved itself and wants to pin."""

    phase: str
    term: int
    starts: tuple[Pin, ...]
    read: Read


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        term: Of the latest FENCE.
        subscribed: The subscription stands in a SOURCES record.
        pins: The fold, by source partition.
        first: Where each partition was first pinned or read; every row from there on is owed.
        mixed: A committed range holds rows of another creation of the topic.
        halted: A driver has found another topic of the same name and stopped the route.
    """

    topics: tuple[Topic, ...]
    term: int
    subscribed: bool
    pins: tuple[Pin, ...]
    first: tuple[int, ...]
    writers: tuple[Writer, ...]
    starts: int
    crashes: int
    recreations: int
    mixed: bool
    halted: bool


_NO_PIN = Pin(0, _ABSENT, _ABSENT)
_NO_READ = Read(0, 0, 0, 0)
_OFF = Writer("off", 0, (), _NO_READ)


@dataclass(frozen=True, slots=True)
class PinBounds:
    """How far the model goes.

    Attributes:
        rows: Most rows of each source partition; all but the first appear later.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
        recreations: Times that the first topic is created anew.
    """

    rows: tuple[int, ...] = (2, 1)
    starts: int = 2
    crashes: int = 1
    recreations: int = 0


class PinModel:
    """See the module. The subscription says `start: latest`."""

    def __init__(self, bounds: PinBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation
        self._parts = range(len(bounds.rows))

    def initial(self) -> State:
        bounds = self._bounds
        late = [Topic(1, _ABSENT) for _ in self._parts[1:]]
        return State(
            topics=(Topic(1, 0), *late),
            term=0,
            subscribed=False,
            pins=tuple(_NO_PIN for _ in self._parts),
            first=tuple(_ABSENT for _ in self._parts),
            writers=(_OFF, _OFF),
            starts=bounds.starts,
            crashes=bounds.crashes,
            recreations=bounds.recreations,
            mixed=False,
            halted=False,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike."""
        first, second = state.writers
        return state if first <= second else state._replace(writers=(second, first))

    def steps(self, state: State) -> Steps[State]:
        yield from self._world(state)
        if state.halted:
            return
        for number, writer in enumerate(state.writers):
            if writer.phase == "off":
                if state.starts:
                    began = Writer("own", state.term + 1, (), _NO_READ)
                    yield (
                        "fence",
                        _with(state, number, began)._replace(
                            term=state.term + 1, starts=state.starts - 1
                        ),
                    )
                continue
            if state.crashes:
                after = _with(state, number, _OFF)
                yield f"t{writer.term} crash", after._replace(crashes=state.crashes - 1)
            match writer.phase:
                case "own":
                    yield from self._look(state, number, writer)
                case "pin":
                    yield from self._pin(state, number, writer)
                case "pinned":
                    yield from self._read(state, number, writer)
                case "looked":
                    yield from self._commit(state, number, writer)
                case _:
                    yield from self._look_again(state, number, writer)

    def _world(self, state: State) -> Steps[State]:
        for part, topic in enumerate(state.topics):
            if topic.rows < self._bounds.rows[part]:
                grown = topic._replace(rows=topic.rows + 1)
                label = f"append p{part}" if topic.rows != _ABSENT else f"appears p{part}"
                yield label, state._replace(topics=_set(state.topics, part, grown))
        if state.recreations:
            again = Topic(state.topics[0].identity + 1, 0)
            yield (
                "created anew",
                state._replace(
                    topics=_set(state.topics, 0, again), recreations=state.recreations - 1
                ),
            )

    # What drivers do

    def _look(self, state: State, number: int, writer: Writer) -> Steps[State]:
        """Discover, and resolve what the ledger does not know."""
        if self._is_other(state):
            yield f"t{writer.term} halt", state._replace(halted=True)
            return
        starts = tuple(self._resolve(state, part) for part in self._parts)
        phase = "pinned" if starts == state.pins else "pin"
        if self._mutation is Mutation.READ_BEFORE_PIN:
            phase = "pinned"
        yield (
            f"t{writer.term} look",
            _with(state, number, writer._replace(phase=phase, starts=starts)),
        )

    def _is_other(self, state: State) -> bool:
        pairs = zip(state.topics, state.pins, strict=True)
        return any(pin.start != _ABSENT and pin.identity != topic.identity for topic, pin in pairs)

    def _resolve(self, state: State, part: int) -> Pin:
        topic, pin = state.topics[part], state.pins[part]
        again = self._mutation is Mutation.LATEST_RESOLVED_AGAIN and pin.start == pin.end
        if topic.rows == _ABSENT or (pin.start != _ABSENT and not again):
            return pin
        found_later = state.subscribed and self._mutation is not Mutation.FOUND_AT_LATEST
        start = 0 if found_later and not again else topic.rows
        return Pin(topic.identity, start, start)

    def _pin(self, state: State, number: int, writer: Writer) -> Steps[State]:
        if writer.term != state.term:
            yield f"t{writer.term} fenced-off", _with(state, number, _OFF)
            return
        first = tuple(self._promise(state, part, writer.starts[part]) for part in self._parts)
        after = _with(state, number, writer._replace(phase="pinned"))
        yield (
            f"t{writer.term} SOURCES",
            after._replace(pins=writer.starts, first=first, subscribed=True),
        )

    def _promise(self, state: State, part: int, pin: Pin) -> int:
        if state.first[part] != _ABSENT or pin.start == _ABSENT:
            return state.first[part]
        return 0 if state.subscribed else pin.start

    def _read(self, state: State, number: int, writer: Writer) -> Steps[State]:
        for part, known in enumerate(writer.starts):
            topic = state.topics[part]
            if known.start != _ABSENT and topic.rows > known.end:
                for end in range(known.end + 1, topic.rows + 1):
                    read = Read(part, topic.identity, known.end, end)
                    after = _with(state, number, writer._replace(phase="read", read=read))
                    # Rows that a task has seen are owed, pinned or not.
                    first = _set(state.first, part, self._promise(state, part, known))
                    yield (
                        f"t{writer.term} read p{part} [{known.end},{end})",
                        after._replace(first=first),
                    )
        yield f"t{writer.term} next", _with(state, number, writer._replace(phase="own", starts=()))

    def _look_again(self, state: State, number: int, writer: Writer) -> Steps[State]:
        """A topic created anew between plan and fetch reads like the old one."""
        if self._mutation is not Mutation.NO_LOOK_AFTER_READ and self._is_other(state):
            yield f"t{writer.term} halt", state._replace(halted=True)
            return
        yield f"t{writer.term} prepare", _with(state, number, writer._replace(phase="looked"))

    def _commit(self, state: State, number: int, writer: Writer) -> Steps[State]:
        if writer.term != state.term:
            yield f"t{writer.term} fenced-off", _with(state, number, _OFF)
            return
        read = writer.read
        pin = state.pins[read.part]
        if self._mutation is Mutation.READ_BEFORE_PIN and pin.start == _ABSENT:
            pin = writer.starts[read.part]
        moved = pin._replace(end=read.end)
        after = _with(state, number, Writer("own", writer.term, (), _NO_READ))
        yield (
            f"t{writer.term} DATA",
            after._replace(
                pins=_set(state.pins, read.part, moved),
                subscribed=True,
                mixed=state.mixed or pin.identity != read.identity or pin.end != read.start,
            ),
        )

    # What must hold

    def broken(self, state: State) -> str | None:
        if state.mixed:
            return "P7: a committed range is not the rows that the ledger says"
        for part, pin in enumerate(state.pins):
            if pin.start > max(state.first[part], 0):
                return f"LOSS: p{part} was promised from {state.first[part]}, starts at {pin.start}"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or state.halted or not state.starts else "STUCK"

    def is_goal(self, state: State) -> bool:
        full = all(
            topic.rows == rows for topic, rows in zip(state.topics, self._bounds.rows, strict=True)
        )
        return state.halted or (
            full
            and all(
                pin.end == topic.rows for topic, pin in zip(state.topics, state.pins, strict=True)
            )
        )

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _with(state: State, number: int, writer: Writer) -> State:
    first, second = state.writers
    return state._replace(writers=(first, writer) if number else (writer, second))


def _set(values: tuple[T, ...], place: int, new: T) -> tuple[T, ...]:
    return (*values[:place], new, *values[place + 1 :])
