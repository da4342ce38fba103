"""RocketMQ into an hourly Hive table while brokers are bounced and the driver is killed.

Two brokers with four queues each. A producer writes through everything. The driver is killed with
all that it started, and its temporary folder removed, again and again; between two kills one of the
brokers is ended, by SIGKILL or in good order, and started anew. At the end the job catches up, and
every message that RocketMQ's own Java client reads is looked for in the table's files, which
pyarrow reads; neither shares code with the source.

`python -m bench.e2e_rocketmq [--messages 1000000] [--kills 10]` tells what it does on standard
error and ends with one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.host.java import find_java
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from sluiceway.lab.rocketmq import BROKERS, RocketMqEndpoint

# The driver's handle and the producer belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.rocketmq_writer import RocketMqRefusedError, RocketMqWriter
from tools.table_proofs import assert_verified

TOPIC = "e2e_mq"
QUEUES = 4
HOURS = 3
BATCH = 250
COMMIT_TIMEOUT_S = 300.0
CATCH_UP_TIMEOUT_S = 3_600.0
READER_TIMEOUT_S = 1_800.0
_READER = Path(__file__).with_name("RocketMqReader.java")
_JOB = """\
version: 1
name: e2e-mq
connections:
  mq: {{rocketmq: {{name_servers: ["{name_server}"]}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
source: {{connection: mq, topics: [{topic}], start: earliest}}
format: {{json: {{unknown_fields: ignore}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing, compression: zstd}}
  columns:
    - {{name: id, type: bigint, required: true}}
    - {{name: ts, type: bigint, required: true}}
  partition_by:
    - {{name: dt, event_time: yyyyMMdd}}
    - {{name: hr, event_time: HH}}
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms, timezone: UTC}}
run: {{interval: 2s, master: "local[2]"}}
"""


@dataclass(slots=True)
class Outcome:
    """The closing figures."""

    messages: int = 0
    lost: int = 0
    doubled: int = 0
    kills: int = 0
    broker_bounces: int = 0
    altered: int = 0


class Load:
    """Writes messages from a thread of its own, through outages, until all are there."""

    def __init__(self, endpoint: RocketMqEndpoint, messages: int, rate: float) -> None:
        self._endpoint = endpoint
        self._messages = messages
        self._rate = rate
        self._hurry = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write what is left as fast as it goes."""
        self._hurry.set()
        self._thread.join(CATCH_UP_TIMEOUT_S)
        if self._failure is not None or self._thread.is_alive():
            raise RunFailedError("not everything could be written") from self._failure

    def _go(self) -> None:
        writer = RocketMqWriter(self._endpoint.name_server)
        places = [(self._endpoint.brokers[name], q) for name in BROKERS for q in range(QUEUES)]
        try:
            for number, batch in enumerate(self._batches()):
                self._write(writer, *places[number % len(places)], batch)
                if not self._hurry.is_set():
                    self._hurry.wait(len(batch) / self._rate)
        except Exception as error:  # noqa: BLE001 - the thread's boundary; `end` raises it
            self._failure = error
        finally:
            writer.close()

    def _batches(self) -> Iterator[list[bytes]]:
        began_ms = int(time.time() * 1000) - HOURS * 3_600_000
        for first in range(0, self._messages, BATCH):
            ids = range(first, min(first + BATCH, self._messages))
            times = (began_ms + number * 7_919 % (HOURS * 3_600_000) for number in ids)
            yield [
                json.dumps({"id": i, "ts": ts}).encode() for i, ts in zip(ids, times, strict=True)
            ]

    def _write(self, writer: RocketMqWriter, address: str, queue: int, batch: list[bytes]) -> None:
        until_s = time.monotonic() + COMMIT_TIMEOUT_S
        while True:
            try:
                writer.send_many(address, TOPIC, queue, batch)
            except (OSError, RocketMqRefusedError):
                # The broker is away. What it had taken comes a second time, as another message.
                if time.monotonic() > until_s:
                    raise
                writer.drop(address)
                time.sleep(0.5)
            else:
                return


class Run:
    """One run, step by step."""

    def __init__(self, lab: Lab, folder: Path, endpoints: LabEndpoints, seed: int) -> None:
        if endpoints.rocketmq is None:
            raise RunFailedError("the lab has no RocketMQ")
        self._lab = lab
        self._folder = folder
        self._endpoint = endpoints.rocketmq
        self._warehouse = endpoints.warehouse
        path = folder / "e2e-mq.yaml"
        path.write_text(
            _JOB.format(
                name_server=self._endpoint.name_server,
                metastore=endpoints.metastore_uri,
                topic=TOPIC,
            )
        )
        self._job = JobFile(path, f"ods.{TOPIC}")
        self._random = random.Random(seed)  # noqa: S311 - moments of kills
        self.outcome = Outcome()

    def go(self, messages: int, kills: int, seconds: float) -> None:
        """Write, kill, bounce, catch up, judge.

        Raises:
            RunFailedError: A step did not come about.
        """
        writer = RocketMqWriter(self._endpoint.name_server)
        writer.create_topic(TOPIC, dict.fromkeys(self._endpoint.brokers.values(), QUEUES))
        writer.close()
        load = Load(self._endpoint, messages, messages / max(seconds, 1.0))
        for number in range(kills):
            self._kill_one(number)
        load.end()
        _tell("all is written; catching up")
        with DriverProcess(self._job, self._folder, "--until-caught-up") as driver:
            ended = driver.wait(CATCH_UP_TIMEOUT_S)
        if ended.exit_code != 0:
            raise RunFailedError(f"catching up ended so:\n{ended.stderr[-3000:]}")
        assert_verified(self._job, timeout_s=READER_TIMEOUT_S)
        self._judge()

    def _kill_one(self, number: int) -> None:
        with DriverProcess(self._job, self._folder) as driver:
            until_s = time.monotonic() + COMMIT_TIMEOUT_S
            while not driver.events("committed"):
                if not driver.lives() or time.monotonic() > until_s:
                    raise RunFailedError(f"no commit:\n{driver.stderr()[-3000:]}")
                time.sleep(0.2)
            self._bounce(number)
            time.sleep(self._random.uniform(0.2, 6.0))
            if driver.events("route_halted") or not driver.lives():
                raise RunFailedError(f"the route halted:\n{driver.stderr()[-3000:]}")
            driver.kill_group()
            driver.wait()
        driver.wipe()
        self.outcome.kills += 1
        _tell(f"killed driver {number + 1} and removed its local state")

    def _bounce(self, number: int) -> None:
        """End one of the brokers while tasks read from it, and start it again."""
        name = BROKERS[number % len(BROKERS)]
        killed = self._random.choice([True, False])
        (self._lab.kill_server if killed else self._lab.stop_server)(name)
        time.sleep(self._random.uniform(0.0, 3.0))
        self._lab.start_server(name)
        self.outcome.broker_bounces += 1
        _tell(f"{name} was {'killed' if killed else 'ended'} and is back")

    def _judge(self) -> None:
        lines = self._folder / "messages.tsv"
        command = [
            *(str(find_java().executable), "-cp", f"{self._endpoint.jars}/*"),
            f"-Duser.home={self._folder}",
            *(str(_READER), self._endpoint.name_server, TOPIC, str(lines)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=READER_TIMEOUT_S
        )
        if done.returncode != 0:
            raise RunFailedError(f"RocketMQ's own client failed:\n{done.stderr[-2000:]}")
        expected = {}
        with lines.open() as found:
            for line in found:
                queue, offset, body = line.rstrip("\n").split("\t")
                expected[queue, int(offset)] = json.loads(body)["id"]
        seen: dict[tuple[str, int], int] = {}
        for path in sorted(self._warehouse.rglob("dt=*/hr=*/*.parquet")):
            if "_sluiceway" in path.parts or TOPIC not in str(path):
                continue
            table = pq.ParquetFile(path).read(columns=["id", "_partition", "_offset"])
            for number, queue, offset in zip(
                *(each.to_pylist() for each in table.columns), strict=True
            ):
                self.outcome.doubled += (queue, offset) in seen
                seen[queue, offset] = number
        self.outcome.messages = len(expected)
        self.outcome.lost = len(expected.keys() - seen.keys())
        self.outcome.altered = sum(seen[key] != expected.get(key) for key in seen)


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run once and print the figures."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.e2e_rocketmq")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=None, help="over which they are written")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    _tell(str(given))
    seconds = 40.0 * given.kills if given.seconds is None else given.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluiceway-mq-")))
        lab = Lab(folder / "lab", stores=[StoreServer.ROCKETMQ])
        stack.callback(lab.down)
        run = Run(lab, folder, lab.up(), given.seed)
        try:
            run.go(given.messages, given.kills, seconds)
        except (RunFailedError, AssertionError) as error:
            _tell(f"the run failed: {error}")
            return 1
    outcome = run.outcome
    print(json.dumps(asdict(outcome)))
    worked = outcome.messages >= given.messages and outcome.kills == given.kills
    return int(not worked or outcome.lost + outcome.doubled + outcome.altered > 0)


if __name__ == "__main__":
    sys.exit(main())
