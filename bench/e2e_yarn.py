"""A job on YARN in cluster mode while its ApplicationMaster and a node manager are killed.

HDFS, YARN with two node managers, metastore and Kafka are real processes of a lab. `sluiceway
submit --deploy cluster` hands the job over; its table lies on HDFS. While rows come, the
ApplicationMaster, which is the driver, is killed twice, with its Python; then the node manager
that does not run it, with its executors. At the end every record of the topic is looked for in
the table's files. With `--sql` the job has SQL: its executors read what others have landed. A
second route computes the table's hours, and the ApplicationMaster is killed once more when they
are complete.

`python -m bench.e2e_yarn [--rows 6000] [--sql]` tells what it does on standard error and ends with
one JSON line; 1 is the exit code when anything is wrong.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from bench.cluster_load import PARTITIONS, Story, counts_of, tell
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from bench.yarn_story import YarnStory, kill_tree, yarn_story
from sluiceway.cluster.yarn import YarnUser, yarn_attempts
from sluiceway.lab.yarn import NODE_MANAGERS

_PER_S = 50
_MASTER_CLASS = b"deploy.yarn.ApplicationMaster"


def _master(yarn: YarnStory) -> tuple[str, int]:
    """Which node manager runs the driver, and the JVM's pid.

    Raises:
        RunFailedError: None does.
    """
    found = yarn.jvms(_MASTER_CLASS)
    if not found:
        raise RunFailedError("no ApplicationMaster runs")
    return found[0]


def _kill_other_node(yarn: YarnStory) -> None:
    """As when a machine dies: the node manager and the executors that it runs."""
    busy, _ = _master(yarn)
    name = next(each for each in NODE_MANAGERS if each != busy)
    tell(f"killing {name}, with its executors")
    kill_tree(yarn.node_pid(name))


def _compute_hours(yarn: YarnStory, application: str, user: YarnUser) -> int:
    """Complete the hours, kill the driver that begins with them; how many are right in the end."""
    story, load, sent = yarn.story, yarn.load, yarn.load.written
    before = yarn_attempts(application, user)
    load.close_hours()
    story.wait_for_rows(load.written)
    tell("killing the ApplicationMaster, whose hours are complete")
    kill_tree(_master(yarn)[1])
    story.wait_until(lambda: yarn_attempts(application, user) > before, "new attempt")
    # Four hours without rows lie between those two and the rows that complete them.
    story.wait_until(lambda: _units(story) == {"computed": 6, "due": 0, "open": 1}, "six hours")
    found = yarn.computed_hours()
    tell(f"hours: {found}")
    wanted = [(hour, "Bonn", sent // 2, sent - 2 + n) for n, hour in enumerate(("08", "09"))]
    return sum(each in found for each in wanted) if len(found) == len(wanted) else 0


def _units(story: Story) -> object:
    upstreams = [route["upstream"] for route in story.routes() if route.get("upstream")]
    return upstreams[0].get("units") if upstreams else None


def _run(rows: int, folder: Path, *, sql: bool) -> dict[str, object]:
    with yarn_story(folder, sql=sql) as yarn:
        story, load = yarn.story, yarn.load
        load.burst(rows // 10)
        tell("submitting: the environment is packed and uploaded")
        answer = story.command("submit", str(story.job.path), "--deploy", "cluster", "-o", "json")
        application, user = json.loads(answer)["cluster_id"], YarnUser(yarn.config_dir)
        story.wait_for_rows(load.written)
        thread = load.trickle(rows, per_s=_PER_S)
        for number in (1, 2):
            tell(f"killing the ApplicationMaster, {number} of 2")
            # As when its machine's memory is over: JVM and Python at once.
            kill_tree(_master(yarn)[1])
            story.wait_until(
                lambda number=number: yarn_attempts(application, user) > number,
                "new attempt",
            )
            # All that there is now: the new driver has taken over.
            story.wait_for_rows(load.written)
        _kill_other_node(yarn)
        story.wait_for_rows(load.written + 1 if load.written < rows else rows)
        thread.join()
        story.wait_for_rows(rows)
        hours = {"hours": _compute_hours(yarn, application, user)} if sql else {}
        attempts = yarn_attempts(application, user)
        story.command("stop", yarn.name)
        verified = story.verified()
        report = yarn.judge()
    tell(report.line())
    return {
        **counts_of(report, load.written),
        **hours,
        "attempts": attempts,
        "verified": verified and report.ok,
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--sql", action="store_true")
    asked = parser.parse_args()
    rows: int = asked.rows
    # Some of what runs reaches the driver by its address.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="sluiceway-yarn-") as folder:
        found = _run(rows, Path(folder), sql=asked.sql)
    print(json.dumps(found))
    expected = {"rows": rows, "lost": 0, "doubled": 0, "attempts": 3, "verified": True}
    if asked.sql:
        expected |= {"rows": rows + PARTITIONS, "hours": 2, "attempts": 4}
    return int(found != expected)


if __name__ == "__main__":
    sys.exit(main())
