"""A job on YARN in cluster mode while its ApplicationMaster and a node manager are killed.

HDFS, YARN with two node managers, metastore and Kafka are real processes of a lab. `sluiceway
submit --deploy cluster` hands the job over; its table lies on HDFS. While rows come, the
ApplicationMaster, which is the driver, is killed twice, with its Python; then the node manager
that does not run it, with its executors. At the end every record of the topic is looked for in
the table's files.

`python -m bench.e2e_yarn [--rows 6000]` tells what it does on standard error and ends with one
JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

import pyspark

from bench.cluster_load import Load, Story, make_topic, tell
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.cluster.yarn import yarn_attempts
from sluiceway.host.process import identity_of
from sluiceway.lab.demo import process_tree
from sluiceway.lab.lab import Lab, StoreServer
from sluiceway.lab.yarn import NODE_MANAGERS
from tools.driver_process import kill_quietly
from tools.job_files import write_job
from tools.stores_under_test import HdfsUnderTest

_PARTITIONS = 4
_PER_S = 50
_MASTER_CLASS = b"deploy.yarn.ApplicationMaster"
_SETTINGS = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.driver.memoryOverhead": "256m",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "384m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
}


def _node_of_master(lab: Lab) -> tuple[str, int]:
    """Which node manager runs the driver, and the JVM's pid.

    Raises:
        RunFailedError: None does.
    """
    for name in NODE_MANAGERS:
        for pid in process_tree(_pid(lab, name)):
            command = Path(f"/proc/{pid}/cmdline")
            words = command.read_bytes().split(b"\0") if command.exists() else []
            # A shell that begins it names it too.
            is_java = words[:1] != [] and words[0].endswith(b"java")
            if is_java and any(_MASTER_CLASS in word for word in words):
                return name, pid
    raise RunFailedError("no ApplicationMaster runs")


def _pid(lab: Lab, name: str) -> int:
    found = next((server.pid for server in lab.status() if server.name == name), None)
    if found is None:
        raise RunFailedError(f"{name} does not run")
    return found


def _kill_master(lab: Lab) -> None:
    """As when its machine's memory is over: JVM and Python at once."""
    _, jvm = _node_of_master(lab)
    for pid in (jvm, *process_tree(jvm)):
        kill_quietly(pid)


def _kill_other_node(lab: Lab) -> None:
    """As when a machine dies: the node manager and the executors that it runs."""
    busy, _ = _node_of_master(lab)
    name = next(each for each in NODE_MANAGERS if each != busy)
    tell(f"killing {name}, with its executors")
    for pid in (manager := _pid(lab, name), *process_tree(manager)):
        if identity_of(pid) is not None:
            kill_quietly(pid)


def _run(rows: int, folder: Path) -> dict[str, object]:
    lab = Lab(folder / "lab", stores=[StoreServer.YARN])
    tell("starting Kafka, metastore, HDFS and YARN")
    endpoints = lab.up()
    try:
        if endpoints.hdfs is None or endpoints.yarn is None:
            raise RunFailedError("the lab has no YARN")
        topic = f"yarn_{secrets.token_hex(3)}"
        make_topic(endpoints.bootstrap_servers, topic, _PARTITIONS)
        store = HdfsUnderTest(endpoints.hdfs)
        location = f"{store.root}/warehouse/{topic}"
        job = write_job(
            folder,
            bootstrap_servers=endpoints.bootstrap_servers,
            metastore_uri=endpoints.metastore_uri,
            topic=topic,
            interval="2s",
            connections=store.connection(),
            hive=f', storage: lake, location: "{location}"',
        )
        settings = json.dumps(_SETTINGS)
        text = job.path.read_text()
        job.path.write_text(text.replace('"local[2]"', f"yarn, spark_conf: {settings}"))
        config_dir = str(endpoints.yarn.config_dir)
        story = Story(
            job,
            folder,
            endpoints.bootstrap_servers,
            endpoints.metastore_uri,
            {"HADOOP_CONF_DIR": config_dir, "HADOOP_USER_NAME": "root"},
        )
        load = Load(endpoints.bootstrap_servers, topic, _PARTITIONS)
        load.burst(rows // 10)
        tell("submitting: the environment is packed and uploaded")
        answer = story.command("submit", str(job.path), "--deploy", "cluster", "-o", "json")
        application = json.loads(answer)["cluster_id"]
        story.wait_for_rows(load.written)
        thread = load.trickle(rows, per_s=_PER_S)
        for number in (1, 2):
            tell(f"killing the ApplicationMaster, {number} of 2")
            _kill_master(lab)
            story.wait_until(
                lambda number=number: yarn_attempts(application, config_dir) > number,
                "new attempt",
            )
            # All that there is now: the new driver has taken over.
            story.wait_for_rows(load.written)
        _kill_other_node(lab)
        story.wait_for_rows(load.written + 1 if load.written < rows else rows)
        thread.join()
        story.wait_for_rows(rows)
        attempts = yarn_attempts(application, config_dir)
        story.command("stop", topic.replace("_", "-"))
        verified = story.verified()
        report = story.judge((location, store.local_copy(location, folder / "copy")))
    finally:
        lab.down()
    tell(report.line())
    return {
        "rows": report.written,
        "lost": report.lost + rows - report.read,
        "doubled": report.doubled,
        "attempts": attempts,
        "verified": verified and report.ok,
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000)
    rows: int = parser.parse_args().rows
    # Some of what runs reaches the driver by its address.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="sluiceway-yarn-") as folder:
        found = _run(rows, Path(folder))
    print(json.dumps(found))
    expected = {"rows": rows, "lost": 0, "doubled": 0, "attempts": 3, "verified": True}
    return int(found != expected)


if __name__ == "__main__":
    sys.exit(main())
