"""On a real Spark: a slot keeps its Python worker; an application that Spark ends is lost."""

import gc
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from pyspark import SparkContext

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_errors import ended
from sluiceway.driver.spark.spark_jobs import JobLabel, collected, task_places
from sluiceway.driver.spark.spark_runner import SparkRunner
from sluiceway.errors import RunnerLostError, TaskFailedError
from sluiceway.host.java import find_java
from sluiceway.observe.log import stderr_log
from tools.spark_cluster import spark_cluster
from tools.work_functions import own_pid

# Py4J leaves the connections of threads that have ended to the collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]
LABEL = JobLabel("slots", "", "slots")
TIMEOUT_S = 120.0


@contextmanager
def application(kind: str, folder: Path) -> Iterator[SparkContext]:
    cluster = spark_cluster(folder / "cluster") if kind == "executors" else nullcontext(None)
    with pytest.MonkeyPatch.context() as patch:
        # Workers find the function as this process does; executors look for the driver by a name.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        with cluster as found:
            url = "local[2]" if found is None else found.url
            context, _ = start_context("slots", url, {}, find_java())
            try:
                yield context
            finally:
                context.stop()
                gc.collect()


@pytest.mark.parametrize(("kind", "executors"), [("local", {""}), ("executors", {"0", "1"})])
def test_slot_keeps_its_python_worker(kind: str, executors: set[str], tmp_path: Path) -> None:
    with application(kind, tmp_path) as context:

        def pids(*slots: int) -> list[int]:
            places = task_places(context, slots, owned=True)
            shares = [b""] * len(slots)
            return [int(pid) for pid in collected(context, LABEL, shares, own_pid, None, places)]

        deadline = time.monotonic() + TIMEOUT_S
        while {place.executor for place in task_places(context, (0, 1), owned=True)} != executors:
            assert time.monotonic() < deadline, f"executors {executors} did not come"
            time.sleep(0.05)
        first, second = pids(0, 1)
        assert first != second
        for _ in range(3):
            # Spark itself would give a task alone to the worker that has rested longest.
            assert [pids(0), pids(0), pids(1), pids(1)] == [[first]] * 2 + [[second]] * 2
            assert pids(1, 0) == [second, first]


def test_application_that_its_cluster_has_killed_is_lost(tmp_path: Path) -> None:
    with application("local", tmp_path) as context:
        assert ended(context, TaskFailedError("a task died")) is None
        runner = SparkRunner(context, stderr_log(stream=io.StringIO()), owned=False)
        # As Spark does it where an operator kills the application.
        context._jsc.sc().stop()
        with pytest.raises(RunnerLostError, match="Spark has ended the application"):
            runner.run([()], wait=lambda: None, give_up_after_s=TIMEOUT_S)
        with pytest.raises(RunnerLostError):
            runner.slots()
        runner.close()
