"""`sluiceway run` on Spark: signals, rivals, lost workers, and what readers see.

Two tables, each filled by a few drivers whose doings many tests look at; a Spark start is dear.
"""

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.lease import wait_until_free
from sluiceway.ledger.records import RecordType
from sluiceway.storage.local import LocalStorage
from tools.driver_process import (
    DriverProcess,
    Ended,
    kill_quietly,
)
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.table_proofs import assert_verified, read_independently, spark_sql
from tools.topic_writer import TopicWriter

# Longer than anybody waits here: an epoch that ends does so because it was told to.
LONG_EPOCH = "10m"
BATCH = 40
ORPHANS_GONE_S = 60.0

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
NASTY = [
    "../../x",
    "..",
    ".",
    "a/b",
    "a=b",
    "/etc/passwd",
    "%2e%2e%2fx",
    "100%",
    "q\"uo'te\\",
    "{a}[b]*?",
    "tab\tnew\nline",
    "Zürich 北京 📦",
    " leading",
    "A",
    "a",
    "_hidden",
    ".hidden",
    "NULL",
    None,
]
REFUSED = ["", "nul\0inside", DEFAULT_PARTITION, "x" * 300]


def _payload(number: int, city: str | None) -> bytes:
    body = {"id": number, "ts": 1_795_161_600_000 + number, "city": city, "amount": f"{number}.25"}
    return json.dumps(body, ensure_ascii=number % 2 == 0).encode()


@dataclass(slots=True)
class Story:
    """A table and what its drivers did."""

    job: JobFile
    folder: Path
    expectation: Path
    produced: int = 0
    ended: dict[str, Ended] = field(default_factory=dict)
    noted: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where stories play."""

    endpoints: LabEndpoints
    new_topic: TopicFactory
    folder: Path

    def story(self, name: str, *, partition_by: str, expected: dict[str, str]) -> Story:
        """A job of its own, with epochs that end by signal only."""
        folder = self.folder / name
        folder.mkdir()
        job = write_job(
            folder,
            bootstrap_servers=self.endpoints.bootstrap_servers,
            metastore_uri=self.endpoints.metastore_uri,
            topic=self.new_topic(2, prefix=name),
            interval=LONG_EPOCH,
            partition_by=partition_by,
            event_time="",
        )
        expectation = folder / "expectation.json"
        expectation.write_text(json.dumps({"required": ["id", "ts"], "partition_by": expected}))
        return Story(job, folder, expectation)

    def produce(self, story: Story, cities: list[str | None]) -> None:
        """One row a city."""
        writer = TopicWriter(self.endpoints.bootstrap_servers)
        for partition in (0, 1):
            rows = [
                _payload(story.produced + number, city)
                for number, city in enumerate(cities)
                if number % 2 == partition
            ]
            writer.write(story.job.route.topics[0], rows, partition=partition)
        story.produced += len(cities)


@pytest.fixture(scope="module")
def stage(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    return Stage(lab_endpoints, new_topic, tmp_path_factory.mktemp("run_on_spark"))


def _wait_for_staged(driver: DriverProcess, story: Story, *, folders: int = 1) -> None:
    """Wait until so many attempts of this driver have rows in files that are not committed."""
    stage = RouteRun(story.job).root() / "_sluiceway" / story.job.spec.name / "stage"
    term = driver.events("fenced")[0]["term"]

    def staged() -> bool:
        return len({path.parent for path in stage.glob(f"{term}-*/*.parquet*")}) >= folders

    driver.wait_until(staged, "staged files")


@pytest.fixture(scope="module")
def by_city(stage: Stage) -> Story:
    """A first driver, a rival while it reads, then SIGTERM: a table by a column's values."""
    story = stage.story(
        "by_city",
        partition_by="[{name: city, column: city}]",
        expected={"city": "column:city"},
    )
    stage.produce(story, [*NASTY, *REFUSED])
    with DriverProcess(story.job, story.folder) as driver:
        driver.wait_for_event("sources_pinned")
        with DriverProcess(story.job, story.folder) as rival:
            story.ended["rival"] = rival.wait()
        stage.produce(story, [*NASTY, *REFUSED])
        _wait_for_staged(driver, story)
        story.noted["commits while the rival was there"] = driver.events("committed")
        story.noted["local folders"] = [
            path.name for path in driver.temporary.glob("sluiceway-*/*")
        ]
        driver.send(signal.SIGTERM)
        story.ended["first"] = driver.wait()
        story.noted["stdout"] = driver.stdout()
        story.noted["events"] = driver.events()
        story.noted["orphans"] = driver.orphans_after(ORPHANS_GONE_S)
    story.noted["fences"] = _fences(story)
    # What no task had fetched yet when the signal came.
    RouteRun(story.job).catch_up()
    return story


