"""A keyed table that something else has filled goes on from the position of its rows."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job

LOADED = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(18, 2)),
        pa.field("city", pa.string()),
        pa.field("_source_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
    ]
)


def _load(job: LakeJob, source: ChangeSource) -> None:
    """What `INSERT INTO ... SELECT` from the database leaves: rows without a position."""
    catalog = job.catalog()
    catalog.create_namespace_if_not_exists("ods")
    rows = [
        {"id": row[0], "name": row[1], "amount": Decimal(str(row[2])), "city": row[3]}
        for row in source.wanted()
    ]
    catalog.create_table(job.table, LOADED).append(pa.Table.from_pylist(rows, schema=LOADED))


def _found(job: LakeJob) -> list[tuple[object, ...]]:
    rows = job.rows("id", "name", "amount", "city")
    return [(row[0], row[1], str(row[2]), row[3]) for row in rows]


@pytest.mark.parametrize("overlap", [0, 40], ids=["exact", "from-before"])
def test_loaded_table_equals_the_database_after_changes_from_its_position_on(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path, *, overlap: int
) -> None:
    topic = new_topic(1)
    source = ChangeSource(21)
    source.change(200)
    told = source.take()
    tell(bootstrap_servers, topic, told)
    position = len(told[0]) - overlap
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[]",
        payload="debezium: {}",
        key="key: [id]",
    )
    text = job.path.read_text()
    begins = f"start: {{offsets: {{{topic}: {{0: {position}}}}}}}"
    job.path.write_text(text.replace("start: earliest", begins))
    _load(job, source)
    job.catch_up()
    assert _found(job) == source.wanted()
    for _ in range(2):
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        assert _found(job) == source.wanted()
    assert job.verified().problems == []
