"""Hours of a table on S3 and on HDFS, computed by Spark while their drivers are killed."""

import signal
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import RecordType
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.driver_process import DriverProcess
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.stores_under_test import StoreUnderTest
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter
from tools.unit_jobs import TIMES, computed_hours, fill_hour


def test_hour_on_a_store_is_computed_again_though_drivers_die_before_and_after_its_swap(
    store: StoreUnderTest,
    lab: Lab,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    metastore, topic = lab_endpoints.metastore_uri, new_topic(1, prefix="units")
    writer = TopicWriter(lab_endpoints.bootstrap_servers)
    place = f'storage: lake, location: "{store.root}/warehouse/{topic}'
    raw = RouteRun(
        write_job(
            tmp_path,
            bootstrap_servers=lab_endpoints.bootstrap_servers,
            metastore_uri=metastore,
            topic=topic,
            event_time=TIMES,
            ready="{visible: on_commit}",
            connections=store.connection(),
            hive=f', {place}"',
        )
    )
    fill_hour(raw, writer, topic, range(10))
    fill_hour(raw, writer, topic, range(10, 20), hour=1)
    hours = computed_hours(
        raw,
        tmp_path,
        metastore,
        connections=store.connection(),
        hive=f', {place}_hourly"',
        more=f", {store.spark_conf(lab, monkeypatch.setenv)}",
    )

    def ends_with(*, killed_at: str = "") -> int:
        if killed_at:
            (tmp_path / killed_at).mkdir()
            spec = FailpointSpec(killed_at, Action.KILL, str(tmp_path / killed_at))
            monkeypatch.setenv(VARIABLE, spec.text())
        with DriverProcess(hours.job, tmp_path, "--until-caught-up") as driver:
            ended = driver.wait()
        monkeypatch.delenv(VARIABLE, raising=False)
        return ended.exit_code

    assert ends_with(killed_at="swap.written") == -signal.SIGKILL
    kinds = [each.type for each in hours.records()]
    assert (kinds.count(RecordType.INTENT), kinds.count(RecordType.SWAP)) == (1, 0)
    assert ends_with(killed_at="publish.file") == -signal.SIGKILL
    assert ends_with() == 0
    assert run_command(["gc", str(hours.job.path)]) == 0

    (found,) = spark_sql(
        metastore,
        f"SELECT city, n, newest, hr FROM {hours.job.table} ORDER BY city",  # noqa: S608
        settings=store.spark_settings(lab),
    )
    assert found == [["Berlin", 5, 8, "08"], ["Paris", 5, 9, "08"]]
    (swap,) = [each.body for each in hours.records() if isinstance(each.body, SwapRecord)]
    assert (int(swap.counts.read), int(swap.counts.written)) == (10, 2)
    log = hours.log()
    # The driver keeps some room of the store there, and nothing else.
    assert {Path(each.path).name for each in log.storage.list(log.layout.stage)} <= {"reserve"}
    hours.assert_verified()
