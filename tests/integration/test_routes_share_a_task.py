"""A task that dies for one of its routes, on a real broker and metastore; tasks run in threads."""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sluiceway.driver.run import Observers, run_routes
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.route.status import RouteState
from sluiceway.schedule.runner import Bundle
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult
from tools.inline_runner import InlineRunner
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_ROUTES = 5


class _DyingRunner(InlineRunner):
    """Tasks that serve the guilty route die, and their retries answer.

    Attributes:
        guilty: The last one of the first task that serves several routes.
        deaths: Number of routes of each task that died.
    """

    def __init__(self) -> None:
        super().__init__(slots=2)
        self.guilty = ""
        self.deaths: list[int] = []

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        def dies(bundle: Bundle) -> bool:
            return any(plan.route.layout.route == self.guilty for plan in bundle)

        together = [bundle for bundle in bundles if len(bundle) > 1]
        if together and not self.guilty:
            self.guilty = together[0][-1].route.layout.route
        dead = [bundle for bundle in bundles if dies(bundle)]
        self.deaths += [len(bundle) for bundle in dead]
        well = [bundle for bundle in bundles if not dies(bundle)]
        answers = super().run(well, wait=wait, give_up_after_s=give_up_after_s) if well else []
        return answers + [one for bundle in dead for one in run_bundle(bundle, attempt=1)]


def test_only_the_route_for_which_tasks_die_halts(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.05)
    monkeypatch.setattr("sluiceway.schedule.task_failures.LONGEST_RETRY_S", 0.2)
    prefix = f"d{uuid.uuid4().hex[:8]}"
    topics = [new_topic(2) for _ in range(_ROUTES)]
    routes = [
        f"  - {{topics: [{topic}], table: ods.{prefix}_{number}}}"
        for number, topic in enumerate(topics)
    ]
    job = write_routes(
        tmp_path,
        "\n".join(routes),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
    )
    for topic in topics:
        TopicWriter(bootstrap_servers).write(topic, [event(n) for n in range(3)])
    runner, board = _DyingRunner(), StatusBoard()
    eyes = Observers(stderr_log(level="warning"), Progress(), board)
    with pytest.raises(Exception, match="served no other route") as raised:
        run_routes(compile_routes(job.spec), runner, StopSignal(), eyes, bounded=True)
    runner.close()
    assert type(raised.value).__name__ == "TaskFailedError"
    states = {status.route: status.state for status in board.snapshot()}
    assert states.pop(runner.guilty) is RouteState.HALTED
    assert {*states.values()} == {RouteState.CAUGHT_UP}
    # It died with others first, then by itself as often as a route may.
    assert runner.deaths[0] > 1
    assert runner.deaths[-4:] == [1, 1, 1, 1]
    for route in states:
        run = RouteRun(job, route)
        assert [offset for (offset,) in run.rows("_offset")] == [0, 1, 2]
        run.assert_verified()
    assert RouteRun(job, runner.guilty).rows() == []
