"""A small explicit-state checker: every reachable state, breadth first, shortest trace.

States are tuples, so they compare, sort and hash by value. Memory is what bounds a run: `lean`
keeps a 64-bit hash of each state seen instead of the state, and the states of two levels only.
"""

import gc
import time
from array import array
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast

import numpy as np

S = TypeVar("S", bound=Hashable)

Steps = Iterator[tuple[str, S]]
"""(what happens, the state after it)."""

_LOOK_EVERY = 4096


class Model(Protocol[S]):
    """A protocol as states and steps."""

    def initial(self) -> S:
        """The state before anything happened."""

    def steps(self, state: S) -> Steps[S]:
        """Everything that may happen next, by anybody."""

    def canonical(self, state: S) -> S:
        """One state for all that differ in names only, or in what can no longer matter."""

    def broken(self, state: S) -> str | None:
        """Which invariant does not hold, or None. Asked once for each state."""

    def at_rest(self, state: S) -> str | None:
        """What is wrong with a state in which nothing more can happen, or None."""

    def is_goal(self, state: S) -> bool:
        """Whether all work is done."""

    def must_reach_goal(self, state: S) -> bool:
        """Whether the goal has to be in reach from here."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run stops although states are left.

    Attributes:
        states: Most states.
        seconds: Longest time, for the search itself.
    """

    states: int = 50_000_000
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run found.

    Attributes:
        states: Different states reached.
        steps: Steps between them.
        depth: Steps to the farthest state, or to the violation.
        seconds: Wall time.
        complete: No state was left out.
        violation: What does not hold; None when all holds.
        trace: Shortest way to the violation.
        live: Reachability of the goal was checked too.
    """

    states: int
    steps: int
    depth: int
    seconds: float
    complete: bool
    violation: str | None = None
    trace: tuple[str, ...] = ()
    live: bool = False


@dataclass(slots=True)
class _Edges:
    """Steps by number of state, and which states matter to liveness."""

    sources: "array[int]" = field(default_factory=lambda: array("I"))
    targets: "array[int]" = field(default_factory=lambda: array("I"))
    goals: bytearray = field(default_factory=bytearray)
    bound: bytearray = field(default_factory=bytearray)

    def first_stuck(self) -> int | None:
        """Number of the shallowest state that must reach the goal and cannot."""
        reaches = np.frombuffer(self.goals, dtype=np.uint8).astype(np.bool_)
        sources = np.frombuffer(self.sources, dtype=np.uint32)
        targets = np.frombuffer(self.targets, dtype=np.uint32)
        known = -1
        while known != (known := int(reaches.sum())):
            reaches[sources[reaches[targets]]] = True
        stuck = np.flatnonzero(np.frombuffer(self.bound, dtype=np.bool_) & ~reaches)
        return int(stuck[0]) if stuck.size else None


class Checker(Generic[S]):
    """One run over one model.

    Args:
        model: What to check.
        lean: Keep hashes instead of states.
        live: Also check that the goal stays in reach; needs every step in memory (8 bytes each).
        limits: Where to stop.
    """

    def __init__(
        self, model: Model[S], *, lean: bool = False, live: bool = False, limits: Limits = Limits()
    ) -> None:
        self._model = model
        self._lean = lean
        self._limits = limits
        self._numbers: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._parents = array("I")
        self._edges = _Edges() if live else None
        self._steps = 0
        self._depth = 0
        self._started = time.monotonic()
        self._complete = True

    def run(self) -> Verdict:
        """Reach every state, or the first violation. Called once."""
        collecting = gc.isenabled()
        # States hold no cycles; scanning millions of tuples for them would cost half the time.
        gc.disable()
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> Verdict:
        first = self._model.canonical(self._model.initial())
        self._note(self._key(first), first, 0)
        level = [(0, first)]
        while level:
            following: list[tuple[int, S]] = []
            for count, (number, state) in enumerate(level):
                found = self._expand(number, state, following)
                if found is not None:
                    return found
                if count % _LOOK_EVERY == 0 and self._is_over():
                    self._complete = False
                    return self._verdict(None, ())
            level = following
            self._depth += bool(following)
        return self._check_liveness() if self._edges is not None else self._verdict(None, ())

    def _expand(self, number: int, state: S, following: list[tuple[int, S]]) -> Verdict | None:
        model, numbers, edges = self._model, self._numbers, self._edges
        moved = False
        for _, raw in model.steps(state):
            moved = True
            self._steps += 1
            after = model.canonical(raw)
            key = self._key(after)
            known = numbers.get(key)
            target = self._note(key, after, number) if known is None else known
            if edges is not None:
                edges.sources.append(number)
                edges.targets.append(target)
            if known is None:
                following.append((target, after))
                problem = model.broken(after)
                if problem is not None:
                    return self._verdict(problem, self._trace(target))
        if not moved and (problem := model.at_rest(state)) is not None:
            return self._verdict(problem, self._trace(number))
        return None

    def _key(self, state: S) -> Hashable:
        return hash(state) if self._lean else state

    def _note(self, key: Hashable, state: S, parent: int) -> int:
        number = len(self._keys)
        self._numbers[key] = number
        self._keys.append(key)
        self._parents.append(parent)
        if self._edges is not None:
            self._edges.goals.append(self._model.is_goal(state))
            self._edges.bound.append(self._model.must_reach_goal(state))
        return number

    def _is_over(self) -> bool:
        return (
            len(self._keys) >= self._limits.states
            or time.monotonic() - self._started > self._limits.seconds
        )

    def _check_liveness(self) -> Verdict:
        edges = cast("_Edges", self._edges)
        stuck = edges.first_stuck()
        if stuck is None:
            return self._verdict(None, ())
        return self._verdict("STUCK: the goal is out of reach", self._trace(stuck))

    def _trace(self, number: int) -> tuple[str, ...]:
        """Walk the way again from the start, since keys alone do not name the steps."""
        keys = []
        while number:
            keys.append(self._keys[number])
            number = self._parents[number]
        state = self._model.canonical(self._model.initial())
        labels = []
        for wanted in reversed(keys):
            label, state = next(
                (label, after)
                for label, raw in self._model.steps(state)
                for after in (self._model.canonical(raw),)
                if self._key(after) == wanted
            )
            labels.append(label)
        return tuple(labels)

    def _verdict(self, violation: str | None, trace: tuple[str, ...]) -> Verdict:
        return Verdict(
            states=len(self._keys),
            steps=self._steps,
            depth=len(trace) if violation else self._depth,
            seconds=round(time.monotonic() - self._started, 2),
            complete=self._complete and violation is None,
            violation=violation,
            trace=trace,
            live=self._edges is not None,
        )
