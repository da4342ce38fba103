"""Values as partitions of real tables: through a topic and a task, read by Spark and by pyarrow."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
from confluent_kafka.admin import AdminClient, NewTopic

from partition_oracle.ours import Tally
from sluiceway.lab.lab import LabEndpoints
from sluiceway.sinks.partition_path import DEFAULT_PARTITION
from tools.job_files import JobFile, write_job
from tools.route_runs import RouteRun
from tools.table_proofs import spark_sql
from tools.topic_writer import TopicWriter

_SPARK_TIMEOUT_S = 1800.0
_STARTS = 10
_TEXT_COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: city, type: string}
"""
_TYPED_COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: n, type: bigint}
    - {name: x, type: "decimal(18,4)"}
    - {name: d, type: date}
"""
Typed = tuple[int, Decimal, date]


def write_texts(lab: LabEndpoints, folder: Path, texts: Sequence[str], tally: Tally) -> int:
    """Make each text, and null, a partition; a row each.

    Returns:
        Partitions that both readers have read.
    """
    values: list[str | None] = [*texts, None]
    rows = [{"id": number, "city": value} for number, value in enumerate(values)]
    job = _filled(lab, folder, rows, _TEXT_COLUMNS, "[{name: place, column: city}]")
    root = RouteRun(job).root()
    _look_for_strays(root, "place=", len(values), tally)
    _look_for_files_elsewhere(lab.warehouse, root, job, tally)
    (through_spark,) = spark_sql(
        lab.metastore_uri,
        f"SELECT id, place FROM {job.table}",  # noqa: S608 - a name of our own
        timeout_s=_SPARK_TIMEOUT_S,
    )
    by_spark = {row[0]: row[1] for row in through_spark}
    by_arrow = _by_arrow(root, pa.schema([("place", pa.string())]))
    for number, value in enumerate(values):
        _compare("Spark", by_spark.get(number, ("no row",)), value, tally)
        _compare("pyarrow", by_arrow.get(number, ({},))[0].get("place"), value, tally)
    if not len(by_spark) == len(by_arrow) == len(values):
        tally.unequal += 1
        tally.tell("rows read", (len(by_spark), len(by_arrow), len(values)))
    return len(values)


def write_typed(lab: LabEndpoints, folder: Path, values: Sequence[Typed], tally: Tally) -> int:
    """Make each triple of a number, a decimal and a day a partition; a row each."""
    rows = [
        {"id": number, "n": n, "x": f"{x:f}", "d": d.isoformat()}
        for number, (n, x, d) in enumerate(values)
    ]
    by = "[{name: n, column: n}, {name: x, column: x}, {name: d, column: d}]"
    job = _filled(lab, folder, rows, _TYPED_COLUMNS, by)
    root = RouteRun(job).root()
    _look_for_strays(root, "n=", len({n for n, _, _ in values}), tally)
    (through_spark,) = spark_sql(
        lab.metastore_uri,
        f"SELECT id, n, string(x), string(d) FROM {job.table}",  # noqa: S608 - as above
        timeout_s=_SPARK_TIMEOUT_S,
    )
    by_spark = {row[0]: (row[1], Decimal(row[2]), row[3]) for row in through_spark}
    # It makes no decimals of folders' names: a reader casts the text.
    kinds = pa.schema([("n", pa.int64()), ("x", pa.string()), ("d", pa.date32())])
    by_arrow = _by_arrow(root, kinds)
    for number, (n, x, d) in enumerate(values):
        _compare("Spark", by_spark.get(number), (n, x, d.isoformat()), tally)
        found = by_arrow.get(number, ({},))[0]
        read = (found.get("n"), found.get("x"), found.get("d"))
        _compare("pyarrow", read, (n, f"{x:f}", d), tally)
    return len(values)


def _filled(
    lab: LabEndpoints,
    folder: Path,
    rows: Sequence[Mapping[str, object]],
    columns: str,
    partition_by: str,
) -> JobFile:
    topic = f"values_{uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(60)
    TopicWriter(lab.bootstrap_servers).write(
        topic, [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    )
    job = write_job(
        folder,
        bootstrap_servers=lab.bootstrap_servers,
        metastore_uri=lab.metastore_uri,
        topic=topic,
        columns=columns,
        partition_by=partition_by,
        event_time="",
        interval="10s",
    )
    # Each row is a partition of its own. A run ends when all is committed; what the metastore has
    # not taken by then, the next one tells it.
    for _ in range(_STARTS):
        RouteRun(job).catch_up()
        if len(RouteRun(job).partitions()) == len(rows):
            break
    return job


def _look_for_strays(root: Path, begins: str, folders: int, tally: Tally) -> None:
    """The table's folder holds partitions of the first column and its ledger, nothing else."""
    found = {entry.name for entry in os.scandir(root)} - {"_sluiceway"}
    strays = [name for name in found if not name.startswith(begins)]
    if strays or len(found) != folders:
        tally.escaped += max(1, len(strays))
        tally.tell("folders", (len(found), folders, strays[:5]))


def _look_for_files_elsewhere(warehouse: Path, root: Path, job: JobFile, tally: Tally) -> None:
    route = job.route.route
    for path in warehouse.parent.rglob(f"*{route}-*.parquet"):
        if root not in path.parents:
            tally.escaped += 1
            tally.tell("file", path)


def _by_arrow(root: Path, kinds: pa.Schema) -> dict[int, list[dict[str, object]]]:
    partitioning = ds.HivePartitioning(kinds, null_fallback=DEFAULT_PARTITION)
    table = ds.dataset(root, format="parquet", partitioning=partitioning).to_table(
        columns=["id", *kinds.names]
    )
    found: dict[int, list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["id"], []).append(row)
    return found


def _compare(reader: str, found: object, value: object, tally: Tally) -> None:
    if found != value:
        tally.unequal += 1
        tally.tell(f"{reader} read {found!r} instead of", value)
