"""`sluiceway verify --deep` finds what was done to a table behind its back."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit.run_verify import verify_job
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


def dirty_files(run: RouteRun) -> list[Path]:
    return sorted(run.root().glob("_sluiceway/*/dirty/*.parquet"))


def records(run: RouteRun) -> list[Path]:
    return sorted(run.root().glob("_sluiceway/*/log/*/*.json"))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pq.read_table(path, partitioning=None))
    pq.write_table(table, path, compression="zstd", use_deprecated_int96_timestamps=True)


def edit_record(path: Path, **body: object) -> None:
    record = json.loads(path.read_bytes())
    record["body"].update(body)
    path.write_bytes(encode(record) + b"\n")


def shift_offsets(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("_offset")
    moved = pa.array([value + 1 for value in table.column(place).to_pylist()], pa.int64())
    return table.set_column(place, "_offset", moved)


CORRUPTIONS: dict[str, tuple[str, Callable[[RouteRun], object]]] = {
    "data file removed": ("file_missing", lambda r: data_files(r)[0].unlink()),
    "dirty file removed": ("file_missing", lambda r: dirty_files(r)[0].unlink()),
    "data file truncated": (
        "file_changed",
        lambda r: data_files(r)[0].write_bytes(data_files(r)[0].read_bytes()[:-20]),
    ),
    "data file emptied": ("file_changed", lambda r: data_files(r)[0].write_bytes(b"")),
    "one byte flipped": (
        "file_changed",
        lambda r: _flip(data_files(r)[0]),
    ),
    "row dropped": ("file_changed", lambda r: rewrite(data_files(r)[0], lambda t: t.slice(1))),
    "row doubled": (
        "file_changed",
        lambda r: rewrite(data_files(r)[0], lambda t: pa.concat_tables([t, t.slice(0, 1)])),
    ),
    "offsets shifted": ("file_changed", lambda r: rewrite(data_files(r)[0], shift_offsets)),
    "file doubled under our name": (
        "file_unknown",
        lambda r: _copy(data_files(r)[0], data_files(r)[0].name.replace("-1-", "-9-", 1)),
    ),
    "last record removed": ("file_unknown", lambda r: records(r)[-1].unlink()),
    "record in the middle removed": ("chain", lambda r: records(r)[2].unlink()),
    "record edited": ("chain", lambda r: edit_record(records(r)[2], epoch=77)),
    "record truncated": (
        "chain",
        lambda r: records(r)[2].write_bytes(records(r)[2].read_bytes()[:-9]),
    ),
    "record emptied": ("chain", lambda r: records(r)[1].write_bytes(b"")),
    "log removed": ("chain", lambda r: shutil.rmtree(records(r)[0].parent)),
}


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 0x40
    path.write_bytes(bytes(raw))


def _copy(path: Path, name: str) -> None:
    (path.parent / name).write_bytes(path.read_bytes())


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_verify_finds_a_planted_corruption(filled: RouteRun, name: str) -> None:
    kind, corrupt = CORRUPTIONS[name]
    corrupt(filled)
    report = verify_job(filled.job.spec, deep=True)
    assert not report.verified
    assert kind in {problem.kind for problem in report.problems}


def test_verify_compares_offsets_when_size_and_checksum_agree(filled: RouteRun) -> None:
    """A last record that claims another file's content is told by the offsets alone."""
    last = records(filled)[-1]
    body = json.loads(last.read_bytes())["body"]
    body["ranges"][0]["offset_sum"] = "0" * 31 + "1"
    edit_record(last, ranges=body["ranges"])
    report = verify_job(filled.job.spec, deep=True)
    assert {problem.kind for problem in report.problems} == {"offsets"}
    assert verify_job(filled.job.spec, deep=False).verified


def test_verify_lists_foreign_files_and_does_not_judge_them(filled: RouteRun) -> None:
    foreign = data_files(filled)[0].parent / "somebody-elses.parquet"
    foreign.write_bytes(b"anything")
    report = verify_job(filled.job.spec, deep=True)
    assert report.verified
    assert report.foreign == [str(foreign)]


def test_verify_finds_a_partition_that_left_the_metastore(
    filled: RouteRun, metastore_uri: str
) -> None:
    database, _, table = filled.job.table.partition(".")
    values = sorted(filled.partitions())[0].split("/")
    with raw_client(metastore_uri) as client:
        client.drop_partition(database, table, values, deleteData=False)
    report = verify_job(filled.job.spec, deep=False)
    assert {problem.kind for problem in report.problems} == {"partition"}
