"""A compaction of which a part fails: the rest goes into the table, and nothing is left behind."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from sluiceway.errors import SluicewayError, StorageUnavailableError, TaskFailedError
from sluiceway.observe.log import stderr_log
from sluiceway.operate import lake_compact
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.compact.compaction import Compacted, LakeCompaction
from sluiceway.sinks.iceberg.compact.compaction_backoff import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    CompactionBackoff,
)
from sluiceway.sinks.iceberg.compact.lake_upkeep import LOOK_INTERVAL_S, LakeUpkeep
from sluiceway.sinks.iceberg.compact.rewrite_live import (
    LakeRewritePlan,
    LiveFile,
    RewriteGroup,
    begin_rewriting,
    rewrite_live,
)
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep.partition_requests import CompactionOutcome
from sluiceway.work.process import Answers, UnattendedProcess
from tools.lake_under_test import LakeUnderTest, RewrittenHere

PATIENCE_S = 60.0
APPS = ("a", "b", "c")
NONE_DEAD = np.empty(0, np.int64)


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    """Nine small files in each of three partitions."""
    found = LakeUnderTest(tmp_path)
    publisher = found.publisher()
    for number in range(27):
        found.commit(number, app=APPS[number % 3])
        if number % 3 == 2:
            publisher.publish()
    return found


def files(lake: LakeUnderTest, app: str = "") -> list[str]:
    """Live files of a partition, by their paths."""
    found = [task.file.file_path for task in lake.table().scan().plan_files()]
    return sorted(uri.removeprefix("file://") for uri in found if f"app={app}" in uri)


def written_anew(lake: LakeUnderTest) -> set[str]:
    """All files of compactions that there are."""
    return {str(path) for path in (lake.folder / "wh").rglob("compacted-*")}


def compact(compaction: LakeCompaction) -> list[Compacted]:
    compaction.begin(compaction.plan(all_of_them=False)[0])
    return compaction.finish()


def damage(path: str, how: str) -> None:
    whole = Path(path).read_bytes()
    if how == "gone":
        Path(path).unlink()
    elif how == "cut":
        Path(path).write_bytes(whole[:-10])
    else:
        Path(path).write_bytes(whole[:4] + b"\xff" * 40 + whole[44:])


class Killed(RewrittenHere):
    """Ends in the midst of the second group, of which a file is there already."""

    def __init__(self, plan: LakeRewritePlan) -> None:
        super().__init__(plan)
        del self._answers[1:]
        for group in plan.groups[2:]:
            Path(f"{group.stem}-0.parquet").unlink()

    def answers(self, parts: int, timeout_s: float) -> Answers:
        return super().answers(parts, timeout_s)[0], TaskFailedError("it ended with -9")


class Broken(RewrittenHere):
    """Cannot say what it has made."""

    def answers(self, parts: int, timeout_s: float) -> Answers:
        raise TaskFailedError("it ended with 1")


@pytest.mark.parametrize("how", ["gone", "cut", "page"])
@pytest.mark.parametrize("app", APPS)
def test_one_bad_file_is_left_alone_and_all_others_are_compacted(
    lake: LakeUnderTest, how: str, app: str
) -> None:
    bad = files(lake, app)[4]
    damage(bad, how)
    lines = StringIO()
    compaction = lake.compaction(events=stderr_log(level="info", stream=lines))
    done = compact(compaction)
    (failed,) = [each for each in done if each.failed]
    assert failed.partition == f"app={app}"
    assert bad in failed.failed
    # Without it the eight others of its partition are enough.
    assert [each.failed or each.left for each in compact(compaction)] == [""]
    assert compaction.plan(all_of_them=False) == ([], "")
    assert [len(files(lake, each)) for each in APPS] == [1 + (each == app) for each in APPS]
    assert written_anew(lake) == set(files(lake)) - {bad}
    (told,) = [line for line in lines.getvalue().splitlines() if "compaction_failed" in line]
    assert f"app={app}" in told
    assert bad in told
    assert bad in compaction.put_off


def test_a_bad_file_is_tried_again_after_longer_and_longer_pauses_and_told_once(
    lake: LakeUnderTest,
) -> None:
    bad = Path(files(lake, "b")[4])
    whole = bad.read_bytes()
    bad.unlink()
    now_s, lines = [0.0], StringIO()
    compaction = lake.compaction(
        events=stderr_log(level="warning", stream=lines), clock=lambda: now_s[0]
    )
    assert sum(bool(each.failed) for each in compact(compaction)) == 1
    for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
        now_s[0] += pause_s - 1.0
        groups, _ = compaction.plan(all_of_them=True)
        assert all(f"file://{bad}" not in each.paths for each in groups)
        now_s[0] += 1.0
        compaction.begin(compaction.plan(all_of_them=True)[0])
        assert any(str(bad) in each.failed for each in compaction.finish())
    assert lines.getvalue().count("compaction_failed") == 1
    bad.write_bytes(whole)
    now_s[0] += LONGEST_PAUSE_S
    compaction.begin(compaction.plan(all_of_them=True)[0])
    assert not any(each.failed for each in compaction.finish())
    assert compaction.plan(all_of_them=True) == ([], "")
    assert compaction.put_off == ""
    lake.assert_exact()


def test_what_has_failed_before_is_the_last_to_be_tried(lake: LakeUnderTest) -> None:
    first, *_ = lake.compaction().plan(all_of_them=True)[0]
    now_s = [0.0]
    compaction = lake.compaction(clock=lambda: now_s[0])
    damage(first.paths[0].removeprefix("file://"), "gone")
    compaction.begin([first])
    compaction.finish()
    now_s[0] = FIRST_PAUSE_S
    assert compaction.plan(all_of_them=True)[0][-1] == first


def test_a_group_that_ends_the_process_is_put_off_and_those_before_it_are_compacted(
    lake: LakeUnderTest,
) -> None:
    compaction = lake.compaction(Killed)
    first, second, third = compaction.plan(all_of_them=False)[0]
    done = compact(compaction)
    assert [(each.partition, bool(each.failed)) for each in done] == [
        (second.partition, True),
        (first.partition, False),
    ]
    assert "and 8 more: it ended with -9" in done[0].failed
    assert len(files(lake)) == 19
    assert written_anew(lake) <= set(files(lake))
    assert compaction.plan(all_of_them=False) == ([third], "")
    lake.assert_exact()


def test_a_process_that_cannot_work_leaves_nothing_behind(lake: LakeUnderTest) -> None:
    compaction = lake.compaction(Broken)
    with pytest.raises(TaskFailedError, match="ended with 1"):
        compact(compaction)
    assert written_anew(lake) == set()
    assert len(compaction.plan(all_of_them=False)[0]) == 3


def test_files_that_no_request_has_named_go_when_the_catalog_is_away(lake: LakeUnderTest) -> None:
    catalog = lake.faulty()
    compaction = lake.compaction(catalog=catalog)
    compaction.begin(compaction.plan(all_of_them=False)[0])
    catalog.down = True
    with pytest.raises(StorageUnavailableError):
        compaction.finish()
    assert written_anew(lake) == set()


def test_files_that_a_request_has_named_stay_while_it_may_land(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake.faulty()
    catalog.faults = ["late"]
    send = catalog.send

    def last_words(table: Table, request: CommitRequest) -> str:
        catalog.down = True
        return send(table, request)

    monkeypatch.setattr(catalog, "send", last_words)
    with pytest.raises(StorageUnavailableError):
        compact(lake.compaction(catalog=catalog))
    assert len(written_anew(lake)) == 3
    assert catalog.land() == ""
    assert set(files(lake)) == written_anew(lake)
    lake.assert_exact()


def test_a_new_file_that_cannot_be_read_fails_alone(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction = lake.compaction()
    added = compaction._added

    def unless_b(each: Any, metadata: Any) -> Any:
        if each.partition == "app=b":
            raise StorageUnavailableError("it cannot be read")
        return added(each, metadata)

    monkeypatch.setattr(compaction, "_added", unless_b)
    assert {each.partition: each.failed != "" for each in compact(compaction)} == {
        "app=a": False,
        "app=b": True,
        "app=c": False,
    }
    assert written_anew(lake) <= set(files(lake))
    assert compaction.plan(all_of_them=False) == ([], "")
    lake.assert_exact()


def test_a_running_job_goes_on_at_its_next_look_and_says_what_it_left(
    lake: LakeUnderTest,
) -> None:
    bad = files(lake, "b")[4]
    damage(bad, "gone")
    now_s = [0.0]
    upkeep = LakeUpkeep("sql", lake.compaction, clock=lambda: now_s[0])
    assert upkeep.waits() == ""
    for _ in range(2):
        now_s[0] += LOOK_INTERVAL_S
        upkeep.follow(lake.view())
        now_s[0] += 1.0
        upkeep.follow(lake.view())
        assert upkeep.rest_s() == LOOK_INTERVAL_S
    assert len(files(lake)) == 4
    assert bad in upkeep.waits()
    upkeep.close()


def test_the_command_does_all_the_others_and_names_what_failed(
    lake: LakeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = files(lake, "b")[4]
    damage(bad, "gone")

    @contextmanager
    def opened(*_: object) -> Iterator[LakeCompaction]:
        yield lake.compaction()

    monkeypatch.setattr(lake_compact, "_opened", opened)
    # Only opening asks for them.
    route, ledger = cast("Any", None), cast("Any", None)
    answer = lake_compact.compact_lake(
        route,
        ledger,
        (),
        lambda *_: None,
        stderr_log(level="error"),
    )
    a, b, c = answer.partitions
    assert (a.outcome, c.outcome) == (CompactionOutcome.COMPACTED, CompactionOutcome.COMPACTED)
    assert (b.outcome, b.files_before, b.files_after) == (CompactionOutcome.FAILED, 9, 2)
    assert bad in b.reason


def test_what_a_group_has_written_goes_when_another_of_its_files_is_bad(tmp_path: Path) -> None:
    sources = []
    for number in range(4):
        path = str(tmp_path / f"{number}.parquet")
        names = ("n", "m")[: 1 + number // 2]
        fields = [pa.field(n, pa.int64(), metadata={"PARQUET:field_id": n}) for n in names]
        pq.write_table(pa.table([[number] for _ in names], schema=pa.schema(fields)), path)
        sources.append(LiveFile(path, 1, NONE_DEAD))
    good, bad = tuple(sources[:2]), tuple(sources)
    damage(sources[3].path, "page")
    groups = tuple(
        RewriteGroup(f"{tmp_path}/new/compacted-{number}", each)
        for number, each in enumerate((good, bad, good))
    )
    plan = LakeRewritePlan(f"file://{tmp_path}", NO_STORES, "zstd", groups)
    first, second, third = rewrite_live(plan, LocalStorage())
    assert (len(first.files), second.files, second.bad, len(third.files)) == (1, (), 3, 1)
    assert second.failure is not None
    left = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert left == ["compacted-0-0.parquet", "compacted-2-0.parquet"]


def blocked_plan(lake: LakeUnderTest) -> LakeRewritePlan:
    """Of three groups; reading the second goes on for ever."""
    folder = lake.folder / "anew"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    good = tuple(LiveFile(path, 1, NONE_DEAD) for path in files(lake, "a"))
    stuck = (LiveFile(str(folder / "pipe"), 1, NONE_DEAD), *good)
    groups = tuple(
        RewriteGroup(f"{folder}/compacted-{number}", sources)
        for number, sources in enumerate((good, stuck, good))
    )
    return LakeRewritePlan(f"file://{folder}", NO_STORES, "zstd", groups)


def wait_until_answered(process: UnattendedProcess) -> None:
    until = time.monotonic() + PATIENCE_S
    while not os.fstat(process._answer.fileno()).st_size:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["killed", "late"])
def test_what_a_process_had_answered_before_it_was_killed_counts(
    lake: LakeUnderTest, how: str
) -> None:
    process = begin_rewriting(blocked_plan(lake))
    wait_until_answered(process)
    if how == "killed":
        os.kill(process._process.pid, signal.SIGKILL)
    (first,), ended = process.answers(3, PATIENCE_S if how == "killed" else 0.1)
    assert first.files[0].rows == 9
    assert ended is not None
    assert ("ended with -9" if how == "killed" else "longer than 0.1 s") in ended.message


def test_a_process_that_cannot_open_the_store_fails_for_all_groups(lake: LakeUnderTest) -> None:
    plan = LakeRewritePlan("nothing://x", NO_STORES, "zstd", blocked_plan(lake).groups)
    process = begin_rewriting(plan)
    with pytest.raises(SluicewayError, match="nothing"):
        process.answers(3, PATIENCE_S)


def test_pauses_double_up_to_the_longest_and_end_with_the_file() -> None:
    now_s = [0.0]
    put_off = CompactionBackoff(lambda: now_s[0])
    assert put_off.add(["x", "y"], "lost")
    assert put_off.said == "2 files are not compacted for now: x: lost"
    assert not put_off.add(["y", "z"], "lost")
    now_s[0] = FIRST_PAUSE_S
    assert put_off.paths() == {"y"}
    for _ in range(20):
        put_off.add(["z"], "lost")
    now_s[0] += LONGEST_PAUSE_S - 1.0
    assert put_off.paths() == {"z"}
    now_s[0] += 1.0
    assert put_off.paths() == set()
    assert put_off.is_known(["z"])
    put_off.forget_others({"x"})
    assert not put_off.is_known(["z"])
    assert put_off.said == "1 file is not compacted for now: x: lost"
