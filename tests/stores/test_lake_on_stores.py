"""Lake tables whose files lie on S3 and on HDFS: kills, readers, merged files, keys."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.lab.support import ignore_progress
from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.stores_under_test import StoreUnderTest
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter

_TESTS = Path(__file__).parents[1]
_ORPHANS = """
import sys
from sluiceway.cli.commands import maintain
from sluiceway.cli.app import run_command
maintain._LEAST_AGE_S = 0.0
command = ["maintain", sys.argv[1], "--orphans", "--older-than", "2s", "--keep", "999d"]
sys.exit(run_command(command))
"""
_SPARK_JARS = _TESTS.parent / "bench" / "iceberg_spark_jars.json"


def iceberg_for_spark() -> Path:
    """Iceberg's own jar for Spark."""
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_SPARK_JARS.read_text())["jars"])
    folder = jars_folder(default_cache_folder(os.environ), "iceberg-spark-1.12.0", pins)
    ensure_jars(folder, pins, java=find_java(), on_progress=ignore_progress)
    return folder / pins[0].file_name


class StoreStory:
    """A job with a lake table on a store."""

    def __init__(
        self,
        store: StoreUnderTest,
        endpoints: LabEndpoints,
        topic: str,
        folder: Path,
        **more: str,
    ) -> None:
        self.store, self.endpoints, self.topic, self.folder = store, endpoints, topic, folder
        self.writer = TopicWriter(endpoints.bootstrap_servers)
        self.job: LakeJob = write_lake_job(
            folder,
            bootstrap_servers=endpoints.bootstrap_servers,
            topic=topic,
            metastore=endpoints.metastore_uri,
            connections=store.connection().replace("  lake:", "  files:", 1),
            location=f"{store.root}/lakes/{topic}",
            **more,
        )

    def drive(self, *point: str) -> int:
        """A driver in a process of its own, until it is caught up or dies; its exit code."""
        environment = {**self.store.environment(), "PYTHONPATH": str(_TESTS)}
        if point:
            marks = self.folder / f"marks-{point[0]}"
            marks.mkdir()
            spec = FailpointSpec(point[0], Action.KILL, str(marks), hit=1)
            environment["SLUICEWAY_FAILPOINTS"] = spec.text()
        return self._python(
            "-m", "tools.local_driver", str(self.job.path), "--until-caught-up", more=environment
        )

    def tool(self, *command: str) -> str:
        """A command of the product; it has to succeed. What it says."""
        return self._said("-m", "sluiceway", *command)

    def without_orphans(self) -> str:
        """`maintain --orphans`, for files of two seconds; what it says."""
        time.sleep(4.0)
        return self._said("-c", _ORPHANS, str(self.job.path))

    def _said(self, *command: str) -> str:
        before = self._log().stat().st_size
        code = self._python(*command, more=self.store.environment())
        said = self._log().read_bytes()[before:].decode()
        assert code == 0, said
        return said

    def _log(self) -> Path:
        return self.folder / "driver.log"

    def _python(self, *command: str, more: dict[str, str]) -> int:
        with self._log().open("ab") as log:
            return subprocess.run(
                [sys.executable, *command],
                env={**os.environ, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode

    def seen_by_spark(self, lab: Lab, columns: str) -> list[list[int]]:
        """Figures of the whole table, by an engine that shares no code with us."""
        settings = self.store.spark_settings(lab)
        jars = ",".join(filter(None, [settings.get("spark.jars"), str(iceberg_for_spark())]))
        settings = {
            **settings,
            "spark.jars": jars,
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hive",
            "spark.sql.catalog.lake.uri": self.endpoints.metastore_uri,
        }
        sql = f"select {columns} from lake.{self.job.table}"  # noqa: S608 - our own table
        return spark_sql(self.endpoints.metastore_uri, sql, settings=settings)[0]


def test_lake_table_on_a_store_has_every_row_once_after_kills_and_compaction(
    store: StoreUnderTest,
    lab: Lab,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    story = StoreStory(store, lab_endpoints, new_topic(2, prefix="lake"), tmp_path)
    points = ["lake.placed", "lake.send.request", "lake.send.reply", ""]
    for done, point in enumerate(points):
        for partition in range(2):
            rows = [order(n) for n in range(done * 50, done * 50 + 50)]
            story.writer.write(story.topic, rows, partition=partition)
        ended = story.drive(*filter(None, [point]))
        assert ended == (-signal.SIGKILL if point else 0)
    assert "files would become 1;" in story.tool("maintain", str(story.job.path), "--dry-run")
    story.tool("compact", str(story.job.path), "--all-closed")
    assert "0 files become 0; 0 snapshots" in story.tool("maintain", str(story.job.path))
    # A driver died with its request unsent: a manifest and a list are left, and perhaps files.
    orphans = re.search(r"([0-9]+) orphans go,", story.without_orphans())
    assert orphans is not None
    assert int(orphans[1]) >= 2
    assert " 0 orphans go," in story.without_orphans()
    story.tool("verify", str(story.job.path), "--deep")
    figures = "count(*), count(distinct _source_partition, _offset), sum(_offset)"
    assert story.seen_by_spark(lab, figures) == [[400, 400, 2 * sum(range(200))]]


def test_keyed_lake_table_on_a_store_becomes_the_database_after_a_kill(
    store: StoreUnderTest,
    lab: Lab,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    story = StoreStory(
        store,
        lab_endpoints,
        new_topic(2, prefix="keyed"),
        tmp_path,
        columns=KEYED_COLUMNS,
        partition_by="[{column: id, transform: 'bucket[2]'}]",
        payload="debezium: {}",
        key="key: [id]",
    )
    source = ChangeSource(3, partitions=2)
    for point in ("", "lake.send.reply", ""):
        source.change(150)
        tell(lab_endpoints.bootstrap_servers, story.topic, source.take())
        ended = story.drive(*filter(None, [point]))
        assert ended == (-signal.SIGKILL if point else 0)
    story.tool("verify", str(story.job.path), "--deep")
    wanted = [int(str(row[0])) for row in source.wanted()]
    figures = "count(*), count(distinct id), sum(id)"
    assert story.seen_by_spark(lab, figures) == [[len(wanted), len(wanted), sum(wanted)]]
