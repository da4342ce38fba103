"""What the runs on YARN share: servers, a job whose table lies on HDFS, and what runs on a node."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

from bench.cluster_load import Load, Story, new_story, new_topic, tell
from bench.run_failed import RunFailedError
from sluiceway.host.process import identity_of
from sluiceway.lab.demo import process_tree
from sluiceway.lab.lab import Lab, StoreServer
from sluiceway.lab.yarn import NODE_MANAGERS
from tools.driver_process import kill_quietly
from tools.independent_reader import Report, table_view
from tools.job_files import put_sql
from tools.stores_under_test import HdfsUnderTest
from tools.unit_jobs import TIMES, add_hours

SPARK_SETTINGS = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.driver.memoryOverhead": "256m",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "384m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
}


@dataclass(slots=True)
class YarnStory:
    """A job of a lab with YARN.

    Attributes:
        config_dir: HADOOP_CONF_DIR.
        location: Of the table, on HDFS.
    """

    lab: Lab
    story: Story
    load: Load
    store: HdfsUnderTest
    config_dir: str
    location: str

    @property
    def name(self) -> str:
        """The job's."""
        return self.load.topic.replace("_", "-")

    def judge(self) -> Report:
        """What the independent reader counts in a copy of the table's files."""
        copy = self.store.local_copy(self.location, self.story.folder / "copy")
        return self.story.judge((self.location, copy))

    def computed_hours(self) -> list[tuple[object, ...]]:
        """Hour, city, count and greatest id: the rows of the table of hours."""
        at = f"{self.location}_hourly"
        copy = self.store.local_copy(at, self.story.folder / "copy-hourly")
        database, _, table = f"{self.story.job.table}_hourly".partition(".")
        view = table_view(self.story.metastore_uri, database=database, table=table, at=(at, copy))
        return sorted(
            (file.values[1], *row.values())
            for file in view.files
            for row in pq.ParquetFile(file.path).read(["city", "n", "newest"]).to_pylist()
        )

    def node_pid(self, name: str) -> int:
        """Of a server of the lab.

        Raises:
            RunFailedError: It does not run.
        """
        return _pid_of(self.lab, name)

    def jvms(self, main_class: bytes) -> list[tuple[str, int]]:
        """The JVMs of containers that run a class, with the node manager of each."""
        return container_jvms(self.lab, main_class)


def container_jvms(lab: Lab, main_class: bytes) -> list[tuple[str, int]]:
    """The JVMs of containers that run a class, with the node manager of each."""
    found = []
    for name in NODE_MANAGERS:
        for pid in process_tree(_pid_of(lab, name)):
            command = Path(f"/proc/{pid}/cmdline")
            words = command.read_bytes().split(b"\0") if command.exists() else []
            # A shell that begins it names it too.
            is_java = words[:1] != [] and words[0].endswith(b"java")
            if is_java and any(main_class in word for word in words):
                found.append((name, pid))
    return found


def _pid_of(lab: Lab, name: str) -> int:
    found = next((server.pid for server in lab.status() if server.name == name), None)
    if found is None:
        raise RunFailedError(f"{name} does not run")
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process and all that it has started: as when its machine dies."""
    for one in (pid, *process_tree(pid)):
        if identity_of(one) is not None:
            kill_quietly(one)


@contextmanager
def yarn_story(folder: Path, *, interval: str = "2s", sql: bool = False) -> Iterator[YarnStory]:
    """Start the servers, and write a job for them that nobody has submitted; end them all.

    Args:
        folder: Of this run.
        interval: Between two epochs.
        sql: Whether all rows run through SQL, and hours of the table are computed.

    Raises:
        RunFailedError: The lab has no YARN.
    """
    lab = Lab(folder / "lab", stores=[StoreServer.YARN])
    tell("starting Kafka, metastore, HDFS and YARN")
    endpoints = lab.up()
    try:
        if endpoints.hdfs is None or endpoints.yarn is None:
            raise RunFailedError("the lab has no YARN")
        topic = new_topic("yarn")
        store = HdfsUnderTest(endpoints.hdfs)
        location = f"{store.root}/warehouse/{topic}"
        config_dir = str(endpoints.yarn.config_dir)
        story, load = new_story(
            folder,
            endpoints,
            topic,
            master=f"master: yarn, spark_conf: {json.dumps(SPARK_SETTINGS)}",
            environment={"HADOOP_CONF_DIR": config_dir, "HADOOP_USER_NAME": "root"},
            interval=interval,
            connections=store.connection(),
            hive=f', storage: lake, location: "{location}"',
            **({"event_time": TIMES, "ready": "{visible: on_commit}"} if sql else {}),
        )
        if sql:
            add_hours(story.job, location)
            put_sql(story.job)
        yield YarnStory(lab, story, load, store, config_dir, location)
    finally:
        lab.down()
