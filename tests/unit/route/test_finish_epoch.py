"""From answers to a published epoch: what is checked before the commit point, and after."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import (
    InvariantError,
    OffsetsLostError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.followers import runner
from sluiceway.ledger.log import LedgerLog
from sluiceway.route.route_meter import RouteMeter
from sluiceway.schedule import partition_watch
from sluiceway.sources.contract import LogBounds
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskFailure
from tools.session_on_disk import SessionOnDisk, session_on_disk


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionOnDisk]:
    with session_on_disk(tmp_path / "t", monkeypatch) as started:
        yield started


def _committed(route: SessionOnDisk) -> int:
    """The end that the log on the disk has, read anew."""
    return LedgerLog(LocalStorage(), route.owned.layout).fold().sources["orders", 0].end


def _files(route: SessionOnDisk) -> list[Path]:
    return sorted(Path(route.owned.layout.table_root).glob("orders-*.parquet"))


def test_finished_epoch_is_committed_and_its_file_has_its_name(route: SessionOnDisk) -> None:
    route.run_epoch(4)
    route.run_epoch(10)
    assert _committed(route) == 10
    assert sorted(path.stat().st_size for path in _files(route)) == [4 * 4, 6 * 4]
    assert list(Path(route.owned.layout.stage).glob("1-*")) == []


@pytest.mark.parametrize("waited", [True, False])
def test_lag_is_that_of_the_moment_at_which_the_tasks_had_answered(
    route: SessionOnDisk, monkeypatch: pytest.MonkeyPatch, *, waited: bool
) -> None:
    """The commit may have waited for the one before."""
    looked_at: list[float] = []

    def look(meter: object, fold: object, bounds: object, *, at: float) -> int:
        del meter, fold, bounds
        looked_at.append(at)
        return 0

    planned, before = route.plan(), time.monotonic()
    monkeypatch.setattr(RouteMeter, "update", look)
    answer = route.answer(planned, 4)
    route.session.planner.set_written(planned)
    planned.answered = 7.0 if waited else 0.0
    route.session.committer.commit_epoch(planned, [answer], route.view())
    assert looked_at == [7.0] if waited else before <= looked_at[0] <= time.monotonic()


@pytest.mark.parametrize("damage", ["gone", "shorter", "joined"])
def test_staged_file_that_is_not_as_answered_is_never_committed(
    route: SessionOnDisk, damage: str
) -> None:
    planned = route.plan()
    answer = route.answer(planned, 4)
    staged = Path(route.owned.layout.attempt(answer.files[0].staged))
    if damage == "gone":
        staged.unlink()
    elif damage == "shorter":
        staged.write_bytes(staged.read_bytes()[:-1])
    else:
        staged.with_name("another.parquet").write_bytes(b"rows that nobody has counted")
    with pytest.raises(TaskFailedError, match="its folder has"):
        route.finish(planned, answer)
    assert _committed(route) == 0
    route.run_epoch(4)
    assert _committed(route) == 4


@pytest.mark.parametrize(
    "lie",
    [
        {"term": 7},
        {"epoch": 99},
        {"splits": ()},
    ],
    ids=str,
)
def test_answer_to_what_was_not_asked_is_never_committed(
    route: SessionOnDisk, lie: dict[str, Any]
) -> None:
    planned = route.plan()
    answer = route.answer(planned, 4)
    with pytest.raises(InvariantError, match=r"answered .*, asked was"):
        route.finish(planned, replace(answer, **lie))
    assert _committed(route) == 0


@pytest.mark.parametrize("lie", [{"start": BigInt(1)}, {"partition": 1}, {"topic": "o"}], ids=str)
def test_answer_about_other_offsets_than_asked_is_never_committed(
    route: SessionOnDisk, lie: dict[str, Any]
) -> None:
    planned = route.plan()
    answer = route.answer(planned, 4)
    with pytest.raises(InvariantError, match=r"answered .*, asked was"):
        route.finish(planned, replace(answer, splits=(replace(answer.splits[0], **lie),)))
    assert _committed(route) == 0


def test_answer_that_says_its_task_failed_commits_nothing(route: SessionOnDisk) -> None:
    planned = route.plan()
    answer = route.answer(planned, 4)
    failed = replace(answer, failure=TaskFailure.of(TaskFailedError("a bad disk")))
    with pytest.raises(TaskFailedError, match="a bad disk"):
        route.finish(planned, failed)
    assert _committed(route) == 0


def test_epoch_that_does_not_follow_what_was_committed_meanwhile_is_thrown_away(
    route: SessionOnDisk,
) -> None:
    planned = route.plan()
    answer = route.answer(planned, 4)
    route.run_epoch(6)
    planned.ahead = True
    route.finish(planned, answer)
    assert _committed(route) == 6


def test_log_that_falls_behind_while_tasks_read_is_asked_again_before_it_is_believed(
    route: SessionOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    route.run_epoch(6)
    planned = route.plan()
    answer = route.answer(planned, 10)
    # The leader of now knows less than the one that the rows came from.
    route.source.place = LogBounds(0, 5, 5, leader_epoch=4)
    with pytest.raises(SourceUnavailableError, match="ends at 5, the committed end is 6"):
        route.finish(planned, answer)
    assert _committed(route) == 6
    monkeypatch.setattr(partition_watch, "RECHECK_AFTER_S", 0.0)
    with pytest.raises(OffsetsLostError):
        route.finish(planned, answer)
    assert _committed(route) == 6


def test_topic_made_anew_while_tasks_read_is_not_committed(route: SessionOnDisk) -> None:
    route.run_epoch(6)
    planned = route.plan()
    answer = route.answer(planned, 10)
    route.source.topic_id = "t2"
    with pytest.raises(OffsetsLostError):
        route.finish(planned, answer)
    assert _committed(route) == 6


class _PublishFails(LocalStorage):
    """Publishing fails so often; what the ledger then says of it is looked at."""

    def __init__(self) -> None:
        self.failures = 0
        self.route: SessionOnDisk | None = None
        self.said: list[tuple[int, bool]] = []

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if self.route is not None and self.failures:
            self.failures -= 1
            fold = self.route.owned.fold
            self.said.append((fold.published_through, bool(fold.unpublished)))
            raise StorageUnavailableError("no answer", where=dst)
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)


def test_record_counts_as_published_only_when_its_files_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "FIRST_PAUSE_S", 0.0)
    store = _PublishFails()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        route.run_epoch(4)
        store.route, store.failures = route, 2
        before = route.owned.fold.next_seq
        route.run_epoch(10)
        assert [(through <= before, owed) for through, owed in store.said] == [(True, True)] * 2
        assert route.owned.fold.published_through == route.owned.fold.next_seq
    assert len(list((tmp_path / "t").glob("orders-*.parquet"))) == 2
