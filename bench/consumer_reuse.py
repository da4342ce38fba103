"""How often a task goes on with its partitions' consumer: in one JVM, and on two executors.

Takes standard events in by epochs of a second, until caught up, once with `local` and once on a
standalone Spark cluster of two workers with an executor of one core each. A run counts only when
its table was compared with the rule of its topic.

`python -m bench.consumer_reuse [--records 4000000]` ends with one JSON line.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.check_output import WrongOutputError
from bench.ours import JobChoices, check_ours, job_text, run_ours
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, expected_totals, fill_topic
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.lab.support import LOOPBACK

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools.spark_cluster import ClusterError, spark_cluster

TOPIC = "events"
WORKLOAD = "standard"
TOPIC_PARTITIONS = 8
INTERVAL = "1s"


def take_in(endpoints: LabEndpoints, folder: Path, master: str, records: int) -> Mapping[str, int]:
    """Run a job on the topic to its end, and compare its table.

    Returns:
        Epochs with rows, their tasks, and those that went on with a consumer.

    Raises:
        WrongOutputError: The run failed, or its output is not its input.
    """
    folder.mkdir(parents=True)
    workload, table = WORKLOADS[WORKLOAD], folder / "table"
    choices = JobChoices(INTERVAL, master)
    job = folder / "job.yaml"
    job.write_text(
        job_text(workload, endpoints, choices, topic=TOPIC, name=folder.name, location=table)
    )
    run = run_ours(job, table, choices)
    check_ours(table, workload, expected_totals(workload, records), records)
    return {"epochs": run.epochs, "tasks": run.tasks, "reused": run.consumers_reused}


def main() -> int:
    """Run both and print them."""
    parser = argparse.ArgumentParser(prog="python -m bench.consumer_reuse")
    parser.add_argument("--records", type=int, default=4_000_000)
    records = parser.parse_args().records
    end_tidily()
    # The machine's own name may lead elsewhere; executors look for the driver by it.
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    found: dict[str, Mapping[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="consumer-reuse-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", cache=default_cache_folder(os.environ))
        try:
            endpoints = lab.up()
            create_topic(endpoints.bootstrap_servers, TOPIC, partitions=TOPIC_PARTITIONS)
            fill_topic(endpoints.bootstrap_servers, TOPIC, WORKLOAD, records)
            found["local"] = take_in(endpoints, folder / "on-local", "local", records)
            with spark_cluster(folder / "cluster") as cluster:
                there = folder / "on-executors"
                found["executors"] = take_in(endpoints, there, cluster.url, records)
        except (WrongOutputError, ClusterError) as error:
            print(f"no measurement: {error}", file=sys.stderr)
            return 1
        finally:
            lab.down()
    ratios = {
        name: round(one["reused"] / one["tasks"], 3) if one["tasks"] else None
        for name, one in found.items()
    }
    print(json.dumps({"records": records, "reuse": ratios, "runs": found, "verified": True}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
