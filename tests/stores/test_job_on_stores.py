"""Whole jobs whose tables lie on S3 and on HDFS: kills, merged files, replayed rows, readers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from sluiceway.audit.open_table import OpenTable, open_table
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.driver_process import DriverProcess
from tools.independent_reader import Report, TableView, broker_records, check, table_view
from tools.job_files import COLUMNS, JobFile, event, put_sql, write_job
from tools.lab_fixture import TopicFactory
from tools.row_oracle import Expectation
from tools.stores_under_test import StoreUnderTest
from tools.table_proofs import assert_verified, spark_sql
from tools.topic_writer import TopicWriter

START_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")


@dataclass(slots=True)
class Story:
    """A job with a table on a store."""

    store: StoreUnderTest
    endpoints: LabEndpoints
    job: JobFile
    folder: Path
    location: str
    produced: int = 0

    def produce(self, count: int) -> None:
        """Rows of two hours; each hundredth is broken."""
        writer = TopicWriter(self.endpoints.bootstrap_servers)
        rows = [
            event(n, ts_ms=START_MS + n % 2 * HOUR_MS, city=None if n % 50 == 7 else "Bonn")
            if n % 100
            else b"{%d" % n
            for n in range(self.produced, self.produced + count)
        ]
        for partition in (0, 1):
            writer.write(self.job.route.topics[0], rows[partition::2], partition=partition)
        self.produced += count

    def driver(self, *options: str, spark: bool = False) -> DriverProcess:
        """A driver of it; without Spark its tasks are threads."""
        module = "sluiceway" if spark else "tools.inline_driver"
        environment = self.store.environment()
        return DriverProcess(
            self.job, self.folder, *options, module=module, environment=environment
        )

    def catch_up(self, *, spark: bool = False) -> None:
        with self.driver("--until-caught-up", spark=spark) as driver:
            ended = driver.wait()
        assert ended.exit_code == 0, ended.stderr

    def tool(self, *command: str) -> str:
        """A command of the product; it has to succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "sluiceway", *command],
            env={**os.environ, **self.store.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def view(self) -> TableView:
        """The table as the metastore shows it, and its very files."""
        copy = self.store.local_copy(self.location, self.folder / f"copy-{time.monotonic_ns()}")
        database, _, table = self.job.table.partition(".")
        return table_view(
            self.endpoints.metastore_uri, database=database, table=table, at=(self.location, copy)
        )

    def judged(self, *, required: str = "id,ts") -> Report:
        """The independent reader's verdict."""
        expectation = Expectation(required=frozenset(required.split(",")), tombstones="skip")
        records = broker_records(self.endpoints.bootstrap_servers, self.job.route.topics)
        report = check(records, self.view(), expectation)
        assert report.ok, report
        assert report.read == self.produced
        return report

    @contextmanager
    def table(self) -> Iterator[OpenTable]:
        found = open_table(self.job.route)
        try:
            yield found
        finally:
            found.close()


@pytest.fixture
def story(
    store: StoreUnderTest,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Story:
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    topic = new_topic(2, prefix="on_store")
    location = f"{store.root}/warehouse/{topic}"
    return Story(
        store, lab_endpoints, _job(store, lab_endpoints, topic, tmp_path), tmp_path, location
    )


def _job(
    store: StoreUnderTest,
    endpoints: LabEndpoints,
    topic: str,
    folder: Path,
    columns: str = COLUMNS,
) -> JobFile:
    return write_job(
        folder,
        bootstrap_servers=endpoints.bootstrap_servers,
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        interval="1s",
        columns=columns,
        connections=store.connection(),
        hive=f', storage: lake, location: "{store.root}/warehouse/{topic}"',
    )


def test_job_killed_on_a_store_has_every_row_once(story: Story, lab: Lab) -> None:
    story.produce(400)
    with story.driver(spark=True) as driver:
        driver.wait_for_event("committed")
        story.produce(400)
        time.sleep(0.7)
        driver.kill_group()
        driver.wait()
        assert driver.orphans_after(60.0) == {}
        driver.wipe()
    with story.driver(spark=True) as driver:
        driver.wait_for_event("committed")
        story.produce(400)
        driver.send(signal.SIGKILL)
        driver.wait()
        assert driver.orphans_after(60.0) == {}
    story.catch_up(spark=True)
    assert_verified(story.job, environment=story.store.environment())
    report = story.judged()
    assert report.read == report.written + report.dirty
    assert report.dirty == 12
    ((count,),) = spark_sql(
        story.endpoints.metastore_uri,
        f"select count(*) from {story.job.table}",  # noqa: S608 - the table's own name
        settings=story.store.spark_settings(lab),
    )[0]
    assert count == report.written


def test_many_files_of_a_store_are_merged_and_what_is_left_over_goes(story: Story) -> None:
    for _ in range(3):
        story.produce(200)
        story.catch_up()
    assert len(story.view().files) == 6
    story.tool("compact", str(story.job.path), "dt=20261120")
    assert len(story.view().files) == 2
    story.produce(200)
    story.catch_up()
    assert_verified(story.job, environment=story.store.environment())
    report = story.judged()
    assert report.read == report.written + report.dirty
    with story.table() as table:
        left = f"{table.layout.stage}/1-999999-{uuid4().hex}"
        table.storage.make_folders(left)
    story.tool("gc", str(story.job.path))
    with story.table() as table:
        assert table.storage.status(left) is None
    story.judged()


def test_dirty_rows_on_a_store_are_replayed_once(story: Story) -> None:
    topic = story.job.route.topics[0]
    whole = story.job
    story.job = _job(story.store, story.endpoints, topic, story.folder, STRICT)
    story.produce(300)
    story.catch_up()
    strict = story.judged(required="id,ts,city")
    story.job = _job(story.store, story.endpoints, topic, story.folder)
    assert story.job.path == whole.path
    story.tool("dirty", "replay", str(story.job.path), "--field", "city")
    story.catch_up()
    report = story.judged()
    assert (strict.dirty, report.dirty) == (9, 3)
    assert_verified(story.job, environment=story.store.environment())


def test_rows_landed_on_a_store_run_through_sql_once_though_the_driver_dies(
    story: Story, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_sql(story.job, more=f"{story.store.spark_conf(lab, monkeypatch.setenv)}, ")
    for point in ("step.written", "step.prepared"):
        story.produce(200)
        (tmp_path / point).mkdir()
        spec = FailpointSpec(point, Action.KILL, str(tmp_path / point))
        monkeypatch.setenv(VARIABLE, spec.text())
        with story.driver("--until-caught-up", spark=True) as driver:
            assert driver.wait().exit_code == -signal.SIGKILL
        assert (tmp_path / point / "hit").exists()
    monkeypatch.delenv(VARIABLE)
    story.produce(200)
    story.catch_up(spark=True)
    assert_verified(story.job, environment=story.store.environment())
    report = story.judged()
    assert (report.read, report.written, report.dirty) == (600, 594, 6)
