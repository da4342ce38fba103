"""Two epochs in flight on one source partition, with READY and records of others between them.

Epoch k+1 is planned from the end that k's task returned, while k is put. The driver puts READY
itself; a guest stands for any other writer with a precondition: its records are neutral, or skip
a row as an operator's RESET does. One row's partition of the table closes on the way.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

_EPOCHS_IN_FLIGHT = 2


class Epoch(NamedTuple):
    """A staged epoch of one file; `is_open` when it was planned before the partition closed."""

    term: int
    epoch: int
    start: int
    end: int
    is_open: bool


class Record(NamedTuple):
    """FENCE, DATA, READY, or a guest's NEUTRAL and RESET; `owner` tells two alike apart."""

    kind: str
    term: int
    epoch: Epoch
    owner: int


class Writer(NamedTuple):
    """A driver; `queue` holds the epochs that are staged and not committed, oldest first."""

    phase: str
    slot: int
    term: int
    epoch: int
    queue: tuple[Epoch, ...]
    record: Record


class State(NamedTuple):
    """Everything that survives or is under way."""

    log: tuple[Record, ...]
    writers: tuple[Writer, ...]
    puts: tuple[tuple[int, Record], ...]
    staged: tuple[Epoch, ...]
    final: tuple[Epoch, ...]
    starts: int
    crashes: int
    throws: int
    guests: int
    self_fenced: bool


_NO_EPOCH = Epoch(0, 0, 0, 0, is_open=False)
_NOTHING = Record("", 0, _NO_EPOCH, 0)
_OFF = Writer("off", 0, 0, 0, (), _NOTHING)


@dataclass(frozen=True, slots=True)
class PipeBounds:
    """How far the model goes.

    Attributes:
        rows: Rows of the source partition.
        closes_at: Committed end at which the table's partition closes; 0 leaves READY out.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
        throws: Epochs thrown away by a living driver.
        guests: Records of others.
    """

    rows: int = 2
    closes_at: int = 1
    starts: int = 2
    crashes: int = 1
    throws: int = 0
    guests: int = 0


