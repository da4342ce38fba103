"""A job on a standalone cluster while its driver and a worker are killed and a worker comes.

A master and two workers of two cores, whose PATH has no Python packages, are real processes, as
are metastore and Kafka. `sluiceway submit` starts the driver under a supervisor, with executors
that unpack the environment. The driver is killed, a backlog comes, and the driver that the
supervisor starts asks for four slots, as long as rows come faster than it reads. One worker is
killed with its executors, and another one comes; when the backlog is read the slots are given
back. At the end every record is looked for in the table's files.

`python -m bench.e2e_standalone [--backlog 100000]` tells what it does on standard error and ends
with one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster_load import Load, Story, counts_of, new_story, new_topic, tell
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import Lab
from tools.driver_process import kill_quietly
from tools.spark_cluster import spark_cluster

_LEAST, _MOST = 1, 4
_FIRST = 400
# An executor takes some seconds to come; ten epochs of reading are asked for at once.
_PRESSED_S = 30.0
_MOST_WAITING = 5_000_000
_RUN = """\
master: "{url}", slots: {{min: 1, max: 4, idle: 10s}},
  spark_conf: {{spark.executor.memory: 512m, spark.executorEnv.SLUICEWAY_NATIVE: "0"}}"""


def _slots_seen(story: Story) -> list[int]:
    return [int(line["up"]) for line in story.log_lines("slots")]


@dataclass(slots=True)
class Press:
    """Rows that come faster than the job reads, however fast the machine is.

    Attributes:
        least: Rows that wait at any time.
        fastest: Rows a second that the job was seen to read so far.
    """

    story: Story
    load: Load
    least: int
    fastest: float = 0.0
    _read: int = 0
    _at: float = field(default_factory=time.monotonic)

    def __call__(self) -> int:
        """Keep as many rows waiting as are read in half a minute; returns how many were added."""
        read, now = self.story.rows_read(), time.monotonic()
        self.fastest = max(self.fastest, (read - self._read) / max(now - self._at, 0.1))
        self._read, self._at = read, now
        wanted = min(max(self.least, int(self.fastest * _PRESSED_S)), _MOST_WAITING)
        missing = max(0, wanted - (self.load.written - read))
        if missing:
            tell(f"{missing} rows more: {self.fastest:,.0f} a second were read at most")
            self.load.burst(missing)
        return missing


def _run(backlog: int, folder: Path) -> dict[str, object]:
    lab = Lab(folder / "lab")
    tell("starting Kafka, metastore and the cluster")
    endpoints = lab.up()
    cluster_folder = folder / "cluster"
    try:
        with spark_cluster(
            cluster_folder, cores=2, memory_mib=1200, path="/usr/bin:/bin"
        ) as cluster:
            story, load = new_story(
                folder,
                endpoints,
                new_topic("alone"),
                master=_RUN.format(url=cluster.url),
                environment={"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(folder)},
                interval="1s",
            )
            load.burst(_FIRST)
            tell("submitting")
            story.command("submit", str(story.job.path))
            try:
                story.wait_for_rows(_FIRST)
                # Of the driver that goes on: its first number of slots.
                before = len(_slots_seen(story))
                tell("killing the driver")
                kill_quietly(int(str(story.only_job()["pid"])))
                tell("rows that come faster than they are read, until four slots are up")
                press = Press(story, load, backlog)

                def four_are_up() -> bool:
                    press()
                    return _MOST in _slots_seen(story)[before:]

                story.wait_until(four_are_up, "four slots")
                starts = story.only_job()["starts"]
                tell("killing a worker with its executors; another one comes")
                cluster.kill_worker(cluster.workers[0])
                cluster.add_workers(1)
                load.burst(backlog)
                story.wait_for_rows(load.written)
                tell("all is read; waiting for slots to be given back")
                story.wait_until(lambda: _slots_seen(story)[-1] == _LEAST, "one slot")
                seen = _slots_seen(story)[before:]
            finally:
                story.command("stop", load.topic.replace("_", "-"))
            state = story.only_job()["state"]
            verified = story.verified()
            report = story.judge()
    finally:
        lab.down()
    tell(f"{report.line()} slots {seen}, starts {starts}, at the end {state}")
    return {
        **counts_of(report, load.written),
        "starts": starts,
        "slots": [seen[0], max(seen), seen[-1]],
        "verified": verified and report.ok and state == "ended",
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backlog", type=int, default=100_000, help="rows that wait at least")
    backlog: int = parser.parse_args().backlog
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluiceway-standalone-") as folder:
        found = _run(backlog, Path(folder))
    tell(f"took {time.monotonic() - began:.0f} s")
    print(json.dumps(found))
    wanted = {"lost": 0, "doubled": 0, "starts": 2, "slots": [1, 4, 1], "verified": True}
    return int(found != {"rows": found["rows"], **wanted})


if __name__ == "__main__":
    sys.exit(main())
