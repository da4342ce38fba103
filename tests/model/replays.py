"""Replay of dirty changes into a keyed table: never one that a later change has overtaken.

One key in one source partition. Epochs commit changes in the order of their offsets; some are
dirty. A replay looks at one dirty change, judges it by the files of changes that are committed,
and puts a record behind them, or leaves it dirty where a file is gone. The table is the log's
slots, one after the other. Files go when their slot is in the table, and by somebody's hand.
"""

from dataclasses import dataclass
from typing import NamedTuple

from model.checker import Steps
from model.mutation import Mutation

Change = tuple[int, int | None]
"""Offset, and the value from then on; None for a delete."""


class Judged(NamedTuple):
    """What a replay is about to put.

    Attributes:
        slot: The one behind those that were looked at.
        written: Whether it is the last one.
    """

    offset: int
    slot: int
    written: bool


class State(NamedTuple):
    """Everything that survives, and what the driver holds.

    Attributes:
        log: Changes of each slot.
        epochs: That are committed.
        open: Dirty changes: offset, and the slot in which they were read.
        gone: Slots whose file of changes is not there.
        through: Slots that the table has.
        judged: Between a look and its record.
        strays: Files that others may still remove.
        stays: Whether a row has stayed dirty.
    """

    log: tuple[tuple[Change, ...], ...]
    epochs: int
    open: tuple[tuple[int, int], ...]
    gone: frozenset[int]
    through: int
    judged: Judged | None
    strays: int
    stays: bool


@dataclass(frozen=True, slots=True)
class ReplayBounds:
    """How far the model goes.

    Attributes:
        epochs: Changes of each: whether it is dirty, and its value.
        strays: Files that others remove.
    """

    epochs: tuple[tuple[tuple[bool, int | None], ...], ...] = (
        ((True, 0), (False, 1)),
        ((True, 2),),
        ((False, None),),
        ((True, 4), (False, 5)),
    )
    strays: int = 1


class ReplayModel:
    """See the module."""

    def __init__(self, bounds: ReplayBounds, mutation: Mutation | None = None) -> None:
        self._bounds = bounds
        self._mutation = mutation
        self._values = [value for epoch in bounds.epochs for _, value in epoch]

    def initial(self) -> State:
        return State((), 0, (), frozenset(), 0, None, self._bounds.strays, stays=False)

    def canonical(self, state: State) -> State:
        return state

    def steps(self, state: State) -> Steps[State]:
        stale = self._mutation is Mutation.REPLAY_STALE_JUDGEMENT
        if state.epochs < len(self._bounds.epochs) and (state.judged is None or stale):
            yield f"commit epoch {state.epochs}", self._commit(state)
        if state.judged is None:
            for offset, slot in state.open:
                yield f"judge {offset}", self._judge(state, offset, slot)
        else:
            yield "crash", state._replace(judged=None)
            yield "land", self._land(state, state.judged)
        if state.through < len(state.log):
            yield "publish", state._replace(through=state.through + 1)
        for slot in range(state.through):
            if slot in state.gone:
                continue
            held = any(since <= slot for _, since in state.open)
            if not held or self._mutation is Mutation.REPLAY_FILES_GO:
                yield f"remove file {slot}", state._replace(gone=state.gone | {slot})
            elif state.strays:
                left = state._replace(gone=state.gone | {slot}, strays=state.strays - 1)
                yield f"lose file {slot}", left

    def _commit(self, state: State) -> State:
        epoch = self._bounds.epochs[state.epochs]
        first = sum(len(each) for each in self._bounds.epochs[: state.epochs])
        slot = len(state.log)
        clean = tuple((first + n, value) for n, (dirty, value) in enumerate(epoch) if not dirty)
        dirty = tuple((first + n, slot) for n, (dirty, _) in enumerate(epoch) if dirty)
        return state._replace(
            log=(*state.log, clean), epochs=state.epochs + 1, open=(*state.open, *dirty)
        )

    def _judge(self, state: State, offset: int, since: int) -> State:
        wrong = self._mutation
        begin = since + (wrong is Mutation.REPLAY_OWN_SLOT_UNSEEN)
        looked = [slot for slot in range(begin, len(state.log)) if slot not in state.gone]
        later = [
            change
            for slot in looked
            for change in state.log[slot]
            if change[0] > offset
            and (change[1] is not None or wrong is not Mutation.REPLAY_DELETES_UNSEEN)
        ]
        lost = len(looked) < len(state.log) - begin
        if wrong is Mutation.REPLAY_BY_SLOT:
            later = []
        ignored = wrong in (Mutation.REPLAY_GONE_IS_NOTHING, Mutation.REPLAY_FILES_GO)
        if not later and lost and not ignored:
            left = tuple(each for each in state.open if each[0] != offset)
            return state._replace(open=left, stays=True)
        return state._replace(judged=Judged(offset, len(state.log), not later))

    def _land(self, state: State, judged: Judged) -> State:
        """The record is in the next slot: the judged one, unless the driver is a wrong one."""
        left = tuple(each for each in state.open if each[0] != judged.offset)
        change = (judged.offset, self._values[judged.offset])
        brought = (change,) if judged.written else ()
        return state._replace(log=(*state.log, brought), open=left, judged=None)

    def broken(self, state: State) -> str | None:
        slots = state.log[: state.through]
        told = [change for slot in slots for change in slot]
        if not told:
            return None
        last = max(told)
        if told[-1][1] != last[1]:
            return f"WRONG: the table has {told[-1]}, and {last} is later"
        return None

    def at_rest(self, state: State) -> str | None:
        return None if self.is_goal(state) else "STUCK"

    def is_goal(self, state: State) -> bool:
        done = state.epochs == len(self._bounds.epochs) and not state.open
        return done and state.judged is None and state.through == len(state.log)

    def must_reach_goal(self, state: State) -> bool:
        del state
        return True