@pytest.fixture(scope="module")
def unpartitioned(stage: Stage) -> Story:
    """SIGINT twice, then a lost worker and SIGKILL, then to the end: three drivers, one table."""
    story = stage.story("flat", partition_by="[]", expected={})
    cities: list[str | None] = ["Berlin"] * BATCH
    stage.produce(story, cities)
    with DriverProcess(story.job, story.folder) as driver:
        driver.wait_for_event("fenced")
        _wait_for_staged(driver, story)
        driver.send(signal.SIGINT)
        driver.wait_for_event("stopping")
        driver.send(signal.SIGINT)
        story.ended["interrupted"] = driver.wait()
        story.noted["first"] = driver.events()
        story.noted["orphans"] = driver.orphans_after(ORPHANS_GONE_S)
        driver.wipe()
    story.noted["pauses before second"] = _pauses_of_a_successor(story)
    story.noted["files after the interrupt"] = list(RouteRun(story.job).root().glob("*.parquet"))
    _shorten_epochs(story.job)
    with DriverProcess(story.job, story.folder) as driver:
        driver.wait_for_event("fenced")
        driver.wait_until(lambda: len(driver.workers()) == 2, "two workers")
        _wait_for_staged(driver, story, folders=2)
        kill_quietly(driver.workers()[0])
        stage.produce(story, cities)
        driver.wait_for_event("committed", 2)
        driver.kill_group()
        driver.wait()
        story.noted["second"] = driver.events()
    story.noted["pauses before third"] = _pauses_of_a_successor(story)
    stage.produce(story, cities)
    with DriverProcess(story.job, story.folder, "--until-caught-up", "--profile") as driver:
        story.ended["last"] = driver.wait()
        story.noted["third"] = driver.events()
    return story


@pytest.fixture(scope="module")
def by_spark(stage: Stage, by_city: Story, unpartitioned: Story) -> list[list[list[Any]]]:
    """What Spark SQL reads through the metastore: both tables, one session."""
    sums = "count(*), sum(id), cast(sum(amount) as string), count(DISTINCT _partition, _offset)"
    return spark_sql(
        stage.endpoints.metastore_uri,
        f"SELECT city, {sums} FROM {by_city.job.table} GROUP BY city",  # noqa: S608
        f"SELECT 'all', {sums} FROM {unpartitioned.job.table}",  # noqa: S608
    )


def _shorten_epochs(job: JobFile) -> None:
    job.path.write_text(job.path.read_text().replace(f"interval: {LONG_EPOCH}", "interval: 4s"))


def _pauses_of_a_successor(story: Story) -> list[float]:
    """Pauses that a driver which starts now takes to watch the lease of the one before."""
    name = story.job.spec.name
    lease = RouteRun(story.job).root() / "_sluiceway" / name / "lease.json"
    assert json.loads(lease.read_bytes())["released"] is False
    pauses: list[float] = []
    wait_until_free(LocalStorage(), str(lease), sleep=pauses.append)
    return pauses


def _by_duckdb(folder: str) -> list[Any]:
    """The same sums over the files of one folder."""
    files = [str(path) for path in Path(folder).glob("*.parquet")]
    (found,) = duckdb.execute(
        "SELECT count(*), sum(id), sum(amount)::VARCHAR, count(DISTINCT (_partition, _offset)) "
        "FROM read_parquet(?, hive_partitioning=false)",
        [files],
    ).fetchall()
    return [int(found[0]), int(found[1]), found[2], int(found[3])]


def _fences(story: Story) -> int:
    return sum(record.type is RecordType.FENCE for record in RouteRun(story.job).records())


def test_rival_on_a_route_that_is_driven_is_refused(by_city: Story) -> None:
    rival = by_city.ended["rival"]
    assert rival.exit_code == 7
    errors = rival.error_lines()
    assert errors[0].startswith("error[SW452]"), errors
    assert errors[1].startswith("hint:")
    assert [line.partition("$")[0] for line in errors[2:]] == ["  ", "  "]
    assert "--takeover " in errors[-1]
    assert errors[-1].endswith("=1")
    assert by_city.noted["commits while the rival was there"] == []
    assert by_city.noted["fences"] == 1


def test_sigterm_ends_a_long_epoch_and_commits_what_was_read(by_city: Story, stage: Stage) -> None:
    first = by_city.ended["first"]
    assert first.exit_code == 0
    commits = [line for line in by_city.noted["events"] if line["event"] == "committed"]
    assert len(commits) == 1
    assert 0 < commits[0]["read"] <= by_city.produced
    found = read_independently(stage.endpoints, by_city.job, expectation=by_city.expectation)
    assert found["read"] == by_city.produced
    assert found["dirty"] == 2 * len(REFUSED)
    assert_verified(by_city.job)


def test_run_writes_nothing_but_log_lines_and_leaves_no_process(by_city: Story) -> None:
    assert by_city.ended["first"].error_lines() == []
    assert by_city.noted["stdout"] == ""
    assert by_city.noted["orphans"] == {}
    events = [line["event"] for line in by_city.noted["events"]]
    # Some of the refused rows are shown behind the commit that keeps them.
    shown = events.count("dirty_row")
    assert 0 < shown <= 2 * len(REFUSED)
    begun = ["spark_starting", "spark_started", "fenced", "sources_pinned"]
    told = [*begun, "stopping", "committed", "rows_dirty"]
    assert events == [*told, *["dirty_row"] * shown]


