"""A job that computes the hours of a table that another job fills."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.unit_jobs import UnitJobs
from sluiceway.host.java import find_java
from tools.job_files import JobFile, event
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

FIRST_MS, HOUR_MS = 1_795_161_600_000, 3_600_000
TIMES = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}"
SQL = "SELECT city, count(*) AS n, max(id) AS newest FROM input GROUP BY city"


def computed_hours(  # noqa: PLR0913 - a test names what it changes
    run: RouteRun,
    folder: Path,
    metastore_uri: str,
    sql: str = SQL,
    ready: str = "",
    *,
    connections: str = "",
    hive: str = "",
    more: str = "",
) -> RouteRun:
    """The job that computes the hours of a route's table; written again with another query.

    Args:
        run: Fills the table.
        folder: Where the job file goes.
        metastore_uri: Of both tables.
        sql: The query.
        ready: Its block `ready`, in braces; empty for none.
        connections: Further connections, as `write_job` takes them.
        hive: Further keys of `table.hive`, after a comma.
        more: Further keys of the block `run`, after a comma.
    """
    path = folder / f"{run.job.path.stem}-hourly.yaml"
    path.write_text(f"""\
version: 1
name: hourly
connections:
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
{connections}
source: {{table: {run.job.table}, mode: recompute, unit: [dt, hr], when: ready}}
transform:
  sql: {sql}
table: {{hive: {{connection: hms, name: {run.job.table}_hourly{hive}}}}}
run: {{interval: 0.5s, master: "local[2]"{more}}}
{f"ready: {ready}" if ready else ""}
""")
    return RouteRun(JobFile(path, f"{run.job.table}_hourly"))


def add_hours(job: JobFile, location: str) -> JobFile:
    """Let a small job compute the hours of its table too, by a second route `hourly`.

    Args:
        job: As `write_job` has made it, with `ready` and a table at `location`.
        location: On a store; the new table goes next to it.

    Returns:
        The same job, with the new table.
    """
    text, name, (topic,) = job.path.read_text(), f"{job.table}_hourly", job.route.topics
    for old in (f", topics: [{topic}]", f", name: {job.table}", f', location: "{location}"'):
        assert text.count(old) == 1, old
        text = text.replace(old, "")
    job.path.write_text(f"""\
{text}
routes:
- name: {topic.replace("_", "-")}
  topics: [{topic}]
  table: {{hive: {{name: {job.table}, location: "{location}"}}}}
- name: hourly
  source: {{table: {job.table}, mode: recompute, unit: [dt, hr]}}
  transform: {{sql: "{SQL}"}}
  table: {{hive: {{name: {name}, location: "{location}_hourly"}}, columns: from_sql}}
""")
    return JobFile(job.path, name)


def fill_hour(
    run: RouteRun, writer: TopicWriter, topic: str, numbers: range, hour: int = 0
) -> None:
    """Write rows of an hour, counted from the first one, and have them in the table.

    Args:
        run: Fills the table.
        writer: Writes to the topic.
        topic: The route's topic, of one partition.
        numbers: Ids; even ones are of Berlin, odd ones of Paris.
        hour: The hour.
    """
    ts_ms = FIRST_MS + hour * HOUR_MS
    rows = [event(n, ts_ms=ts_ms, city=("Berlin", "Paris")[n % 2]) for n in numbers]
    writer.write(topic, rows, partition=0)
    run.catch_up()


@contextmanager
def local_unit_jobs() -> Iterator[UnitJobs]:
    """Runs the SQL of units in a Spark of this process, and ends it."""
    context, log = start_context("units", "local[2]", {"spark.ui.enabled": "false"}, find_java())
    made = UnitJobs(context, "units")
    yield made
    made.close()
    context.stop()
    log.unlink(missing_ok=True)
