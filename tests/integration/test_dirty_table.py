"""Dirty rows in a Hive table: each once, whole, by day, behind the commits, whoever feeds it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pytest

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows, matching
from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.verify import VerifyProblem, VerifyReport
from sluiceway.cli.app import run_command
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.observe.log import stderr_log
from sluiceway.route.dirty_stores import dirty_table_of
from sluiceway.upkeep import dirty_retention
from sluiceway.upkeep.dirty_retention import DirtyRetention, ObservedLanes
from tools.driver_process import DriverProcess
from tools.job_files import event, write_job
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.shown_partitions import shown_partitions
from tools.topic_writer import TopicWriter

ROWS = '"topic", "partition", "offset", timestamp_ms, key, value, headers, reason'
KEY = 'partition, "offset"'

STEPS = {
    "table-made": ("metastore.create_table.reply", "*_dirty"),
    "copying": ("storage.staged.create.reply", "*/_sluiceway_dirty/*"),
    "copied": ("storage.staged.rename.reply", "*/_sluiceway_dirty/*"),
    "day-not-shown": ("metastore.add_partitions.request", "*_dirty"),
    "published": ("storage.publish.fsync_folder.reply", "*/day=*"),
    "place-not-kept": ("storage.overwrite.rename.request", "*/place.json"),
}
"""Of feeding a file, in an order in which each is met."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A route with a table of dirty rows, and what readers see in that."""

    run: RouteRun
    topic: str
    table: str

    def folders(self) -> dict[str, Path]:
        """Days that readers see, and where they lie."""
        shown = shown_partitions(self.run.config().table.metastore, self.table)
        return {values[0]: Path(unquote(urlsplit(at).path)) for values, at in shown.items()}

    def rows(self, columns: str = KEY) -> list[tuple[object, ...]]:
        files = [str(file) for folder in self.folders().values() for file in folder.glob("*")]
        if not files:
            return []
        query = f"SELECT {columns} FROM read_parquet(?) ORDER BY ALL"  # noqa: S608
        return list(duckdb.execute(query, [files]).fetchall())

    def is_fed(self, columns: str = KEY) -> bool:
        """Whether readers see each dirty row once."""
        return self.rows(columns) == self.run.dirty(columns)

    def keeper(self, keep_ms: int | None = None) -> DirtyRetention:
        """As a driver has it that has fed all."""
        log, fold = self.run.log(), self.fold()
        assert fold.first_fence is not None
        table = dirty_table_of(self.run.config(), log.storage, fold.first_fence.ledger)
        return DirtyRetention(
            log,
            keep_ms,
            stderr_log(level="info"),
            table=table,
            fed_through=lambda: fold.published_through,
        )

    def fold(self) -> Fold:
        return self.run.log().fold()

    def tend(self, keeper: DirtyRetention) -> None:
        keeper.run_pass(ObservedLanes.of(self.fold()), lambda: False)


@pytest.fixture
def new_fed(new_run: NewRun, new_topic: TopicFactory) -> Callable[..., Fed]:
    def make(more: str = "") -> Fed:
        topic = new_topic(1)
        table = f"ods.{topic.replace('-', '_')}_dirty"
        run, _ = new_run(topic=topic, dirty=f"{{store: {{table: {table}}}{more}}}")
        return Fed(run, topic, table)

    return make


def _payloads(first: int, last: int) -> list[bytes]:
    """Each third one is dirty."""
    return [b"{" if n % 3 == 0 else event(n) for n in range(first, last)]


def _problems(run: RouteRun) -> list[VerifyProblem]:
    return verify_route(run.config(), deep=True).problems


