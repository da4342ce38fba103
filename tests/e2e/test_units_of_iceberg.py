"""Units of an Iceberg table that a job fills from a topic, computed by Spark into a Hive table."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluiceway.driver.spark.unit_jobs import UnitJobs
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.lake_chain import merge_files_of
from tools.lake_jobs import write_lake_job
from tools.lake_orders import START_MS, order
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.unit_jobs import HOUR_MS, TIMES, local_unit_jobs

pytestmark = [
    pytest.mark.slow,
    # py4j leaves the sockets of threads that have ended to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LAKE_SQL = (
    "SELECT city, count(*) AS n, max(ts) AS newest, sum(amount) AS total, sum(size(tags)) AS tags, "
    "max(geo.small) AS small FROM input GROUP BY city"
)


@pytest.fixture
def units() -> Iterator[UnitJobs]:
    with local_unit_jobs() as made:
        yield made


def test_hours_of_an_iceberg_table_are_computed_by_spark(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    units: UnitJobs,
    tmp_path: Path,
) -> None:
    topic, writer = new_topic(1), TopicWriter(bootstrap_servers)
    lake = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        partition_by='[{name: dt, event_time: "yyyyMMdd"}, {name: hr, event_time: "HH"}]',
        event_time=TIMES.replace(", unit: ms", ""),
        more="ready: {visible: on_commit}",
    )
    writer.write(topic, [order(n) for n in range(4)])
    lake.catch_up()
    writer.write(topic, [order(n) for n in range(4, 6)])
    writer.write(topic, [order(6, ts_ms=START_MS + HOUR_MS)])
    lake.catch_up()
    merge_files_of(lake.load())
    name = f"{lake.table}_hourly"
    catalog = f'sql: {{uri: "{lake.uri}", warehouse: "file://{tmp_path}/warehouse"}}'
    path = tmp_path / "hourly.yaml"
    path.write_text(f"""\
version: 1
name: hourly
connections: {{lake: {{iceberg: {{{catalog}}}}}, hms: {{metastore: {{uri: "{metastore_uri}"}}}}}}
source: {{connection: lake, table: {lake.table}, mode: recompute, unit: [dt, hr]}}
transform: {{sql: "{LAKE_SQL}"}}
table: {{hive: {{connection: hms, name: {name}}}}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    hours = RouteRun(JobFile(path, name))
    hours.catch_up(units=units)
    (row,) = hours.rows("city, n, newest, CAST(total AS VARCHAR), tags, small")
    began = datetime.fromtimestamp(START_MS / 1000, UTC).replace(tzinfo=None)
    assert row == ("Berlin", 6, began, "16.50", 12, 5)
    hours.assert_verified()
