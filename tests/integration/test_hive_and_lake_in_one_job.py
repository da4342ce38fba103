"""One job whose routes fill a Hive table and a lake table from one topic."""

import json
import os
import subprocess
import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from sluiceway.lab.lab import LabEndpoints
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

ROWS = 60
JOB = """\
version: 1
name: both-kinds
connections:
  main: {{kafka: {{bootstrap_servers: "{kafka}"}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
  lake: {{iceberg: {{sql: {{uri: "sqlite:///{folder}/catalog.db", warehouse: "{folder}/lake"}}}}}}
source: {{connection: main, start: earliest}}
format: {{json: {{}}}}
table:
  columns: [{{name: id, type: bigint, required: true}}]
  partition_by: []
  meta: [offset]
run: {{interval: 0.5s, master: "local[2]"}}
routes:
  - name: log
    topics: [{topic}]
    table: {{hive: {{connection: hms, name: ods.{name}}}}}
  - name: lake
    topics: [{topic}]
    table: {{iceberg: {{connection: lake, name: ods.{name}, create: if_missing}}}}
"""


def test_both_tables_have_each_row_once_through_a_kill_and_are_verified(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(2)
    name = topic.replace("-", "_")
    (tmp_path / "lake").mkdir()
    path = tmp_path / "job.yaml"
    path.write_text(
        JOB.format(
            kafka=lab_endpoints.bootstrap_servers,
            metastore=lab_endpoints.metastore_uri,
            folder=tmp_path,
            topic=topic,
            name=name,
        )
    )
    job, writer = JobFile(path, f"ods.{name}"), TopicWriter(lab_endpoints.bootstrap_servers)
    payloads = [json.dumps({"id": n}).encode() for n in range(ROWS)]
    writer.write(topic, payloads[: ROWS // 2], partition=0)
    with DriverProcess(job, tmp_path, module="tools.inline_driver") as driver:
        driver.wait_until(lambda: committed(driver) == {"log", "lake"}, "commits of both routes")
        driver.kill_group()
    writer.write(topic, payloads[ROWS // 2 :], partition=1)
    with DriverProcess(job, tmp_path, "--until-caught-up", module="tools.inline_driver") as driver:
        ended = driver.wait()
    assert ended.exit_code == 0, ended.stderr
    assert verified(path, "log") == verified(path, "lake") == 0
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found = catalog.load_table(f"ods.{name}").scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(ROWS))


def committed(driver: DriverProcess) -> set[str]:
    """Routes that have committed."""
    return {event["route"] for event in driver.events("committed")}


def verified(job: Path, route: str) -> int:
    """Exit code of `verify --deep`, which compares ledger, files, catalog and broker."""
    command = [sys.executable, "-m", "sluiceway", "verify", str(job), "--deep", "--route", route]
    done = subprocess.run(
        command, env=os.environ, capture_output=True, timeout=240, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.returncode