def test_each_dirty_row_comes_once_whoever_is_killed_at_whichever_step(
    new_fed: Callable[..., Fed], writer: TopicWriter, tmp_path: Path
) -> None:
    fed = new_fed()
    at = 0
    for name, (point, place) in STEPS.items():
        writer.write(fed.topic, _payloads(at, at + 6))
        at += 6
        points = tmp_path / name
        points.mkdir()
        spec = FailpointSpec(point, Action.KILL, str(points), place=place)
        environment = {VARIABLE: spec.text()}
        with DriverProcess(
            fed.run.job, tmp_path, module="tools.inline_driver", environment=environment
        ) as driver:
            assert driver.wait().exit_code == -9, name
        assert (points / "hit").exists(), name
        seen = fed.rows()
        assert len(seen) == len(set(seen)), name
    writer.write_record(fed.topic, b"\xff", key=b"k", headers=[("a", b"1"), ("a", None)])
    with live(fed.run) as running:
        running.wait_for(lambda: len(fed.run.dirty()) == at // 3 + 1 and fed.is_fed(ROWS))
        running.stop()
    (folder,) = fed.folders().values()
    (own,) = (folder.parent / "_sluiceway_dirty").iterdir()
    assert list((own / "stage").iterdir()) == []
    fed.run.assert_verified()


def test_lost_place_and_a_copy_that_is_there_change_nothing(
    new_fed: Callable[..., Fed], writer: TopicWriter
) -> None:
    fed = new_fed()
    writer.write(fed.topic, _payloads(0, 9))
    with live(fed.run) as running:
        running.wait_for(lambda: len(fed.rows()) == 3)
        running.stop()
    (folder,) = fed.folders().values()
    copies = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    (place,) = (folder.parent / "_sluiceway_dirty").glob("*/place.json")
    place.unlink()
    with live(fed.run) as running:
        running.wait_for(place.exists)
        running.stop()
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == copies
    fed.run.assert_verified()
    # What verify says of copies that are not as they have to be.
    copy, *_ = copies
    content = copy.read_bytes()
    copy.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [each.kind for each in _problems(fed.run)] == ["file_changed"]
    copy.unlink()
    assert [each.kind for each in _problems(fed.run)] == ["file_missing"]


def test_table_that_cannot_be_one_stops_no_commit_and_several_routes_share_a_right_one(
    new_fed: Callable[..., Fed],
    writer: TopicWriter,
    new_topic: TopicFactory,
    bootstrap_servers: str,
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    fed = new_fed()
    writer.write(fed.topic, _payloads(0, 6))
    with live(fed.run) as running:
        running.wait_for(lambda: len(fed.rows()) == 2)
        running.stop()

    def other(table: str) -> RouteRun:
        topic = new_topic(1)
        job = write_job(
            tmp_path,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            dirty=f"{{store: {{table: {table}}}}}",
        )
        writer.write(topic, _payloads(0, 9))
        return RouteRun(job)

    hive = fed.run.config().table
    refused = other(f"{hive.database}.{hive.table}")
    refused.catch_up()
    assert (len(refused.rows()), len(refused.dirty())) == (6, 3)
    noted: VerifyReport = verify_route(refused.config(), deep=True)
    assert noted.problems == []
    assert any("no table for dirty rows" in each for each in noted.unchecked)
    sharing = other(fed.table)
    with live(sharing) as running:
        running.wait_for(lambda: len(fed.rows()) == 2 + 3)
        running.stop()
    fed.run.assert_verified()
    sharing.assert_verified()


def test_files_of_purged_rows_leave_the_disk_and_the_table_and_nothing_misses_them(
    new_fed: Callable[..., Fed],
    writer: TopicWriter,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fed = new_fed()
    for at in (0, 9, 18):
        writer.write(fed.topic, _payloads(at, at + 9))
        fed.run.catch_up()
    with live(fed.run) as running:
        running.wait_for(lambda: len(fed.rows()) == 9)
        running.stop()
    files = sorted(fed.run.root().glob("_sluiceway/*/dirty/*"))
    assert len(files) == 3
    job = str(fed.run.job.path)
    slots = sorted(DirtyRows.read(fed.run.log()).files.values(), key=lambda each: each.source.seq)
    middle = f"{slots[1].source.seq}-{slots[1].source.seq}"
    assert run_command(["dirty", "purge", job, "--slots", middle, "--yes"]) == 0
    keeper = fed.keeper()
    fed.tend(keeper)
    fed.tend(keeper)
    assert len(list(files[0].parent.iterdir())) == 3, "readers have a while"
    monkeypatch.setattr(dirty_retention, "READERS_GRACE_S", 0.0)
    fed.tend(keeper)
    purged = fed.run.root() / slots[1].record.final
    assert sorted(files[0].parent.iterdir()) == [each for each in files if each != purged]
    assert fed.is_fed(ROWS)
    assert len(fed.rows()) == 6
    report = fed.run.verified()
    assert (report.let_go, report.dirty_rows, report.purged) == (1, 9, 3)
    found = list(matching(DirtyRows.read(fed.run.log()), DirtyFilter()))
    assert sum(len(each.numbers) for each in found) == 6
    # A file of rows that nobody has given up is missed.
    files[0].unlink()
    assert "file_missing" in [each.kind for each in _problems(fed.run)]
    assert "dirty_file_removed" in capsys.readouterr().err


def test_rows_that_are_too_old_are_purged_by_the_driver_and_leave_the_disk(
    new_fed: Callable[..., Fed], writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dirty_retention, "READERS_GRACE_S", 0.0)
    fed = new_fed(", retention: 1h")
    writer.write(fed.topic, _payloads(0, 9))
    with live(fed.run) as running:
        running.wait_for(lambda: len(fed.rows()) == 3)
        running.stop()
    assert fed.run.config().dirty_keep_ms == 3_600_000
    fed.tend(fed.keeper(keep_ms=3_600_000))
    # A record behind the dirty ones says that their files are published.
    writer.write(fed.topic, [event(9)])
    fed.run.catch_up()
    assert fed.fold().lanes.lanes == {}
    assert len(fed.run.dirty()) == 3
    keeper = fed.keeper(keep_ms=0)
    fed.tend(keeper)
    fed.tend(keeper)
    with live(fed.run) as running:
        running.wait_for(lambda: fed.fold().lanes.counts.purged == 3)
        running.stop()
    fed.tend(keeper)
    assert fed.run.dirty() == fed.rows() == []
    assert len(fed.fold().lanes.lanes) == 1
    report = fed.run.verified()
    assert (report.let_go, report.purged) == (1, 3)
