"""`sluiceway verify --deep` finds what was done to a table behind its back."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.audit.run_verify import verify_route
from sluiceway.types.strict_json import encode
from tools.job_files import event, write_job
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


@pytest.fixture(scope="module")
def filled_once(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> RouteRun:
    topic = new_topic(2)
    job = write_job(
        tmp_path_factory.mktemp("job"),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
    )
    run = RouteRun(job)
    writer = TopicWriter(bootstrap_servers)
    for first in (0, 20):
        for partition in (0, 1):
            rows = [event(n) for n in range(first, first + 20)]
            writer.write(topic, [*rows, b"broken"], partition=partition)
        run.catch_up()
    return run


@pytest.fixture
def filled(filled_once: RouteRun, tmp_path: Path) -> Iterator[RouteRun]:
    """The filled table; whatever a test does to its folder is undone."""
    root = filled_once.root()
    kept = tmp_path / "kept"
    shutil.copytree(root, kept)
    filled_once.assert_verified()
    yield filled_once
    shutil.rmtree(root)
    shutil.copytree(kept, root)


def data_files(run: RouteRun) -> list[Path]:
    return sorted(run.root().glob("dt=*/**/*.parquet"))


def records(run: RouteRun) -> list[Path]:
    return sorted(run.root().glob("_sluiceway/*/log/*/*.json"))


def edit_record(path: Path, **body: object) -> None:
    record = json.loads(path.read_bytes())
    record["body"].update(body)
    path.write_bytes(encode(record) + b"\n")


def test_verify_compares_offsets_when_size_and_checksum_agree(filled: RouteRun) -> None:
    """A last record that claims another file's content is told by the offsets alone."""
    last = records(filled)[-1]
    body = json.loads(last.read_bytes())["body"]
    body["ranges"][0]["offset_sum"] = "0" * 31 + "1"
    edit_record(last, ranges=body["ranges"])
    report = verify_route(filled.job.route, deep=True)
    assert {problem.kind for problem in report.problems} == {"offsets"}
    assert verify_route(filled.job.route, deep=False).verified


def test_verify_lists_foreign_files_and_does_not_judge_them(filled: RouteRun) -> None:
    foreign = data_files(filled)[0].parent / "somebody-elses.parquet"
    foreign.write_bytes(b"anything")
    report = verify_route(filled.job.route, deep=True)
    assert report.verified
    assert report.foreign == [str(foreign)]


def test_verify_finds_a_partition_that_left_the_metastore(
    filled: RouteRun, metastore_uri: str
) -> None:
    database, _, table = filled.job.table.partition(".")
    values = sorted(filled.partitions())[0].split("/")
    with raw_client(metastore_uri) as client:
        client.drop_partition(database, table, values, deleteData=False)
    report = verify_route(filled.job.route, deep=False)
    assert {problem.kind for problem in report.problems} == {"partition"}
