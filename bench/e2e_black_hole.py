"""A job on a standalone cluster while the network swallows all that one executor says and hears.

The second worker lives in a network namespace of its own, at the end of a wire. In mid-run its
packets are dropped, both ways: nobody is told, connections stay open, and the executor goes on
with its task for a while, whose files it can still write. The epochs of the other executor have
to go on. Later the wire is mended, and what was cut off is a zombie. Master, workers, metastore
and Kafka are real processes. At the end every record is looked for in the table's files.

`python -m bench.e2e_black_hole [--rows 6000]` tells what it does on standard error and ends with
one JSON line; 1 is the exit code when anything is wrong, 2 where the machine has no network
namespaces.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from bench.cluster_load import Load, Story, counts_of, new_story, new_topic, tell
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import Lab
from tools.far_host import FarHost, NoFarHostError, far_host
from tools.spark_cluster import SparkCluster, spark_cluster

_PER_S = 25
_DARK_S = 90.0
_STRAGGLER_S = 15
_RUN = """\
master: "{url}", straggler_timeout: {straggler_s}s,
  spark_conf: {{spark.executor.memory: 512m, spark.executorEnv.SLUICEWAY_NATIVE: "0"}}"""


@contextmanager
def _setting(folder: Path, lab: Lab) -> Iterator[tuple[FarHost, SparkCluster]]:
    """One worker here and one at the end of a wire."""
    broker = int(lab.endpoints().bootstrap_servers.rpartition(":")[2])
    with (
        far_host([broker]) as host,
        spark_cluster(folder / "cluster", workers=1, memory_mib=1200, host=host.here) as cluster,
    ):
        cluster.add_workers(1, prefix=host.prefix, host=host.there)
        yield host, cluster


def _story(folder: Path, lab: Lab, host: FarHost, url: str) -> tuple[Story, Load]:
    return new_story(
        folder,
        lab.endpoints(),
        new_topic("dark"),
        master=_RUN.format(url=url, straggler_s=_STRAGGLER_S),
        environment={"SPARK_LOCAL_IP": host.here, "TMPDIR": str(folder)},
        interval="1s",
    )


def _in_the_dark(story: Story, host: FarHost) -> dict[str, object]:
    """Cut the wire for a while; what the driver commits meanwhile."""
    before = story.rows_read()
    tell("cutting off the executor in the namespace")
    host.cut()
    began_ms = time.time() * 1000
    time.sleep(_DARK_S)
    ended_ms = time.time() * 1000
    committed = story.rows_read() - before
    lines = story.log_lines("committed")
    moments = [_ms(line) for line in lines if began_ms <= _ms(line) <= ended_ms]
    gaps = [after - each for each, after in pairwise([began_ms, *moments, ended_ms])]
    told: dict[str, object] = {
        "commits": len(moments),
        "rows": committed,
        "longest_gap_s": round(max(gaps) / 1000),
    }
    tell(f"in {_DARK_S:.0f} s of darkness: {told}; mending the wire")
    host.mend()
    return told


def _ms(line: dict[str, object]) -> float:
    return datetime.fromisoformat(str(line["at"])).timestamp() * 1000


def _run(rows: int, folder: Path) -> dict[str, object]:
    lab = Lab(folder / "lab")
    tell("starting Kafka, metastore and the cluster")
    lab.up()
    try:
        with _setting(folder, lab) as (host, cluster):
            story, load = _story(folder, lab, host, cluster.url)
            load.burst(rows // 10)
            tell("submitting")
            story.command("submit", str(story.job.path), "--environment", "none")
            try:
                story.wait_for_rows(load.written)
                story.wait_until(lambda: len(cluster.executors()) > 1, "two executors")
                load.trickle(rows, per_s=_PER_S)
                story.wait_for_rows(rows // 10 + _PER_S * 4)
                dark = _in_the_dark(story, host)
                story.wait_for_rows(rows)
                stragglers = len(story.log_lines("stragglers"))
            finally:
                load.end()
                story.command("stop", load.topic.replace("_", "-"))
            verified = story.verified()
            report = story.judge()
    finally:
        lab.down()
    tell(f"{report.line()}, epochs with stragglers: {stragglers}")
    if not dark["commits"]:
        raise RunFailedError("nothing was committed while one executor was cut off")
    return {
        **counts_of(report, rows),
        "dark": dark,
        "verified": verified and report.ok,
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000)
    rows: int = parser.parse_args().rows
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluiceway-dark-") as folder:
        try:
            found = _run(rows, Path(folder))
        except NoFarHostError as error:
            print(f"not run: {error}", file=sys.stderr)
            return 2
    tell(f"took {time.monotonic() - began:.0f} s")
    print(json.dumps(found))
    wanted = {"rows": rows, "lost": 0, "doubled": 0, "dark": found["dark"], "verified": True}
    return int(found != wanted)


if __name__ == "__main__":
    sys.exit(main())
