"""Attempts at a task: what a retry reads, what is left when one is ended, who keeps a reader."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sluiceway.observe import failpoints
from sluiceway.observe.failpoints import Action, FailpointSpec, Role
from sluiceway.sources.contract import SourceBatch, Split, SplitEnd
from sluiceway.worker import bundle
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.pipeline import RowPipeline
from tools.small_bundle import ROWS, FourRowsReader, bundle_plan


class Readers:
    """Opens readers.

    Attributes:
        opened: Those.
        act: What each of them calls at each read, with its number from 1 on.
    """

    def __init__(self) -> None:
        self.opened: list[FourRowsReader] = []
        self.act: Callable[[int], None] = lambda _: None

    def open(self, access: object, splits: Sequence[Split], *, owner: str) -> FourRowsReader:
        """Instead of `open_reader`."""
        del access, owner
        self.opened.append(FourRowsReader(len(splits)))
        self.opened[-1].act = self.act
        return self.opened[-1]


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    made = Readers()
    monkeypatch.setattr(bundle, "open_reader", made.open)
    return made


def test_retry_behind_an_attempt_that_died_reads_nothing_and_says_so(
    tmp_path: Path, readers: Readers
) -> None:
    (answer,) = run_bundle([bundle_plan(tmp_path)], attempt=1)
    assert answer.failure is not None
    assert answer.failure.kind == "TaskDiedError"
    assert readers.opened == []


@pytest.mark.parametrize("attempt", [0, 1])
def test_whoever_comes_behind_an_attempt_that_has_answered_hands_its_answer_over(
    tmp_path: Path, readers: Readers, attempt: int
) -> None:
    plan = bundle_plan(tmp_path)
    first = run_bundle([plan])
    assert [int(answer.counts.written) for answer in first] == [ROWS]
    assert run_bundle([plan], attempt=attempt) == first
    assert len(readers.opened) == 1


def test_route_whose_earlier_answer_cannot_be_looked_for_is_not_read(
    tmp_path: Path, readers: Readers
) -> None:
    plan = bundle_plan(tmp_path)
    Path(plan.result_path).mkdir()
    (answer,) = run_bundle([plan])
    assert answer.failure is not None
    assert answer.failure.kind == "StorageUnavailableError"
    assert readers.opened == []


class NoRowsReader(FourRowsReader):
    """A reader of logs in which nothing is new."""

    def read(self, timeout_s: float) -> list[SourceBatch]:
        super().read(timeout_s)
        return []

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(0, 0, 0, None),) * self.splits


def test_route_whose_ends_did_not_move_has_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, plan = NoRowsReader(), bundle_plan(tmp_path)
    monkeypatch.setattr(bundle, "open_reader", lambda *_, **__: reader)
    assert run_bundle([plan]) == ()
    assert reader.kept is True
    assert not Path(plan.result_path).exists()


def test_reader_of_two_routes_is_not_kept_when_one_of_them_fails(
    tmp_path: Path, readers: Readers
) -> None:
    sound, broken = bundle_plan(tmp_path / "a", "a"), bundle_plan(tmp_path / "b", "b")

    def take_the_place_of_its_answer(read: int) -> None:
        if read == 1:
            Path(broken.result_path).mkdir()

    readers.act = take_the_place_of_its_answer
    answers = {answer.ledger: answer.failure is None for answer in run_bundle([sound, broken])}
    assert answers == {"a": True, "b": False}
    (reader,) = readers.opened
    assert (reader.splits, reader.kept) == (2, False)


def test_task_that_is_ended_drops_what_is_open_and_keeps_no_reader(
    tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[RowPipeline] = []
    abort = RowPipeline.abort

    def noted(pipeline: RowPipeline) -> None:
        dropped.append(pipeline)
        abort(pipeline)

    def ended_at_the_second(read: int) -> None:
        if read == 2:
            raise KeyboardInterrupt

    readers.act = ended_at_the_second
    monkeypatch.setattr(RowPipeline, "abort", noted)
    plan = bundle_plan(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_bundle([plan])
    assert len(dropped) == 1
    assert readers.opened[0].kept is False
    assert not Path(plan.result_path).exists()
    assert "write" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def _disarmed() -> Iterator[None]:
    failpoints.disarm()
    yield
    failpoints.disarm()


@pytest.mark.usefixtures("_disarmed")
def test_failpoint_of_a_worker_is_met_by_its_tasks(
    tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = FailpointSpec("task.start", Action.RAISE, str(tmp_path), by=Role.WORKER)
    monkeypatch.setenv(failpoints.VARIABLE, spec.text())
    with pytest.raises(RuntimeError, match=r"failpoint task\.start"):
        run_bundle([bundle_plan(tmp_path)])
    assert readers.opened == []
