"""`adopt` on S3 and on HDFS: both tables of a job, from a copy whose last slots lack files.

The commands are those of docs/guides/operations.md.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.rooms import adopt_table
from sluiceway.rooms.adopt_cut import list_copy
from sluiceway.storage.contract import Storage
from sluiceway.storage.s3.storage import s3_client
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.stores_under_test import S3UnderTest, StoreUnderTest
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
JOB = """\
version: 1
name: copied
connections:
  main: {{kafka: {{bootstrap_servers: "{servers}"}}}}
{connection}
  cat: {{folder: {{path: "{root}/none"}}}}
format: {{json: {{}}}}
source: {{connection: main, start: earliest}}
run: {{interval: 1s}}
rooms:
  home: a
  storage: copied
  a: {{connections: {{cat: {{folder: {{path: "{root}/a"}}}}}}}}
  b: {{connections: {{cat: {{folder: {{path: "{root}/b"}}}}}}}}
routes:
- topics: [{topic}]
  table:
    hive: {{connection: cat, name: ods.whole}}
    columns: [{{name: id, type: bigint, required: true}}]
    partition_by: []
- topics: [{topic}]
  where: "even"
  table:
    hive: {{connection: cat, name: ods.halves}}
    columns: [{{name: id, type: bigint, required: true}}, {{name: even, type: boolean}}]
    partition_by: []
"""
TABLES = ("whole", "halves")
_ROWS = 30


class CopiedJob:
    """A job of two routes whose tables are copied within a store, from room a to room b."""

    def __init__(self, store: StoreUnderTest, servers: str, topic: str, folder: Path) -> None:
        self.store, self.topic = store, topic
        self.root = f"{store.root}/rooms/{uuid4().hex[:12]}"
        self.writer = TopicWriter(servers)
        self._folder = folder
        path = folder / "orders.yaml"
        connection, root = store.connection(), self.root
        path.write_text(JOB.format(servers=servers, connection=connection, root=root, topic=topic))
        self.job = JobFile(path, "ods.whole")

    def layout(self, room: str, table: str) -> LedgerLayout:
        return LedgerLayout(f"{self.root}/{room}/ods.db/{table}", f"ods-{table}")

    def write(self, first: int, count: int) -> None:
        self.writer.write(
            self.topic,
            [
                json.dumps({"id": n, "even": n % 2 == 0}).encode()
                for n in range(first, first + count)
            ],
        )

    def catch_up(self, room: str) -> None:
        options = ("--room", room, "--until-caught-up")
        environment = self.store.environment()
        with DriverProcess(
            self.job,
            self._folder,
            *options,
            module="tools.inline_driver",
            environment=environment,
        ) as driver:
            ended = driver.wait()
        assert ended.exit_code == 0, ended.stderr

    def copy(self, storage: Storage) -> None:
        """Bring all files of both tables, but the newest one of rows."""
        for table in TABLES:
            source, target = self.layout("a", table), self.layout("b", table)
            files = list_copy(storage, source)
            names = {path.rpartition("/")[2] for path in files if path.endswith(".parquet")}
            newest = max(names, key=lambda name: [int(n) for n in name.split("-")[-4:-2]])
            for path in files:
                if path.endswith(newest):
                    continue
                with storage.open_read(path) as stream:
                    content = stream.read()
                at = path.replace(source.table_root, target.table_root, 1)
                storage.make_folders(at.rpartition("/")[0])
                storage.overwrite(at, content)

    def ids(self, storage: Storage, table: str) -> Counter[int]:
        """Rows that readers find in the folder of room b's table."""
        found: Counter[int] = Counter()
        root = self.layout("b", table).table_root
        for each in storage.list(root):
            if each.path.endswith(".parquet"):
                with storage.open_read(each.path) as stream:
                    found.update(pq.read_table(stream).column("id").to_pylist())
        return found


def page_commands() -> list[list[str]]:
    """The adopt commands of the page."""
    text = PAGE.read_text("utf-8").split("\n### A copied table\n")[1].split("\n## ")[0]
    lines = re.findall(r"^sluiceway (.+)$", text, re.MULTILINE)
    return [shlex.split(line) for line in lines if line.startswith("adopt ")]


@contextmanager
def denied_replication(store: StoreUnderTest, prefix: str) -> Iterator[None]:
    """A policy of the bucket by which no copier brings objects below a prefix."""
    if not isinstance(store, S3UnderTest):
        yield
        return
    client = s3_client(store.access())
    bucket, _, key = prefix.removeprefix("s3a://").partition("/")
    # The lab's gateway knows no `s3:ReplicateObject` of its own.
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{bucket}/{key}/*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    client.put_bucket_policy(Bucket=bucket, Policy=policy)
    try:
        yield
    finally:
        client.delete_bucket_policy(Bucket=bucket)


def test_both_tables_of_a_job_are_adopted_as_the_page_says(
    store: StoreUnderTest,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(adopt_table, "QUIET_S", 0.2)
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    topic = new_topic(1, prefix="copied")
    job = CopiedJob(store, lab_endpoints.bootstrap_servers, topic, tmp_path)
    for number in range(3):
        job.write(number * _ROWS, _ROWS)
        job.catch_up("a")
    storage = store.open()
    job.copy(storage)
    plan, adopt = ([str(job.job.path) if w == "orders.yaml" else w for w in each]
                   for each in page_commands())  # fmt: skip
    capsys.readouterr()
    assert run_command([*plan, "-o", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)["routes"]
    assert [(each["done"], each["slots_cut"] > 0) for each in planned] == [(False, True)] * 2
    if isinstance(store, S3UnderTest):
        assert run_command(adopt) != 0
        out = capsys.readouterr().out
        assert out.count("the bucket's policy lets another room's replication bring objects") == 2
        assert f"arn:aws:s3:::{job.root.removeprefix('s3a://')}/b/ods.db/whole/*" in out
    with denied_replication(store, f"{job.root}/b"):
        assert run_command(adopt) == 0
    out = capsys.readouterr().out
    assert out.count("done: generation 1 begins in slot") == 2
    job.write(3 * _ROWS, _ROWS)
    job.catch_up("b")
    numbers = range(4 * _ROWS)
    assert job.ids(storage, "whole") == Counter(numbers)
    assert job.ids(storage, "halves") == Counter(numbers[::2])
    assert run_command(["verify", str(job.job.path), "--room", "b"]) == 0
