"""Packs the splits of an epoch into tasks; routes whose task died get tasks of their own.

Routes that read the same are packed as one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from sluiceway.errors import TaskDiedError
from sluiceway.observe.log import Log
from sluiceway.schedule.pieces import SplitPieces
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.runner import Bundle
from sluiceway.schedule.shared_reading import meet, shared_readings
from sluiceway.schedule.spread import SplitAssigner
from sluiceway.worker.plan import TaskResult

CLEAN_EPOCHS = 10
"""After so many epochs without a death a route shares tasks again."""

_TOGETHER = 0


class TaskPacker:
    """Decides which routes share a task. Used by the loop's thread.

    Args:
        spread: For all routes that are not kept apart.
        log: Gets tasks that died.
    """

    def __init__(self, spread: SplitAssigner, log: Log) -> None:
        self._spread = spread
        self._numbers: dict[str, int] = {}
        self._log = log
        self._quarantine = Quarantine()
        self._pieces = SplitPieces()

    def deal(self, epochs: Mapping[str, PlannedEpoch], slots: int) -> dict[str, PlannedEpoch]:
        """Fill `by_task` and `alone`. Called once an epoch.

        Args:
            epochs: Epochs by route, in a stable order; not empty.
            slots: Tasks that can run at once.

        Returns:
            Epochs that have a task now; the others come in a later epoch.
        """
        epochs = meet(epochs)
        dealt = self._quarantine.arrange(list(epochs), slots)
        shared = slots - len(dealt.apart)
        if dealt.together:
            self._deal_together({route: epochs[route] for route in dealt.together}, shared)
        else:
            # Pieces of the epoch before are none of this one.
            self._pieces.cut({}, ())
        for task, group in enumerate(dealt.apart, start=shared):
            for route in group:
                epochs[route].by_task = {task: tuple(epochs[route].splits)}
        served = Counter(task for epoch in epochs.values() for task in epoch.by_task)
        for epoch in epochs.values():
            epoch.alone = all(served[task] == 1 for task in epoch.by_task)
        return {route: epoch for route, epoch in epochs.items() if epoch.by_task}

    def _deal_together(self, epochs: Mapping[str, PlannedEpoch], slots: int) -> None:
        """Deal out groups of routes that read the same; each gets tasks as one route would."""
        groups = {each.routes[0]: each for each in shared_readings(epochs)}
        asked = {first: group.epoch for first, group in groups.items()}
        self._spread.assign({self._number(route): epoch for route, epoch in asked.items()}, slots)
        used = {task for epoch in asked.values() for task in epoch.by_task}
        self._pieces.cut(asked, [task for task in range(slots) if task not in used])
        for first, group in groups.items():
            group.deal(epochs)
            self._pieces.share(first, {route: epochs[route] for route in group.routes})

    def _number(self, route: str) -> int:
        return self._numbers.setdefault(route, len(self._numbers))

    def add_answers(
        self,
        ledgers: Mapping[str, str],
        epochs: Mapping[str, PlannedEpoch],
        answers: Sequence[TaskResult],
    ) -> dict[str, list[TaskResult]]:
        """Take in what the tasks of an epoch answered.

        Args:
            ledgers: Ledgers of all its routes, by route.
            epochs: What was dealt out, by route.
            answers: Answers of the tasks that had something to say.

        Returns:
            By ledger, the answers that may be committed or report a failure.
        """
        self._count_deaths(ledgers, answers)
        by_ledger: dict[str, list[TaskResult]] = {}
        for answer in answers:
            by_ledger.setdefault(answer.ledger, []).append(answer)
        for route, ledger in ledgers.items():
            found = by_ledger.get(ledger)
            if found is not None:
                by_ledger[ledger] = self._pieces.join(route, epochs[route], found)
                left_out = len(found) - len(by_ledger[ledger])
                if left_out:
                    self._log.info("pieces_retried", route=route, tasks=left_out)
        return by_ledger

    def _count_deaths(self, ledgers: Mapping[str, str], answers: Sequence[TaskResult]) -> None:
        dead: dict[int, set[str]] = {}
        for answer in answers:
            if answer.failure is not None and answer.failure.kind == TaskDiedError.__name__:
                dead.setdefault(answer.task, set()).add(answer.ledger)
        for task, fallen in dead.items():
            routes = [route for route, ledger in ledgers.items() if ledger in fallen]
            self._log.warning("task_died", task=task, routes=len(routes))
            self._quarantine.died(routes)
        fallen = {ledger for each in dead.values() for ledger in each}
        self._quarantine.survived(r for r, ledger in ledgers.items() if ledger not in fallen)

    def add_lost(self, ledgers: Mapping[str, str], bundles: Sequence[Bundle]) -> None:
        """Take in that no task of an epoch answered."""
        for bundle in bundles:
            served = {plan.route.ledger for plan in bundle}
            if len(served) > 1:
                self._quarantine.died([r for r, ledger in ledgers.items() if ledger in served])


@dataclass(frozen=True, slots=True)
class EpochRoutes:
    """Routes of one epoch.

    Attributes:
        together: Routes that may share tasks.
        apart: Groups, each for one task of its own.
    """

    together: tuple[str, ...]
    apart: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Suspect:
    group: int
    clean: int = 0


class Quarantine:
    """Remembers which routes died together. Used by the loop's thread.

    As a rule one route ends the process of a task: by the memory that its rows take, or by a bug in
    native code. Halving finds that route. The halves run in tasks of their own, and only a route
    that dies alone is to blame.
    """

    def __init__(self) -> None:
        self._suspects: dict[str, _Suspect] = {}
        self._numbers = count(_TOGETHER + 1)
        self._turns = count()
        self._last_turn: dict[int, int] = {}

    def died(self, routes: Sequence[str]) -> None:
        """Take in that a task died which served these routes and no others that are open."""
        middle = (len(routes) + 1) // 2
        for half in (routes[:middle], routes[middle:]):
            group = next(self._numbers)
            self._suspects |= {route: _Suspect(group) for route in half}

    def survived(self, routes: Iterable[str]) -> None:
        """Take in that these were in an epoch and their tasks did not die."""
        for route in routes:
            suspect = self._suspects.get(route)
            if suspect is not None:
                suspect.clean += 1
                if suspect.clean >= CLEAN_EPOCHS:
                    del self._suspects[route]

    def arrange(self, routes: Sequence[str], slots: int) -> EpochRoutes:
        """Deal routes that have something to read out over at most `slots` tasks.

        Groups for which there is no task take turns; what is left out comes in a later epoch.

        Args:
            routes: Routes in a stable order.
            slots: Tasks that can run at once, at least one.
        """
        groups: dict[int, list[str]] = {}
        for route in routes:
            suspect = self._suspects.get(route)
            groups.setdefault(suspect.group if suspect else _TOGETHER, []).append(route)
        chosen = sorted(groups, key=lambda group: (self._last_turn.get(group, -1), group))[:slots]
        if _TOGETHER in groups and _TOGETHER not in chosen and slots > 1:
            # They are all the others: routes that are kept apart never displace them.
            chosen[-1] = _TOGETHER
        turn = next(self._turns)
        open_groups = {suspect.group for suspect in self._suspects.values()} | {_TOGETHER}
        self._last_turn = {g: at for g, at in self._last_turn.items() if g in open_groups}
        self._last_turn |= dict.fromkeys(chosen, turn)
        return EpochRoutes(
            together=tuple(groups.get(_TOGETHER, ()) if _TOGETHER in chosen else ()),
            apart=tuple(tuple(groups[group]) for group in sorted(chosen) if group != _TOGETHER),
        )
