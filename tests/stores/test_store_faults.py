"""What goes wrong with stores: one clear line, 5 when a person has to act, and nothing is lost."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import botocore.auth
import pytest
from hdfs_native import Client

from sluiceway.errors import FileLostError, StorageRefusedError, StorageUnavailableError
from sluiceway.lab.hdfs import DATA_NODE, HdfsEndpoint
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.contract import FileSeal, StagedWriter, Storage
from sluiceway.storage.s3.storage import S3Storage
from tools.driver_process import DriverProcess, Ended
from tools.hdfs_admin import hdfs_admin
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.s3_gateway import s3_gateway
from tools.s3_proxy import Asked, Manners, S3Proxy, Said
from tools.small_disk import small_disk
from tools.stores_under_test import HdfsUnderTest, S3UnderTest, StoreUnderTest
from tools.topic_writer import TopicWriter

START_MS = 1_795_161_600_000
_PIECE = b"x" * (1 << 20)
_RULES = b"""<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status>
<Filter><Prefix>warehouse/</Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule>
</LifecycleConfiguration>"""


def staged(storage: Storage, path: str, content: bytes = b"rows") -> FileSeal:
    storage.make_folders(path.rpartition("/")[0])
    writer = storage.create_staged(path)
    writer.handle().write(content)
    return writer.seal()


# Single calls.


def test_object_that_was_deleted_by_hand_is_a_loss_that_is_named(store: StoreUnderTest) -> None:
    storage, folder = store.open(), f"{store.root}/faults/{uuid4().hex}"
    seal = staged(storage, f"{folder}/stage/f")
    storage.remove(f"{folder}/stage/f")
    with pytest.raises(FileLostError, match="neither staged nor published") as lost:
        storage.publish(
            f"{folder}/stage/f", f"{folder}/g", size_bytes=seal.size_bytes, crc32c=seal.crc32c
        )
    assert lost.value.where == f"{folder}/g"
    assert lost.value.exit_code == 7


@pytest.mark.parametrize("minutes", [20, -20])
def test_clock_that_is_wrong_is_told_by_a_real_store(
    s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    right = botocore.auth.get_current_datetime
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime", lambda: right() + timedelta(minutes=minutes)
    )
    with pytest.raises(StorageRefusedError, match="RequestTimeTooSkewed") as refused:
        S3Storage(s3.access).overwrite(f"s3a://{s3.bucket}/skewed/f", b"x")
    assert refused.value.hint == "set this machine's clock"
    assert refused.value.exit_code == 5
    assert "\n" not in str(refused.value)


def test_page_of_a_gateway_is_an_outage_and_no_empty_ledger(s3: S3Endpoint) -> None:
    path = f"s3a://{s3.bucket}/faults/{uuid4().hex}"
    S3Storage(s3.access).overwrite(path, b"a record")
    with (
        S3Proxy(s3, Manners(says=lambda _: Said(404))) as proxy,
        pytest.raises(StorageUnavailableError, match="404"),
    ):
        S3Storage(proxy.access).read(path)


def _finish(writer: StagedWriter) -> None:
    for _ in range(64):
        writer.handle().write(_PIECE)
    writer.seal()


def test_data_node_that_dies_within_a_file_ends_that_file_only(
    lab: Lab, hdfs: HdfsEndpoint
) -> None:
    storage = HdfsUnderTest(hdfs).fresh()
    folder = f"{hdfs.uri}/faults/{uuid4().hex}"
    storage.make_folders(folder)
    writer = storage.create_staged(f"{folder}/f")
    writer.handle().write(_PIECE)
    lab.kill_server(DATA_NODE)
    try:
        with pytest.raises((StorageUnavailableError, OSError)) as failed:
            _finish(writer)
        assert "\n" not in str(failed.value)
        writer.abort()
    finally:
        lab.start_server(DATA_NODE)
    assert [each.path for each in storage.list(folder)] == []
    seal = staged(storage, f"{folder}/again", _PIECE)
    storage.publish(
        f"{folder}/again", f"{folder}/g", size_bytes=seal.size_bytes, crc32c=seal.crc32c
    )
    assert storage.read(f"{folder}/g") == _PIECE


# Whole jobs.


@pytest.fixture
def topic(new_topic: TopicFactory, lab_endpoints: LabEndpoints) -> str:
    """A topic with a hundred rows."""
    name = new_topic(1, prefix="faults")
    rows = [event(n, ts_ms=START_MS) for n in range(100)]
    TopicWriter(lab_endpoints.bootstrap_servers).write(name, rows)
    return name


class Jobs:
    """Jobs of one topic, their tasks in threads."""

    def __init__(self, endpoints: LabEndpoints, topic: str, folder: Path) -> None:
        self._endpoints = endpoints
        self._topic = topic
        self._folder = folder

    def table(self, store: StoreUnderTest, root: str = "") -> str:
        """Where the table of such a job lies."""
        return f"{root or store.root}/warehouse/{self._topic}"

    def job(self, store: StoreUnderTest, root: str = "") -> JobFile:
        place = self.table(store, root)
        return write_job(
            self._folder,
            bootstrap_servers=self._endpoints.bootstrap_servers,
            metastore_uri=self._endpoints.metastore_uri,
            topic=self._topic,
            interval="1s",
            connections=store.connection(),
            hive=f', storage: lake, location: "{place}"',
        )

    def driver(
        self,
        job: JobFile,
        environment: Mapping[str, str],
        *options: str,
        launcher: Sequence[str] = (),
    ) -> DriverProcess:
        return DriverProcess(
            job,
            self._folder,
            *options,
            module="tools.inline_driver",
            environment=environment,
            launcher=launcher,
        )

    def ended(
        self, job: JobFile, environment: Mapping[str, str], launcher: Sequence[str] = ()
    ) -> Ended:
        with self.driver(job, environment, "--until-caught-up", launcher=launcher) as driver:
            return driver.wait()


@pytest.fixture
def other_host() -> Sequence[str]:
    """Runs a driver under another host name, where pids of this machine say nothing."""
    apart = ("unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
    named = ("sh", "-c", 'hostname another-host && exec "$@"', "sh")
    done = subprocess.run([*apart, *named, "true"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this user may make no namespaces here")
    return (*apart, *named)


@pytest.fixture
def jobs(lab_endpoints: LabEndpoints, topic: str, tmp_path: Path) -> Jobs:
    return Jobs(lab_endpoints, topic, tmp_path)


def assert_told(ended: Ended, *said: str) -> None:
    """What is wrong in one line, what to do in the next one; 5."""
    wrong, todo = ended.error_lines()[-2:]
    assert wrong.startswith("error[SW403]: "), ended.stderr
    assert said[0] in wrong
    assert todo.startswith("hint: ")
    assert said[1] in todo
    assert "Traceback" not in ended.stderr
    assert ended.exit_code == 5, ended.stderr


def _error(code: str, status: int) -> Callable[[Asked], Said | None]:
    return lambda asked: Said(status, code)


def _rules(asked: Asked) -> Said | None:
    return Said(200, body=_RULES) if "lifecycle" in asked.path else None


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (_error("ExpiredToken", 400), ("ExpiredToken", "new session_token")),
        (_error("RequestTimeTooSkewed", 403), ("RequestTimeTooSkewed", "machine's clock")),
        (_rules, ("lifecycle rule 'old'", "take the rule away")),
    ],
    ids=["expired token", "skewed clock", "lifecycle rule"],
)
def test_job_whose_bucket_refuses_ends_with_5_and_one_line(
    s3: S3Endpoint, jobs: Jobs, says: Callable[[Asked], Said | None], said: tuple[str, ...]
) -> None:
    with S3Proxy(s3, Manners(says=says)) as proxy:
        url = dict(proxy.access.options)["endpoint"]
        store = S3UnderTest(replace(s3, url=url))
        ended = jobs.ended(jobs.job(store), store.environment())
    assert_told(ended, *said)
    assert s3.secret_key not in ended.stderr


def test_job_whose_store_is_read_only_ends_with_5_and_one_line(s3: S3Endpoint, jobs: Jobs) -> None:
    with s3_gateway(s3, s3.folder.parent, "--readonly") as read_only:
        store = S3UnderTest(read_only)
        ended = jobs.ended(jobs.job(store), store.environment())
    assert_told(ended, "AccessDenied", "allow this login")


def test_job_waits_while_the_disk_of_its_store_is_full_and_has_every_row(
    s3: S3Endpoint, jobs: Jobs, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 16) as disk:
        (disk.folder / s3.bucket).mkdir()
        with s3_gateway(s3, disk.folder) as small:
            store = S3UnderTest(small)
            job = jobs.job(store)
            disk.fill()
            with jobs.driver(job, store.environment(), "--until-caught-up") as driver:
                driver.wait_until(
                    lambda: any("SW203" in str(told) for told in driver.events()), "word of it"
                )
                disk.make_room()
                ended = driver.wait()
            assert ended.exit_code == 0, ended.stderr
            committed = [told["written"] for told in driver.events("committed")]
            hour = f"{jobs.table(store)}/dt=20261120/hr=08"
            files = [each for each in store.open().list(hour) if each.path.endswith(".parquet")]
    assert sum(committed) == 100
    assert files


def test_job_with_a_wrong_secret_ends_with_5_and_one_line(s3: S3Endpoint, jobs: Jobs) -> None:
    store = S3UnderTest(replace(s3, secret_key="wrong-secret-4711"))  # noqa: S106 - wrong on purpose
    ended = jobs.ended(jobs.job(store), store.environment())
    assert_told(ended, "SignatureDoesNotMatch", "correct secret_key")
    assert "4711" not in ended.stderr


def test_job_whose_bucket_is_missing_ends_with_5_and_one_line(s3: S3Endpoint, jobs: Jobs) -> None:
    store = S3UnderTest(s3)
    ended = jobs.ended(jobs.job(store, "s3a://no-such-bucket"), store.environment())
    assert_told(ended, "NoSuchBucket", "make the bucket")


def test_job_whose_folder_is_another_users_ends_with_5_and_one_line(
    hdfs: HdfsEndpoint, jobs: Jobs
) -> None:
    root = f"{hdfs.uri}/faults/{uuid4().hex}"
    client = Client(hdfs.uri)
    client.mkdirs(f"{root.removeprefix(hdfs.uri)}/warehouse", 0o755, create_parent=True)
    ended = jobs.ended(jobs.job(HdfsUnderTest(hdfs), root), {"HADOOP_USER_NAME": "somebody"})
    assert_told(ended, "AccessControlException", "allow this user")


@pytest.fixture
def _safe_mode(hdfs: HdfsEndpoint) -> Iterator[None]:
    hdfs_admin(hdfs, "-safemode", "enter")
    yield
    hdfs_admin(hdfs, "-safemode", "leave")


def test_job_waits_for_the_end_of_safe_mode_and_has_every_row(
    hdfs: HdfsEndpoint, jobs: Jobs, request: pytest.FixtureRequest
) -> None:
    job = jobs.job(HdfsUnderTest(hdfs))
    request.getfixturevalue("_safe_mode")
    with jobs.driver(job, {}, "--until-caught-up") as driver:
        driver.wait_until(
            lambda: any("safe mode" in str(told) for told in driver.events()), "word of safe mode"
        )
        hdfs_admin(hdfs, "-safemode", "leave")
        ended = driver.wait()
    assert ended.exit_code == 0, ended.stderr
    assert HdfsUnderTest(hdfs).open().list(f"{job.route.table.location}/dt=20261120/hr=08")


def test_second_driver_of_a_table_ends_with_7_and_the_first_goes_on(
    store: StoreUnderTest, jobs: Jobs
) -> None:
    job, environment = jobs.job(store), store.environment()
    with jobs.driver(job, environment) as first:
        first.wait_for_event("committed")
        second = jobs.ended(job, environment)
        first.send(signal.SIGTERM)
        assert first.wait().exit_code == 0
    assert second.exit_code == 7, second.stderr
    assert any("SW452" in line for line in second.error_lines()), second.stderr


def test_driver_of_another_host_waits_for_a_silent_lease_and_has_every_row(
    store: StoreUnderTest, jobs: Jobs, other_host: Sequence[str]
) -> None:
    job, environment = jobs.job(store), store.environment()
    with jobs.driver(job, environment) as first:
        first.wait_for_event("committed")
        refused = jobs.ended(job, environment, other_host)
        first.send(signal.SIGKILL)
        first.wait()
    taken = jobs.ended(job, environment, other_host)
    assert refused.exit_code == 7, refused.stderr
    assert any("SW452" in line for line in refused.error_lines()), refused.stderr
    assert taken.exit_code == 0, taken.stderr
    hour = f"{jobs.table(store)}/dt=20261120/hr=08"
    assert len([each for each in store.open().list(hour) if each.path.endswith(".parquet")]) == 1


def test_published_file_that_was_deleted_by_hand_is_named_by_verify(
    store: StoreUnderTest, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, environment = jobs.job(store), store.environment()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert jobs.ended(job, environment).exit_code == 0
    storage, hour = store.open(), f"{job.route.table.location}/dt=20261120/hr=08"
    (file,) = [each.path for each in storage.list(hour) if each.path.endswith(".parquet")]
    storage.remove(file)
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", "verify", str(job.path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    told = done.stdout + done.stderr
    assert done.returncode != 0, told
    assert file.rpartition("/")[2] in told
    assert "Traceback" not in told
