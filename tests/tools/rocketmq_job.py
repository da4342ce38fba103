"""A job on the lab's RocketMQ, and its topic."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import Lab
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.driver_process import DriverProcess, Ended
from tools.job_files import JobFile
from tools.rocketmq_writer import RocketMqWriter

JOB = """\
version: 1
name: {topic}
connections:
  mq: {{rocketmq: {{name_servers: ["{name_server}"]{more}}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
source: {{connection: mq, topics: [{topic}], start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing}}
  columns: [{{name: id, type: bigint, required: true}}]
  partition_by: []
  meta: [topic, partition, offset, key_text]
run: {{interval: 1s}}
"""


@dataclass(frozen=True, slots=True)
class RocketMqJob:
    """A topic, and the job that reads it into a table of the lab; tasks run in threads.

    Attributes:
        topic: Its name, the table's too.
        folder: For the job file and what its drivers leave.
        text: Of the job file; what stands in it as `JOB` has it is filled in.
    """

    lab: Lab
    endpoint: RocketMqEndpoint
    writer: RocketMqWriter
    topic: str
    folder: Path
    text: str = JOB

    def job(self, more: str = "") -> JobFile:
        path = self.folder / "job.yaml"
        path.write_text(
            self.text.format(
                topic=self.topic,
                name_server=self.endpoint.name_server,
                metastore=self.lab.endpoints().metastore_uri,
                more=more,
            )
        )
        return JobFile(path, f"ods.{self.topic}")

    def make(self, queues: int) -> None:
        self.writer.create_topic(self.topic, dict.fromkeys(self.endpoint.brokers.values(), queues))

    def send(self, broker: str, queue: int, *bodies: bytes) -> None:
        """Append messages as they are."""
        self.writer.send(self.endpoint.brokers[broker], self.topic, queue, bodies)

    def write(self, broker: str, queue: int, ids: range, **properties: str) -> None:
        bodies = [json.dumps({"id": number}).encode() for number in ids]
        address = self.endpoint.brokers[broker]
        self.writer.send(address, self.topic, queue, bodies, properties=properties)

    def catch_up(self, more: str = "") -> Ended:
        job = self.job(more)
        with DriverProcess(
            job, self.folder, "--until-caught-up", module="tools.inline_driver"
        ) as driver:
            return driver.wait()

    def status(self, capsys: pytest.CaptureFixture[str]) -> str:
        """What `status` prints now."""
        run_command(["status", str(self.job().path)])
        return capsys.readouterr().out

    def rows(self) -> list[tuple[str, int, int]]:
        """(partition, offset, id) of all rows, as the files have them."""
        location = self.lab.endpoints().warehouse / "ods.db" / self.topic
        found = []
        for path in location.rglob("*.parquet"):
            if "_sluiceway" not in path.parts:
                table = pq.ParquetFile(path).read(columns=["_partition", "_offset", "id"])
                found += list(zip(*(each.to_pylist() for each in table.columns), strict=True))
        return sorted(found)
