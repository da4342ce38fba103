"""Packs the splits of an epoch into tasks; routes whose task died get tasks of their own.

Routes that read the same are packed as one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from sluiceway.errors import TaskDiedError
from sluiceway.observe.log import Log
from sluiceway.schedule.pieces import SplitPieces
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.quarantine import Quarantine
from sluiceway.schedule.runner import Bundle
from sluiceway.schedule.shared_reading import meet, shared_readings
from sluiceway.schedule.spread import SplitAssigner
from sluiceway.worker.plan import TaskResult


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
