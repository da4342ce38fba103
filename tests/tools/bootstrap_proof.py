"""`make proofs NAME=bootstrap`: routes that read a table first, killed around the hand-over.

Each point has a topic, a table that is filled from it, and a route that reads the table and then
the topic. Drivers of both are killed at random moments, and the topic grows all the time. In the
end each record of the topic has to be in the route's table once, after one hand-over.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from matrix.drivers import DriverServer, driver_server
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.records import SourcesRecord
from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import shared_lab
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

FIRST_MS = 1_795_161_600_000
_PATIENCE_S = 300.0
_POINTS = (
    *(f"step.{name}" for name in ("fenced", "recovered", "pinned", "planned", "written")),
    *(f"step.{name}" for name in ("prepared", "committed", "published", "reported")),
    *("storage.put.link.request", "storage.put.link.reply", "storage.put.fsync.reply"),
    *("storage.overwrite.rename.reply", "storage.remove.request"),
)


def write_bootstrap_job(
    folder: Path, raw: JobFile, topics: str, *, bootstrap_servers: str, metastore_uri: str
) -> JobFile:
    """A job whose route reads the table of another one, and then these topics."""
    path = folder / f"{raw.path.stem}-anew.yaml"
    path.write_text(f"""\
version: 1
name: anew
connections:
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
  kafka: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
source: {{connection: kafka, topics: [{topics}], bootstrap: {{table: {raw.table}}}}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: {raw.table}_anew}}
  columns:
    - {{name: id, type: bigint, required: true}}
    - {{name: ts, type: bigint, required: true}}
    - {{name: shout, type: string, expression: "upper(city)"}}
    - {{name: city, type: string, transient: true}}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}]
event_time: {{field: ts, unit: ms}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    return JobFile(path, f"{raw.table}_anew")


def hand_overs(run: RouteRun) -> list[SourcesRecord]:
    """Records in which the route has left the table."""
    found = [each.body for each in run.records() if isinstance(each.body, SourcesRecord)]
    return [each for each in found if each.because is not None]


@dataclass
class Point:
    """One topic and its two tables.

    Attributes:
        written: Records of the topic so far; also the next one's number.
        kills: Drivers that were killed.
    """

    folder: Path
    drivers: DriverServer
    endpoints: LabEndpoints
    seed: int
    written: int = 0
    kills: int = 0
    doubled: int = 0
    missing: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self) -> "Point":
        """Kill, go on, and count."""
        chosen = random.Random(self.seed)  # noqa: S311 - a reproducible order
        at = self.endpoints
        topic = f"b_{uuid.uuid4().hex[:10]}"
        admin = AdminClient({"bootstrap.servers": at.bootstrap_servers, "log_level": 0})
        for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
            made.result()
        where = {"bootstrap_servers": at.bootstrap_servers, "metastore_uri": at.metastore_uri}
        raw = write_job(self.folder, topic=topic, **where)
        anew = write_bootstrap_job(self.folder, raw, topic, **where)
        writer = TopicWriter(at.bootstrap_servers)
        self._write(writer, topic, chosen.randint(1, 20))
        self._drive(raw)
        for turn in range(4):
            self._write(writer, topic, chosen.randint(0, 9))
            if chosen.random() < 0.5:
                self._drive(raw, _fault(chosen, self.folder, f"raw-{turn}"))
            self._write(writer, topic, chosen.randint(0, 9))
            self._drive(anew, _fault(chosen, self.folder, f"anew-{turn}"))
        self._drive(raw)
        self._write(writer, topic, 5)
        self._drive(anew)
        self._count(RouteRun(anew))
        return self

    def _write(self, writer: TopicWriter, topic: str, count: int) -> None:
        for n in range(self.written, self.written + count):
            writer.write(topic, [event(n, ts_ms=FIRST_MS)], partition=n % 2)
        self.written += count

    def _drive(self, job: JobFile, fault: FailpointSpec | None = None) -> None:
        """A driver until it has caught up, or is killed at its failpoint."""
        told = {} if fault is None else {"SLUICEWAY_FAILPOINTS": fault.text()}
        log = self.folder / "driver.log"
        driver = self.drivers.start(job.path, self.folder, log, told)
        try:
            code = driver.wait(_PATIENCE_S)
        finally:
            driver.end()
        self.kills += code == -signal.SIGKILL
        if code not in (0, -signal.SIGKILL):
            self.failures.append(f"seed {self.seed}: exit code {code}: {driver.words()}")

    def _count(self, run: RouteRun) -> None:
        found = Counter(int(str(row[0])) for row in run.rows("id"))
        self.doubled = sum(count - 1 for count in found.values())
        self.missing = sum(1 for n in range(self.written) if n not in found)
        if len(hand_overs(run)) != 1:
            self.failures.append(f"seed {self.seed}: {len(hand_overs(run))} hand-overs")


def _fault(chosen: random.Random, folder: Path, name: str) -> FailpointSpec:
    marks = folder / name
    marks.mkdir()
    point = chosen.choice(_POINTS)
    return FailpointSpec(point, Action.KILL, str(marks), hit=chosen.randint(1, 4))


def prove(points: Sequence[int], folder: Path) -> list[Point]:
    """Play these seeds, two at a time."""
    with shared_lab(folder / "lab") as lab, driver_server() as drivers:
        endpoints = lab.endpoints()

        def play(seed: int) -> Point:
            own = folder / str(seed)
            own.mkdir()
            return Point(own, drivers, endpoints, seed).run()

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(play, points))


def main() -> None:
    """Run it; the last line is JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = prove(range(asked.seed, asked.seed + asked.points), Path(folder))
    for failure in (each for point in done for each in point.failures):
        sys.stderr.write(f"{failure}\n")
    both, missing = sum(each.doubled for each in done), sum(each.missing for each in done)
    figures = {"points": len(done), "both": both, "missing": missing}
    records, kills = sum(each.written for each in done), sum(each.kills for each in done)
    print(json.dumps({"records": records, "kills": kills}))
    print(json.dumps(figures))
    failed = any(point.failures for point in done)
    sys.exit(int(failed or both + missing > 0))


if __name__ == "__main__":
    main()
