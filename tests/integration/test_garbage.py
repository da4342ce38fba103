"""Garbage on real servers: what goes, what stays, beside live drivers and zombies."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.pick_route import job_routes, pick_route
from sluiceway.cli.app import run_command
from sluiceway.cli.commands.gc import collect_route
from sluiceway.errors import FencedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger import lease
from sluiceway.ledger.collect import Collected
from sluiceway.observe.log import stderr_log
from sluiceway.observe.steps import Step
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep.housekeeping import FileCleaner
from tools.job_files import event
from tools.route_faults import Crash, CrashAt, NewRun, Pause, data_records, live, wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _config(run: RouteRun) -> RouteConfig:
    return pick_route(job_routes(run.job.spec, stderr_log(level="warning")), None)


def _stage(run: RouteRun) -> Path:
    (stage,) = run.root().glob("_sluiceway/*/stage")
    return stage


def _staged_files(run: RouteRun) -> set[str]:
    """What attempts have left; the driver's reserve is no garbage."""
    return {path.name for path in _stage(run).rglob("*") if path.is_file()} - {"reserve"}


def _gc(run: RouteRun, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run_command(["gc", str(run.job.path), "-o", "json", *options]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["routes"]
    assert isinstance(answer, dict)
    return answer


@pytest.fixture
def _no_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers leave garbage to the command."""
    monkeypatch.setattr(FileCleaner, "tidy", lambda keeper, fold: None)


@pytest.fixture
def _silent_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that stand still, as those of stopped processes, and are called dead soon."""
    monkeypatch.setattr(lease.LeaseKeeper, "renew", lambda keeper: None)
    monkeypatch.setattr(lease, "DEAD_AFTER_S", 1.0)


def _die(run: RouteRun, step: Step) -> None:
    with pytest.raises(Crash):
        run.catch_up(observe=CrashAt(step))


@pytest.mark.usefixtures("_no_passes")
def test_files_of_a_dead_epoch_stay_until_a_later_driver_has_fenced(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    _die(run, Step.PREPARED)
    left = _staged_files(run)
    assert any(name.endswith(".parquet") for name in left)
    before = _gc(run, capsys)
    assert before["removed"] == []
    assert {place["reason"] for place in before["kept"]} == {
        "a record of term 1 may still name epoch 0"
    }
    assert _staged_files(run) == left
    run.catch_up()
    dry = _gc(run, capsys, "--dry-run")
    assert _staged_files(run) == left
    assert any("no record names it; slot 2 fences term 2" in p["reason"] for p in dry["removed"])
    done = _gc(run, capsys)
    assert done["removed"] == dry["removed"]
    assert done["size_bytes"] > 0
    assert _staged_files(run) == set()
    run.assert_verified()
    assert len(run.rows()) == 10


@pytest.mark.usefixtures("_no_passes")
def test_committed_files_that_are_not_published_are_kept_and_then_published(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    _die(run, Step.COMMITTED)
    done = _gc(run, capsys)
    (kept,) = done["kept"]
    assert "slot 2 names it" in kept["reason"]
    assert "not at their final names" in kept["reason"]
    run.catch_up()
    assert len(run.rows()) == 10
    run.assert_verified()


@pytest.mark.usefixtures("_no_passes")
def test_staged_name_left_between_link_and_unlink_goes(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    real = LocalStorage.publish

    def links_only(
        storage: LocalStorage, src: str, dst: str, *, size_bytes: int, crc32c: str
    ) -> None:
        if "/probe-" in src:
            real(storage, src, dst, size_bytes=size_bytes, crc32c=crc32c)
            return
        Path(dst).parent.mkdir(parents=True, exist_ok=True)
        Path(dst).hardlink_to(src)
        raise Crash(Step.COMMITTED)

    monkeypatch.setattr(LocalStorage, "publish", links_only)
    with pytest.raises(Crash):
        run.catch_up()
    monkeypatch.setattr(LocalStorage, "publish", real)
    assert _staged_files(run) != set()
    done = collect_route(_config(run), dry_run=False)
    assert any("are at their final names" in place.reason for place in done.removed)
    assert _staged_files(run) == set()
    run.catch_up()
    assert len(run.rows()) == 10
    run.assert_verified()


def test_running_driver_removes_what_the_dead_one_left(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    _die(run, Step.WRITTEN)
    left = _staged_files(run)
    assert left
    fenced = Pause(Step.RECOVERED)
    fenced.goes_on.set()
    with live(run, fenced) as running:
        running.wait_for(lambda: not left & _staged_files(run))
        running.stop()
    run.catch_up()
    assert len(run.rows()) == 10
    run.assert_verified()


@contextmanager
def _repeating(action: Callable[[], Collected]) -> Iterator[list[Collected]]:
    """The action runs again and again beside the block; its results."""
    done: list[Collected] = []
    ended, failed = threading.Event(), list[BaseException]()

    def go() -> None:
        try:
            while not ended.is_set():
                done.append(action())
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failed.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join(_TIMEOUT_S)
    assert not thread.is_alive()
    assert failed == []


def _has_more_than(run: RouteRun, commits: int) -> bool:
    return len(data_records(run)) > commits


def test_gc_in_a_loop_beside_a_live_driver_costs_no_row(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(2)
    writer.write(topic, _events(range(5)))
    run.catch_up()
    config = _config(run)
    written = 5
    with _repeating(lambda: collect_route(config, dry_run=False)) as passes, live(run) as running:
        while len(data_records(run)) < 12:
            commits = len(data_records(run))
            writer.write(topic, _events(range(written, written + 20)), partition=commits % 2)
            written += 20
            running.wait_for(partial(_has_more_than, run, commits))
        running.stop()
    run.catch_up()
    assert len(passes) > 10
    assert len(run.rows()) == written
    run.assert_verified()


@pytest.mark.usefixtures("_silent_leases")
@pytest.mark.parametrize("step", [Step.PLANNED, Step.WRITTEN, Step.PREPARED, Step.COMMITTED])
def test_gc_in_a_loop_beside_a_zombie_and_its_successor_costs_no_row(
    new_run: NewRun, writer: TopicWriter, step: Step
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    pause = Pause(step)
    config = _config(run)
    with live(run, pause) as zombie:
        assert pause.reached.wait(_TIMEOUT_S)
        with _repeating(lambda: collect_route(config, dry_run=False)) as passes:
            run.catch_up()
            seen = len(passes)
            wait_until(lambda: len(passes) > seen + 1)
            # What the zombie wrote and no record names is gone before it wakes up.
            writer.write(topic, _events(range(10, 15)))
            pause.goes_on.set()
            assert isinstance(zombie.error(), FencedError)
            run.catch_up()
            seen = len(passes)
            wait_until(lambda: len(passes) > seen + 1)
    assert len(run.rows()) == 15
    run.assert_verified()
    run.catch_up()
    collect_route(config, dry_run=False)
    assert not [name for name in _staged_files(run) if name.endswith(".parquet")]


def test_gc_on_a_table_that_was_never_filled_is_told_so(
    new_run: NewRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = new_run()
    assert run_command(["gc", str(run.job.path)]) == 5
    assert "does not exist" in capsys.readouterr().err


def test_gc_as_a_table_names_places_and_reasons(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(3)))
    run.catch_up()
    folder = _stage(run) / f"1-0-{'0' * 32}"
    folder.mkdir()
    (folder / "x").write_bytes(b"12345")
    (_stage(run) / "notes").mkdir()
    capsys.readouterr()
    assert run_command(["gc", str(run.job.path), "--route", run.job.spec.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"removed {folder} (1 file, 5 bytes): no record names it; slot ")
    assert lines[1] == f"kept {_stage(run) / 'notes'}: not a name that is made here"
    assert lines[-1].endswith("removed 1 place, 0.0 MiB; 1 kept")
