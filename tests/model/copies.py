"""A table whose objects a copier brings in any order, and the room that adopts it.

Room a commits slots, a REPLACE among them, and is lost. Each record and each file arrives alone, a
file under its staged or its final name. Room b keeps the last slot whose live files have all
arrived, reads the rest from the queue again, and puts its records into a log of its own. A driver
of room b may start before anything has arrived.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

Arrived = tuple[str, int]
"""`record`, `staged` or `final`, and the number of a slot or file."""

_MERGED = 90
_NOTHING = -1
_TAKEN = -2


class State(NamedTuple):
    """Both rooms.

    Attributes:
        slots: Slots that room a has committed.
        arrived: What the copier has brought, in order of its name.
        swept: Room a has removed the files that the REPLACE had replaced; the copier did so too.
        lost: Room a is lost.
        cut: The last slot that room b keeps; None before it has adopted the copy.
        visible: Room a's files that readers of room b find.
        again: Rows that room b has committed; `_TAKEN` where a record of room a was in the slot.
        begun: Room b has begun a ledger, without a copy.
    """

    slots: int = 0
    arrived: tuple[Arrived, ...] = ()
    swept: bool = False
    lost: bool = False
    cut: int | None = None
    visible: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    begun: bool = False


@dataclass(frozen=True, slots=True)
class CopyBounds:
    """How far the model goes.

    Attributes:
        slots: Slots of room a; each is a file of one row, but for one REPLACE.
        replace: The slot that replaces the two files before it by one.
        late: Whether objects arrive after the adopt too: a confirmation was wrong, and room b's
            driver moves them aside.
    """

    slots: int = 4
    replace: int = 2
    late: bool = False


class CopyModel:
    """See the module."""

    def __init__(self, bounds: CopyBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation

    def initial(self) -> State:
        return State()

    def canonical(self, state: State) -> State:
        return state._replace(arrived=tuple(sorted(state.arrived)))

    def steps(self, state: State) -> Steps[State]:
        if not state.lost:
            yield from self._room_a(state)
        if state.cut is None or self._bounds.late or state.begun:
            yield from self._copier(state)
        begins = self._mutation is Mutation.CUT_NO_COPY_BEGINS
        if begins and state.cut is None and ("record", 0) not in state.arrived:
            yield "b begins a ledger", state._replace(cut=_NOTHING, begun=True)
        if state.lost and state.cut is None:
            yield "b adopts", self._adopted(state)
        missing = self._missing(state)
        if state.cut is not None and missing:
            slot = state.cut + 1 + len(state.again)
            own = self._mutation is not Mutation.CUT_ONE_LOG and not state.begun
            taken = not own and ("record", slot) in state.arrived
            row = _TAKEN if taken else missing[0]
            yield f"b commits row {row}", state._replace(again=(*state.again, row))

    def _room_a(self, state: State) -> Steps[State]:
        if state.slots < self._bounds.slots:
            yield f"a commits slot {state.slots}", state._replace(slots=state.slots + 1)
        if state.slots > self._bounds.replace and not state.swept:
            old = {(kind, file) for kind in ("staged", "final") for file in self._replaced}
            left = tuple(each for each in state.arrived if each not in old)
            yield "a and the copier remove old files", state._replace(swept=True, arrived=left)
        yield "a is lost", state._replace(lost=True)

    def _copier(self, state: State) -> Steps[State]:
        for each in self._objects(state):
            if each in state.arrived:
                continue
            after = state._replace(arrived=(*state.arrived, each))
            kind, number = each
            guarded = self._mutation is not Mutation.CUT_UNGUARDED and not state.begun
            if state.cut is not None and kind == "final" and not guarded:
                seen = {*state.visible} | {number}
                after = after._replace(visible=tuple(sorted(seen)))
            yield f"{kind} {number} arrives", after

    def _objects(self, state: State) -> Iterator[Arrived]:
        for slot in range(state.slots):
            yield "record", slot
            file = self._file(slot)
            if not (state.swept and file in self._replaced):
                yield "staged", file
                yield "final", file

    # What room b does

    def _adopted(self, state: State) -> State:
        cut = _NOTHING
        while ("record", cut + 1) in state.arrived:
            cut += 1
        whole = self._mutation is not Mutation.CUT_AT_CHAIN_END
        while whole and not all(self._arrived(state, file) for file in self._live(cut)):
            cut -= 1
        finals = {file for kind, file in state.arrived if kind == "final"}
        live = self._live(cut)
        placed = {file for file in live if self._arrived(state, file)}
        visible = live & (finals if self._mutation is Mutation.CUT_UNPLACED else finals | placed)
        if self._mutation is Mutation.CUT_STRAYS_STAY:
            # Readers are not sent to a folder that a REPLACE has left.
            visible |= finals - (self._replaced if cut >= self._bounds.replace else set())
        return state._replace(cut=cut, visible=tuple(sorted(visible)))

    def _arrived(self, state: State, file: int) -> bool:
        return ("final", file) in state.arrived or ("staged", file) in state.arrived

    # Rows and files

    @property
    def _replaced(self) -> set[int]:
        return {self._bounds.replace - 2, self._bounds.replace - 1}

    def _file(self, slot: int) -> int:
        return _MERGED if slot == self._bounds.replace else slot

    def _live(self, last: int) -> set[int]:
        files = {self._file(slot) for slot in range(last + 1)}
        return files - self._replaced if _MERGED in files else files

    def _rows(self, file: int) -> set[int]:
        return self._replaced if file == _MERGED else {file}

    def _kept(self, cut: int) -> set[int]:
        return {row for file in self._live(cut) for row in self._rows(file)}

    def _queued(self, state: State) -> list[int]:
        return [slot for slot in range(state.slots) if slot != self._bounds.replace]

    def _missing(self, state: State) -> list[int]:
        """Rows of the queue that room b believes to have neither kept nor committed."""
        if state.cut is None:
            return []
        kept = self._kept(state.cut)
        wanted = [row for row in self._queued(state) if row not in kept]
        return wanted[len(state.again) :]

    # What must hold

    def broken(self, state: State) -> str | None:
        if state.cut is None:
            return None
        seen = self._seen(state)
        twice = sorted(row for row, times in seen.items() if times > 1)
        if twice:
            return f"DOUBLED: readers of room b find rows {twice} twice"
        lost = [row for row in self._queued(state) if row not in seen]
        if lost and not self._missing(state):
            return f"LOST: rows {lost} were committed in room a and are not in room b"
        return None

    def _seen(self, state: State) -> Counter[int]:
        rows = [row for file in state.visible for row in self._rows(file)]
        return Counter([*rows, *(row for row in state.again if row != _TAKEN)])

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) else "STUCK: room b has not all rows"

    def is_goal(self, state: State) -> bool:
        if state.cut is None:
            return False
        return sorted(self._seen(state).elements()) == self._queued(state)

    def must_reach_goal(self, state: State) -> bool:
        return True