class PipeModel:
    """See the module."""

    def __init__(self, bounds: PipeBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        bounds = self._bounds
        return State(
            log=(),
            writers=(_OFF, _OFF),
            puts=(),
            staged=(),
            final=(),
            starts=bounds.starts,
            crashes=bounds.crashes,
            throws=bounds.throws,
            guests=bounds.guests,
            self_fenced=False,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike; a put to a filled slot is nothing."""
        tail = len(state.log)
        first, second = state.writers
        return state._replace(
            writers=(first, second) if first <= second else (second, first),
            puts=tuple(sorted(put for put in state.puts if put[0] >= tail)),
        )

    # What drivers do

    def steps(self, state: State) -> Steps[State]:
        for number, writer in enumerate(state.writers):
            if writer.phase == "off":
                yield from self._start(state, number)
                continue
            if state.crashes:
                after = _with(state, number, _OFF)
                yield f"t{writer.term} crash", after._replace(crashes=state.crashes - 1)
            if writer.phase == "fence":
                yield from self._fence(state, number, writer)
                continue
            yield from self._stage(state, number, writer)
            if writer.phase == "own":
                yield from self._own(state, number, writer)
            else:
                yield from self._await(state, number, writer)
        yield from self._guests(state)
        yield from self._requests(state)
        yield from self._garbage(state)

    def _start(self, state: State, number: int) -> Steps[State]:
        if not state.starts or (number and state.writers[0].phase == "off"):
            return
        fence = Record("FENCE", _term(state.log) + 1, _NO_EPOCH, state.starts)
        writer = Writer("fence", len(state.log), 0, 0, (), fence)
        yield "start", _put(state, number, writer)._replace(starts=state.starts - 1)

    def _fence(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot, record = writer.slot, writer.record
        if slot < len(state.log):
            if state.log[slot] == record:
                owner = Writer("own", slot + 1, record.term, 1, (), _NOTHING)
                yield f"t{record.term} fenced", _with(state, number, owner)
            else:
                again = record._replace(term=_term(state.log) + 1)
                writer = writer._replace(slot=len(state.log), record=again)
                yield "fence-behind", _put(state, number, writer)
        elif (slot, record) not in state.puts:
            yield "fence-again", _put(state, number, writer)

    def _stage(self, state: State, number: int, writer: Writer) -> Steps[State]:
        """Plan and run the next epoch, from the ends that the one before has returned."""
        if len(writer.queue) >= _EPOCHS_IN_FLIGHT:
            return
        known = _end(state.log[: writer.slot])
        start = writer.queue[-1].end if writer.queue else known
        name = writer.epoch
        if self._mutation is Mutation.SLOT_NAMED_STAGE:
            name = writer.slot + len(writer.queue)
        for end in range(start + 1, self._bounds.rows + 1):
            epoch = Epoch(writer.term, name, start, end, self._is_open(known))
            planned = writer._replace(epoch=writer.epoch + 1, queue=(*writer.queue, epoch))
            if epoch not in state.staged:
                after = _with(state, number, planned)
                yield (
                    f"t{writer.term} stage [{start},{end})",
                    after._replace(staged=tuple(sorted((*state.staged, epoch)))),
                )

    def _is_open(self, end: int) -> bool:
        return end < self._bounds.closes_at

    def _own(self, state: State, number: int, writer: Writer) -> Steps[State]:
        term, log = writer.term, state.log[: writer.slot]
        if writer.queue:
            head = writer.queue[0]
            if head.start == _end(log) or self._mutation in (
                Mutation.NEXT_EPOCH_KEPT,
                Mutation.NO_REBASE_CHECK,
            ):
                record = Record("DATA", term, head, 0)
                after = _put(state, number, writer._replace(phase="await", record=record))
                yield f"t{term} commit", self._put_second(after, writer)
            else:
                yield f"t{term} precondition", _with(state, number, writer._replace(queue=()))
            if state.throws:
                kept = writer.queue[1:] if self._mutation is Mutation.NEXT_EPOCH_KEPT else ()
                after = _with(state, number, writer._replace(queue=kept))
                yield f"t{term} throw-away", after._replace(throws=state.throws - 1)
        if self._may_be_ready(state, writer, log):
            record = Record("READY", term, _NO_EPOCH, 0)
            yield (
                f"t{term} ready",
                _put(state, number, writer._replace(phase="await", record=record)),
            )
        for record in log:
            if record.epoch in state.staged:
                yield f"t{term} publish", _published(state, record.epoch)
        if len(state.log) > writer.slot and not writer.queue:
            yield from self._read(state, number, writer, "read")

    def _put_second(self, state: State, writer: Writer) -> State:
        if self._mutation is not Mutation.SECOND_PUT_IN_FLIGHT or len(writer.queue) == 1:
            return state
        second = (writer.slot + 1, Record("DATA", writer.term, writer.queue[1], 0))
        return state if second in state.puts else state._replace(puts=(*state.puts, second))

    def _may_be_ready(self, state: State, writer: Writer, log: tuple[Record, ...]) -> bool:
        if not self._bounds.closes_at or self._is_open(_end(log)):
            return False
        if any(record.kind == "READY" for record in log):
            return False
        in_flight = any(epoch.is_open for epoch in writer.queue)
        unpublished = any(record.epoch in state.staged for record in log)
        return (not in_flight or self._mutation is Mutation.READY_AT_ONCE) and (
            not unpublished or self._mutation is Mutation.READY_BEFORE_PUBLISH
        )

    def _await(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot, record = writer.slot, writer.record
        if slot >= len(state.log):
            if (slot, record) not in state.puts:
                yield f"t{writer.term} put-again", _put(state, number, writer)
        elif state.log[slot] == record:
            queue = writer.queue[1:] if record.kind == "DATA" else writer.queue
            owner = writer._replace(phase="own", slot=slot + 1, queue=queue, record=_NOTHING)
            yield f"t{writer.term} {record.kind} landed", _with(state, number, owner)
        else:
            yield from self._read(state, number, writer, "lost")

    def _read(self, state: State, number: int, writer: Writer, label: str) -> Steps[State]:
        """Read every record up to the tail: a FENCE ends this driver, others do not."""
        fenced = any(record.kind == "FENCE" for record in state.log[writer.slot :])
        if fenced or self._mutation is Mutation.ANY_RECORD_FENCES:
            after = _with(state, number, _OFF)
            yield f"t{writer.term} fenced-off", after._replace(self_fenced=not fenced)
            return
        owner = writer._replace(phase="own", slot=len(state.log), record=_NOTHING)
        yield f"t{writer.term} {label}", _with(state, number, owner)

    # What happens without them

    def _guests(self, state: State) -> Steps[State]:
        if not state.guests or not state.log:
            return
        end = _end(state.log)
        left = state._replace(guests=state.guests - 1)
        neutral = Record("NEUTRAL", _term(state.log), _NO_EPOCH, 0)
        yield "guest", left._replace(log=(*state.log, neutral))
        if end < self._bounds.rows:
            skipped = Epoch(0, 0, end, end + 1, is_open=False)
            reset = Record("RESET", _term(state.log), skipped, 0)
            yield "guest resets", left._replace(log=(*state.log, reset))

    def _requests(self, state: State) -> Steps[State]:
        for put in state.puts:
            puts = tuple(other for other in state.puts if other != put)
            if put[0] == len(state.log):
                yield "land", state._replace(log=(*state.log, put[1]), puts=puts)
            yield "lose", state._replace(puts=puts)

    def _garbage(self, state: State) -> Steps[State]:
        named = {record.epoch for record in state.log}
        for epoch in state.staged:
            if epoch not in named and self._is_decided(epoch, state.log):
                staged = tuple(other for other in state.staged if other != epoch)
                yield "gc", state._replace(staged=staged)

    def _is_decided(self, epoch: Epoch, log: tuple[Record, ...]) -> bool:
        if self._mutation is Mutation.SLOT_NAMED_STAGE:
            return len(log) > epoch.epoch
        return any(
            (record.kind == "FENCE" and record.term > epoch.term)
            or (record.kind == "DATA" and record.epoch[:2] >= epoch[:2])
            for record in log
        )

    # What must hold

    def broken(self, state: State) -> str | None:
        if state.self_fenced:
            return "STUCK: a driver was ended by a record that is no FENCE"
        named = (record.epoch for record in state.log if record.kind == "DATA")
        if any(epoch not in state.staged and epoch not in state.final for epoch in named):
            return "I8 LOSS: a committed file is neither staged nor published"
        return self._broken_chain(state.log) or self._broken_ready(state)

    def _broken_chain(self, log: tuple[Record, ...]) -> str | None:
        end, term = 0, 0
        for record in log:
            if record.kind == "FENCE":
                term = record.term
            elif record.term != term:
                return f"I3: {record.kind} of term {record.term} under the fence of term {term}"
            if record.kind in ("DATA", "RESET"):
                if record.epoch.start != end:
                    return f"I2: {record.kind} starts at {record.epoch.start}, not {end}"
                end = record.epoch.end
        return None

    def _broken_ready(self, state: State) -> str | None:
        ready = [slot for slot, record in enumerate(state.log) if record.kind == "READY"]
        if not ready:
            return None
        if len(ready) > 1:
            return "I7: READY twice"
        before, after = state.log[: ready[0]], state.log[ready[0] :]
        if any(record.kind == "DATA" and record.epoch in state.staged for record in before):
            return "I7 EARLY: READY before a file of the partition is published"
        if any(record.kind == "DATA" and record.epoch.is_open for record in after):
            return "I7 EARLY: rows for the partition after its READY"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or not state.starts else "STUCK: nothing can happen"

    def is_goal(self, state: State) -> bool:
        named = sorted(record.epoch for record in state.log if record.kind == "DATA")
        ready = any(record.kind == "READY" for record in state.log)
        return (
            _end(state.log) == self._bounds.rows
            and named == list(state.final)
            and (ready or not self._bounds.closes_at)
        )

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _with(state: State, number: int, writer: Writer) -> State:
    first, second = state.writers
    return state._replace(writers=(first, writer) if number else (writer, second))


def _put(state: State, number: int, writer: Writer) -> State:
    put = (writer.slot, writer.record)
    puts = state.puts if put in state.puts else (*state.puts, put)
    return _with(state, number, writer)._replace(puts=puts)


def _published(state: State, epoch: Epoch) -> State:
    return state._replace(
        staged=tuple(other for other in state.staged if other != epoch),
        final=tuple(sorted((*state.final, epoch))),
    )


def _term(log: tuple[Record, ...]) -> int:
    return max((record.term for record in log), default=0)


def _end(log: tuple[Record, ...]) -> int:
    return next((r.epoch.end for r in reversed(log) if r.kind in ("DATA", "RESET")), 0)