def test_run_keeps_its_local_state_in_the_temporary_folder(by_city: Story) -> None:
    kinds = {name.partition("-")[0] for name in by_city.noted["local folders"]}
    assert {"blockmgr", "spark"} <= kinds


@pytest.mark.slow
def test_sigint_twice_ends_at_once_and_the_next_start_loses_nothing(
    unpartitioned: Story, stage: Stage
) -> None:
    interrupted = unpartitioned.ended["interrupted"]
    assert interrupted.exit_code == 130
    told = [line["event"] for line in unpartitioned.noted["first"]]
    assert told.index("stopping") < told.index("stopped_at_once")
    assert "committed" not in told
    assert interrupted.error_lines() == []
    assert unpartitioned.noted["orphans"] == {}
    assert unpartitioned.noted["files after the interrupt"] == []
    found = read_independently(
        stage.endpoints, unpartitioned.job, expectation=unpartitioned.expectation
    )
    assert found["read"] == found["written"] == unpartitioned.produced == 3 * BATCH
    assert_verified(unpartitioned.job)


@pytest.mark.slow
def test_sigint_once_after_a_commit_ends_the_epoch_and_exits_with_0(stage: Stage) -> None:
    story = stage.story("interrupted_once", partition_by="[]", expected={})
    _shorten_epochs(story.job)
    cities: list[str | None] = ["Berlin"] * BATCH
    stage.produce(story, cities)
    with DriverProcess(story.job, story.folder) as driver:
        driver.wait_for_event("committed")
        stage.produce(story, cities)
        # After Spark's own start, which takes SIGINT for itself, and in the midst of an epoch.
        _wait_for_staged(driver, story)
        driver.send(signal.SIGINT)
        ended = driver.wait()
        assert ended.exit_code == 0
        assert ended.error_lines() == []
        assert len(driver.events("stopping")) == 1
        assert driver.events("stopped_at_once") == []
        assert driver.orphans_after(ORPHANS_GONE_S) == {}
        assert list(driver.temporary.glob("sluiceway-spark-*.log")) == []
    # What no task had fetched yet when the signal came.
    RouteRun(story.job).catch_up()
    found = read_independently(stage.endpoints, story.job, expectation=story.expectation)
    assert found["read"] == found["written"] == story.produced == 2 * BATCH
    assert_verified(story.job)


@pytest.mark.slow
def test_killed_worker_costs_its_task_only(unpartitioned: Story) -> None:
    first, second, *_ = _named(unpartitioned.noted["second"], "committed")
    assert 0 < first["read"] <= BATCH
    assert first["read"] + second["read"] == 2 * BATCH


@pytest.mark.slow
def test_profile_tells_stages_and_processes(unpartitioned: Story) -> None:
    (told,) = [line for line in unpartitioned.noted["third"] if line["event"] == "profile"]
    committed = [line for line in unpartitioned.noted["third"] if line["event"] == "committed"]
    assert told["rows"] == sum(int(line["read"]) for line in committed) > 0
    assert told["epochs"] == len(committed)
    assert told["cpu_s"].keys() == {"driver", "jvm", "workers"}
    assert min(told["cpu_s"].values()) > 0
    for stage in ("fetch", "decode", "convert", "route", "write", "close"):
        spent = sum(line["timings_ms"].get(stage, 0) for line in committed)
        assert told["stages_ms"][stage] == spent


@pytest.mark.slow
@pytest.mark.parametrize("name", ["second", "third"])
def test_successor_of_a_killed_driver_does_not_wait(unpartitioned: Story, name: str) -> None:
    assert unpartitioned.noted[f"pauses before {name}"] == []
    assert len(_named(unpartitioned.noted[name], "fenced")) == 1
    assert unpartitioned.ended["last"].exit_code == 0


@pytest.mark.slow
def test_spark_sql_reads_the_same_partitions_as_duckdb(
    by_spark: list[list[list[Any]]], by_city: Story
) -> None:
    through_spark = {row[0]: row[1:] for row in by_spark[0]}
    folders = RouteRun(by_city.job).partitions()
    named = {None if name == DEFAULT_PARTITION else name: path for name, path in folders.items()}
    assert set(named) == set(NASTY)
    assert through_spark == {name: _by_duckdb(path) for name, path in named.items()}


@pytest.mark.slow
def test_spark_sql_reads_the_same_flat_table_as_duckdb(
    by_spark: list[list[list[Any]]], unpartitioned: Story
) -> None:
    root = RouteRun(unpartitioned.job).root()
    assert by_spark[1] == [["all", *_by_duckdb(str(root))]]


def test_partition_values_never_leave_the_table_folder(by_city: Story) -> None:
    root = RouteRun(by_city.job).root()
    folders = RouteRun(by_city.job).partitions().values()
    assert {Path(path).parent for path in folders} == {root}
    assert {path.name for path in root.parent.iterdir() if "city" in path.name} == {root.name}


def _named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in events if line["event"] == name]
