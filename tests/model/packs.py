"""SNAPSHOT and packing: old records leave their slots, and an old driver must not win one.

Records below a SNAPSHOT are copied into a pack, a folder at a time; then their slots are emptied,
one after the other. The store lets anybody fill an emptied slot, as object stores do. A driver's
put may arrive that late; so it looks for a pack over its slot after the put and before it acts.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation


class Row(NamedTuple):
    """The staged file of one row, written under a term."""

    row: int
    term: int


class Record(NamedTuple):
    """FENCE, DATA of one row, or SNAPSHOT with the end and what is unpublished before it."""

    kind: str
    term: int
    owner: int
    end: int
    files: tuple[Row, ...]


class Writer(NamedTuple):
    """A driver; `unpublished` are the files that it knows to be committed and not published."""

    phase: str
    slot: int
    term: int
    end: int
    unpublished: tuple[Row, ...]
    record: Record


class State(NamedTuple):
    """Everything that survives or is under way.

    Attributes:
        decided: What landed first in each slot; the promise that nothing may break.
        slots: What each slot's file holds now; an empty record once it was removed.
        packed: Slots below it are in packs.
    """

    decided: tuple[Record, ...]
    slots: tuple[Record, ...]
    packed: int
    writers: tuple[Writer, ...]
    puts: tuple[tuple[int, Record], ...]
    staged: tuple[Row, ...]
    final: tuple[Row, ...]
    starts: int
    crashes: int
    snapshots: int
    copies: int


_EMPTY = Record("", 0, 0, 0, ())
_OFF = Writer("off", 0, 0, 0, (), _EMPTY)


@dataclass(frozen=True, slots=True)
class PackBounds:
    """How far the model goes.

    Attributes:
        rows: Rows to commit, one a record.
        folder: Slots to a folder; folders are packed whole.
        starts: Drivers started in all, at most two at a time.
        crashes: Driver deaths.
        snapshots: SNAPSHOT records.
        copies: Puts of which a second copy arrives later.
    """

    rows: int = 2
    folder: int = 2
    starts: int = 2
    crashes: int = 0
    snapshots: int = 1
    copies: int = 0


class PackModel:
    """See the module."""

    def __init__(self, bounds: PackBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        bounds = self._bounds
        return State(
            decided=(),
            slots=(),
            packed=0,
            writers=(_OFF, _OFF),
            puts=(),
            staged=(),
            final=(),
            starts=bounds.starts,
            crashes=bounds.crashes,
            snapshots=bounds.snapshots,
            copies=bounds.copies,
        )

    def canonical(self, state: State) -> State:
        """Drivers are alike; a put to a slot that is filled for ever is nothing."""
        first, second = state.writers
        dead = [
            put
            for put in state.puts
            if put[0] < len(state.slots)
            and state.slots[put[0]] != _EMPTY
            and not state.snapshots
            and put[0] >= self._packable(state.decided)
        ]
        return state._replace(
            writers=(first, second) if first <= second else (second, first),
            puts=tuple(sorted(put for put in state.puts if put not in dead)),
        )

    def steps(self, state: State) -> Steps[State]:
        for number, writer in enumerate(state.writers):
            if writer.phase == "off":
                yield from self._start(state, number)
                continue
            if state.crashes:
                after = _with(state, number, _OFF)
                yield f"t{writer.term} crash", after._replace(crashes=state.crashes - 1)
            if writer.phase == "await":
                yield from self._await(state, number, writer)
            elif writer.phase == "look":
                yield from self._look(state, number, writer)
            else:
                yield from self._own(state, number, writer)
        yield from self._requests(state)
        yield from self._remove(state)

    # Reading

    def _read(self, state: State) -> list[Record]:
        """The log as a reader finds it: packs, then slots up to the first empty one."""
        found = []
        for slot, record in enumerate(state.slots):
            packed = slot < state.packed
            use_pack = packed and (
                self._mutation is not Mutation.SLOT_BEFORE_PACK or record == _EMPTY
            )
            if use_pack:
                found.append(state.decided[slot])
            elif record == _EMPTY:
                break
            else:
                found.append(record)
        return found

    def _start(self, state: State, number: int) -> Steps[State]:
        if not state.starts or (number and state.writers[0].phase == "off"):
            return
        left = state._replace(starts=state.starts - 1)
        yield "start", _put(left, number, self._fence(state, state.starts))
        # A SNAPSHOT that cannot be read is ignored.
        whole = [record for record in self._read(state) if record.kind != "SNAPSHOT"]
        begun = self._fence(state, state.starts)
        end, unpublished = _folded(whole)
        begun = begun._replace(end=end, unpublished=unpublished)
        yield "start at slot 0", _put(left, number, begun)
        if state.packed:
            # It looked for packs before there were any, and for slots after they were emptied.
            log = self._read(state._replace(packed=0))
            yield "start, packs unseen", _put(left, number, _fence_behind(log, state.starts))

    def _fence(self, state: State, owner: int) -> Writer:
        """START: fold what can be read, from the last SNAPSHOT on, and put a FENCE behind it."""
        return _fence_behind(self._read(state), owner)

    # What drivers do

    def _await(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot, record = writer.slot, writer.record
        held = state.slots[slot] if slot < len(state.slots) else _EMPTY
        if held == _EMPTY:
            if (slot, record) not in state.puts:
                yield f"t{writer.term} put-again", _put(state, number, writer)
        elif held != record:
            if record.kind == "FENCE":
                again = self._fence(state, record.owner)
                if again.slot > slot:
                    yield "fence-behind", _put(state, number, again)
            else:
                yield f"t{writer.term} fenced-off", _with(state, number, _OFF)
        elif self._mutation is Mutation.NO_LOOK_AFTER_PUT:
            yield f"t{writer.term} {record.kind} landed", self._landed(state, number, writer)
        elif self._mutation is Mutation.PUBLISH_BEFORE_LOOK:
            looking = state
            for file in record.files if record.kind == "DATA" else ():
                looking = _published(looking, file)
            yield f"t{writer.term} publish", _with(looking, number, writer._replace(phase="look"))
        else:
            yield f"t{writer.term} read back", _with(state, number, writer._replace(phase="look"))

    def _look(self, state: State, number: int, writer: Writer) -> Steps[State]:
        slot = writer.slot
        if slot >= state.packed:
            label = f"t{writer.term} {writer.record.kind} landed"
            yield label, self._landed(state, number, writer)
            return
        slots = state.slots
        if slots[slot] == writer.record:
            slots = (*slots[:slot], _EMPTY, *slots[slot + 1 :])
        yield f"t{writer.term} takes back", _with(state, number, _OFF)._replace(slots=slots)

    def _landed(self, state: State, number: int, writer: Writer) -> State:
        record = writer.record
        owner = writer._replace(phase="own", slot=writer.slot + 1, record=_EMPTY)
        if record.kind == "DATA":
            files = tuple(file for file in record.files if file not in state.final)
            owner = owner._replace(end=record.end, unpublished=(*writer.unpublished, *files))
        return _with(state, number, owner)

    def _own(self, state: State, number: int, writer: Writer) -> Steps[State]:
        term = writer.term
        if writer.end < self._bounds.rows:
            file = Row(writer.end, term)
            record = Record("DATA", term, 0, writer.end + 1, (file,))
            after = _put(state, number, writer._replace(phase="await", record=record))
            staged = after.staged if file in after.staged else (*after.staged, file)
            yield f"t{term} commit", after._replace(staged=tuple(sorted(staged)))
        if state.snapshots:
            named = writer.unpublished
            if self._mutation is Mutation.SNAPSHOT_DROPS_UNPUBLISHED:
                named = ()
            record = Record("SNAPSHOT", term, 0, writer.end, named)
            after = _put(state, number, writer._replace(phase="await", record=record))
            yield f"t{term} snapshot", after._replace(snapshots=state.snapshots - 1)
        for file in writer.unpublished:
            left = tuple(other for other in writer.unpublished if other != file)
            after = _with(state, number, writer._replace(unpublished=left))
            yield f"t{term} publish", _published(after, file)
        packable = self._packable(state.decided[: writer.slot])
        whole = self._mutation is not Mutation.REMOVED_BEFORE_PACKED or not any(
            record == _EMPTY for record in state.slots[:packable]
        )
        if packable > state.packed and whole:
            yield f"t{term} pack", state._replace(packed=packable)

    def _packable(self, log: tuple[Record, ...]) -> int:
        """End of the last whole folder below the last SNAPSHOT."""
        covered = max(
            (slot for slot, record in enumerate(log) if record.kind == "SNAPSHOT"), default=0
        )
        return covered - covered % self._bounds.folder

    # What happens without them

    def _requests(self, state: State) -> Steps[State]:
        for put in state.puts:
            slot, record = put
            puts = tuple(other for other in state.puts if other != put)
            after = state._replace(puts=puts)
            if slot == len(state.slots):
                landed = after._replace(
                    decided=(*state.decided, record), slots=(*state.slots, record)
                )
                yield "land", landed
                if state.copies:
                    twice = landed._replace(puts=state.puts, copies=state.copies - 1)
                    yield "land, sent twice", twice
            elif slot < len(state.slots) and state.slots[slot] == _EMPTY:
                slots = (*state.slots[:slot], record, *state.slots[slot + 1 :])
                yield f"land in emptied slot {slot}", after._replace(slots=slots)
            yield "lose", after

    def _remove(self, state: State) -> Steps[State]:
        through = state.packed
        if self._mutation is Mutation.REMOVED_BEFORE_PACKED:
            through = self._packable(state.decided)
        for slot, record in enumerate(state.slots[:through]):
            if record != _EMPTY:
                slots = (*state.slots[:slot], _EMPTY, *state.slots[slot + 1 :])
                yield f"empty slot {slot}", state._replace(slots=slots)

    # What must hold

    def broken(self, state: State) -> str | None:
        end, term = 0, 0
        named: list[Row] = []
        for slot, record in enumerate(state.decided):
            if slot >= state.packed and state.slots[slot] == _EMPTY:
                return f"LOSS: record {slot} is neither in its slot nor in a pack"
            if record.kind == "FENCE":
                term = record.term
            elif record.term != term:
                return f"I3: {record.kind} of term {record.term} under the fence of term {term}"
            if record.kind == "DATA":
                if record.end != end + 1:
                    return f"I2: DATA ends at {record.end} after {end}"
                end = record.end
                named.extend(record.files)
        if any(file not in named for file in state.final):
            return "I4: a file is visible that no decided record names"
        if any(file not in state.staged and file not in state.final for file in named):
            return "I8 LOSS: a committed file is neither staged nor published"
        return self._broken_knowledge(state, term)

    def _broken_knowledge(self, state: State, term: int) -> str | None:
        """The lawful owner knows everything that is committed and not published."""
        for writer in state.writers:
            if writer.phase != "own" or writer.term != term:
                continue
            log = state.decided[: writer.slot]
            if any(record.term > term for record in state.decided):
                continue
            for record in log:
                for file in record.files if record.kind == "DATA" else ():
                    if file not in state.final and file not in writer.unpublished:
                        return "I5 LOSS: nobody will publish a committed file"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) or not state.starts else "STUCK: nothing can happen"

    def is_goal(self, state: State) -> bool:
        named = sorted(f for r in state.decided if r.kind == "DATA" for f in r.files)
        return len(named) == self._bounds.rows and named == list(state.final)

    def must_reach_goal(self, state: State) -> bool:
        return state.starts > 0


def _fence_behind(log: list[Record], owner: int) -> Writer:
    term = max((record.term for record in log), default=0) + 1
    end, unpublished = _folded(log)
    record = Record("FENCE", term, owner, 0, ())
    return Writer("await", len(log), term, end, unpublished, record)


def _folded(log: list[Record]) -> tuple[int, tuple[Row, ...]]:
    end, unpublished = 0, dict[Row, None]()
    for record in log:
        if record.kind == "SNAPSHOT":
            end, unpublished = record.end, dict.fromkeys(record.files)
        elif record.kind == "DATA":
            end = record.end
            unpublished.update(dict.fromkeys(record.files))
    return end, tuple(unpublished)


def _with(state: State, number: int, writer: Writer) -> State:
    first, second = state.writers
    return state._replace(writers=(first, writer) if number else (writer, second))


def _put(state: State, number: int, writer: Writer) -> State:
    put = (writer.slot, writer.record)
    puts = state.puts if put in state.puts else (*state.puts, put)
    return _with(state, number, writer)._replace(puts=puts)


def _published(state: State, file: Row) -> State:
    if file not in state.staged:
        return state
    return state._replace(
        staged=tuple(other for other in state.staged if other != file),
        final=tuple(sorted((*state.final, file))),
    )
