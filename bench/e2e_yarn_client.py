"""A job on YARN in client mode while the resource manager, an executor and the driver are killed.

HDFS, YARN with two node managers, metastore and Kafka are real processes of a lab. `sluiceway
submit` starts the driver on this machine, under a supervisor; its executors are containers that
unpack the environment. While rows come, the resource manager is killed; the job has to go on
without it, and the manager that is started in its place has to know the application. Then an
executor is killed, for which YARN gives another one, and last the driver with its JVM, which the
supervisor starts again. `list`, `logs` and `stop` are the verbs of a user. At the end every
record of the topic is looked for in the table's files.

`python -m bench.e2e_yarn_client [--rows 6000]` tells what it does on standard error and ends with
one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench.cluster_load import counts_of, tell
from bench.tidy_end import end_tidily
from bench.yarn_story import YarnStory, kill_tree, yarn_story
from sluiceway.lab.yarn import RESOURCE_MANAGER

_PER_S = 25
_EXECUTORS = 2
_EXECUTOR_CLASS = b"executor.YarnCoarseGrainedExecutorBackend"


def _bounce_manager(yarn: YarnStory) -> int:
    """Kill the resource manager, see rows committed without it, start it; rows meanwhile."""
    tell("killing the resource manager")
    yarn.lab.kill_server(RESOURCE_MANAGER)
    before = yarn.story.rows_read()
    # What comes from now on is read and committed while there is no manager.
    yarn.story.wait_for_rows(yarn.load.written + 1)
    meanwhile = yarn.story.rows_read() - before
    tell(f"{meanwhile} rows were committed without it; starting it")
    yarn.lab.start_server(RESOURCE_MANAGER)
    return meanwhile


def _replace_executor(yarn: YarnStory) -> None:
    """Kill an executor with its Python; YARN gives another one."""
    _await_executors(yarn, frozenset())
    before = frozenset(pid for _, pid in yarn.jvms(_EXECUTOR_CLASS))
    tell("killing an executor")
    kill_tree(min(before))
    _await_executors(yarn, frozenset((min(before),)))


def _await_executors(yarn: YarnStory, gone: frozenset[int]) -> None:
    def are_there() -> bool:
        pids = {pid for _, pid in yarn.jvms(_EXECUTOR_CLASS)}
        return len(pids - gone) >= _EXECUTORS

    yarn.story.wait_until(are_there, f"{_EXECUTORS} executors")


def _run(rows: int, folder: Path) -> dict[str, object]:
    with yarn_story(folder) as yarn:
        story, load = yarn.story, yarn.load
        load.burst(rows // 10)
        tell("submitting: the environment is packed")
        story.command("submit", str(story.job.path))
        try:
            story.wait_for_rows(load.written)
            load.trickle(rows, per_s=_PER_S)
            meanwhile = _bounce_manager(yarn)
            _replace_executor(yarn)
            story.wait_for_rows(load.written)
            tell("killing the driver with its JVM")
            kill_tree(int(str(story.only_job()["pid"])))
            story.wait_for_rows(rows)
            starts = story.only_job()["starts"]
            spark = len(story.log_lines("executors_ready"))
        finally:
            load.end()
            story.command("stop", yarn.name)
        state = story.only_job()["state"]
        verified = story.verified()
        report = yarn.judge()
    tell(f"{report.line()}, Spark was ready {spark} times, the job is {state}")
    return {
        **counts_of(report, rows),
        "starts": starts,
        "without_manager": meanwhile > 0,
        "verified": verified and report.ok and state == "ended",
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000)
    rows: int = parser.parse_args().rows
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluiceway-yarn-client-") as folder:
        found = _run(rows, Path(folder))
    tell(f"took {time.monotonic() - began:.0f} s")
    print(json.dumps(found))
    told = {"starts": 2, "without_manager": True, "verified": True}
    return int(found != {"rows": rows, "lost": 0, "doubled": 0, **told})


if __name__ == "__main__":
    sys.exit(main())
