"""Tables without a metastore on S3 and on HDFS: the catalog is a folder of the store itself."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable, NewPartition
from sluiceway.lab.lab import LabEndpoints
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.storage.access import Stores
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.stores_under_test import StoreUnderTest
from tools.table_proofs import assert_verified
from tools.topic_writer import TopicWriter

Driver = Callable[..., DriverProcess]


@pytest.fixture
def job(
    store: StoreUnderTest, lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> JobFile:
    made = write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri="thrift://none:1",
        topic=new_topic(1, prefix="in_folder"),
        interval="1s",
        connections=store.connection(),
    )
    text = made.path.read_text()
    asked = '{metastore: {uri: "thrift://none:1"}}'
    assert asked in text
    made.path.write_text(text.replace(asked, f'{{folder: {{path: "{_home(store, tmp_path)}"}}}}'))
    return made


@pytest.fixture
def driver(
    store: StoreUnderTest, job: JobFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Driver:
    """A driver of the job; without Spark its tasks are threads."""
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)

    def new(*options: str, spark: bool = False) -> DriverProcess:
        module = "sluiceway" if spark else "tools.inline_driver"
        environment = store.environment()
        return DriverProcess(job, tmp_path, *options, module=module, environment=environment)

    return new


def _home(store: StoreUnderTest, folder: Path) -> str:
    return f"{store.root}/folders/{folder.name}"


def _tool(store: StoreUnderTest, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", *command],
        env={**os.environ, **store.environment()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _offsets(store: StoreUnderTest, job: JobFile, folder: Path) -> list[int]:
    """Of all rows in the files that readers are told of."""
    told = json.loads(_tool(store, "files", str(job.path), "-o", "json"))["files"]
    database, _, table = job.table.partition(".")
    location = f"{_home(store, folder)}/{database}.db/{table}"
    copy = store.local_copy(location, folder / f"copy-{len(list(folder.iterdir()))}")
    found: list[int] = []
    for each in told:
        path = copy / each["path"].removeprefix(f"{location}/")
        found += pq.read_table(path, columns=["_offset"])["_offset"].to_pylist()
    return sorted(found)


def test_every_row_is_there_once_though_drivers_die_and_one_wakes_up_again(
    store: StoreUnderTest,
    job: JobFile,
    driver: Driver,
    lab_endpoints: LabEndpoints,
    tmp_path: Path,
) -> None:
    writer, topic = TopicWriter(lab_endpoints.bootstrap_servers), job.route.topics[0]
    writer.write(topic, [event(n) for n in range(100)])
    with driver(spark=True) as first:
        first.wait_for_event("committed")
        writer.write(topic, [event(n) for n in range(100, 200)])
        first.kill_group()
        first.wait()
        assert first.orphans_after(60.0) == {}
    with driver() as zombie:
        zombie.wait_for_event("committed")
        zombie.send(signal.SIGSTOP)
        writer.write(topic, [event(n) for n in range(200, 300)])
        with driver("--until-caught-up", "--takeover", "2") as next_one:
            ended = next_one.wait()
            assert ended.exit_code == 0, ended.stderr
        zombie.send(signal.SIGCONT)
        ended = zombie.wait()
    assert (ended.exit_code, "SW451" in ended.stderr) == (7, True), ended.stderr
    assert _offsets(store, job, tmp_path) == list(range(300))
    assert_verified(job, environment=store.environment())


def test_hour_is_merged_and_its_rows_stay(
    store: StoreUnderTest,
    job: JobFile,
    driver: Driver,
    lab_endpoints: LabEndpoints,
    tmp_path: Path,
) -> None:
    writer, topic = TopicWriter(lab_endpoints.bootstrap_servers), job.route.topics[0]
    for start in range(0, 40, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)])
        with driver("--until-caught-up") as one:
            ended = one.wait()
            assert ended.exit_code == 0, ended.stderr
    _tool(store, "compact", str(job.path), "dt=20261120")
    told = json.loads(_tool(store, "files", str(job.path), "-o", "json"))["files"]
    assert len(told) == 1
    assert _offsets(store, job, tmp_path) == list(range(40))
    assert_verified(job, environment=store.environment())


def test_changes_by_several_at_once_all_hold(store: StoreUnderTest, tmp_path: Path) -> None:
    place, stores = _home(store, tmp_path), Stores((store.access(),))
    catalog = FolderCatalog(place, stores)
    layout = HiveLayout("", "s", "i", "o", (HiveColumn("id", "bigint"),))
    wanted = MetastoreTable(
        "ods", "orders", "EXTERNAL_TABLE", layout, (HiveColumn("dt", "string"),), {}
    )
    catalog.create_table(wanted)

    def work(name: str) -> None:
        own = FolderCatalog(place, stores)
        for number in range(8):
            own.alter_table_parameters("ods", "orders", put={f"{name}-{number}": "x"})
            own.add_partitions("ods", "orders", [NewPartition((f"{name}{number}",), f"/{name}")])

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = catalog.get_table("ods", "orders")
    assert found is not None
    assert found.parameters.keys() == {f"{name}-{n}" for name in "abc" for n in range(8)}
    names = catalog.list_partition_names("ods", "orders")
    assert sorted(names) == sorted(f"dt={name}{n}" for name in "abc" for n in range(8))
