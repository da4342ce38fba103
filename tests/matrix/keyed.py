"""The scene of keyed tables: changes of a database go into a lake table, and a driver dies.

Drivers read a few changes an epoch, so that snapshots replace rows of earlier ones. The one behind
the fault gets a second topic. At the end the table has to be what the database is, row by row.
"""

from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.sql import SqlCatalog

from sluiceway.lab.lab import LabEndpoints
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.independent_reader import Report

FIRST = "faults_keyed_first"
SECOND = "faults_keyed_second"
_TABLE = "ods.t"
_CHANGES = 240
_RATE = "250/s"
_FROM = 5_000
_SECOND_ROWS = 40
_TIMEOUT_S = 180.0
_MOST_TOLD = 3


def fill(endpoints: LabEndpoints) -> list[tuple[object, ...]]:
    """Make the topics; the rows that the database has then."""
    admin = AdminClient({"bootstrap.servers": endpoints.bootstrap_servers, "log_level": 0})
    first, second = ChangeSource(17, partitions=2), ChangeSource(18, partitions=1)
    first.change(_CHANGES)
    # Topics of one table may not share keys.
    for number in range(_FROM, _FROM + _SECOND_ROWS):
        second.insert(number)
        if number % 3 == 0:
            second.update(number)
        if number % 4 == 0:
            second.delete(number)
    for topic, source in ((FIRST, first), (SECOND, second)):
        new = NewTopic(topic, num_partitions=source.partitions, replication_factor=1)
        admin.create_topics([new])[topic].result(_TIMEOUT_S)
        tell(endpoints.bootstrap_servers, topic, source.take())
    return sorted([*first.wanted(), *second.wanted()])


def job_text(endpoints: LabEndpoints, name: str, path: Path, *, both: bool) -> str:
    """The job file of a cell; the lake is every driver's of it, each has a folder of its own."""
    topics = f"{FIRST}, {SECOND}" if both else FIRST
    lake = path.parent.with_name("lake")
    lake.mkdir(exist_ok=True)
    sql = f'{{uri: "sqlite:///{lake}/catalog.db", warehouse: "file://{lake}/warehouse"}}'
    return f"""\
version: 1
name: {name}
connections:
  main: {{kafka: {{bootstrap_servers: "{endpoints.bootstrap_servers}"}}}}
  lake: {{iceberg: {{sql: {sql}}}}}
source: {{connection: main, topics: [{topics}], start: earliest, max_rate: {_RATE}}}
format: {{debezium: {{}}}}
table:
  iceberg: {{connection: lake, name: {_TABLE}, publish_interval: 1s}}
  key: [id]
  columns:
{KEYED_COLUMNS}
  partition_by: [{{column: id, transform: "bucket[2]"}}]
  meta: [topic, partition, offset]
run: {{interval: 0.5s, master: "local[2]"}}
"""


def judge(job: Path, wanted: list[tuple[object, ...]]) -> Report:
    """What a reader finds beside what the database has."""
    lake = job.parent.with_name("lake")
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse"
    )
    names = ("id", "name", "amount", "city")
    found = catalog.load_table(_TABLE).scan(selected_fields=names).to_arrow().select(list(names))
    rows: list[tuple[object, ...]] = [
        (a, b, str(c), d) for a, b, c, d in zip(*found.to_pydict().values(), strict=True)
    ]
    there, due = {row[0]: row for row in rows}, {row[0]: row for row in wanted}
    altered = [key for key in there.keys() & due.keys() if there[key] != due[key]]
    wrong = (Counter(rows) - Counter(wanted)) + (Counter(wanted) - Counter(rows))
    return Report(
        read=len(wanted),
        written=len(rows),
        lost=len(due.keys() - there.keys()),
        doubled=len(rows) - len(there),
        altered=len(altered),
        unknown=len(there.keys() - due.keys()),
        details=tuple(str(row) for row in list(wrong)[:_MOST_TOLD]),
    )
