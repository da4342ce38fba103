"""Debezium's changes in Avro, on a real broker: a table by its key, and the log of changes."""

from datetime import datetime, timedelta
from pathlib import Path

from tools.avro_change_source import KEY_SCHEMA, VALUE_SCHEMA, AvroChangeSource, moment_us
from tools.change_source import KEYED_COLUMNS, Change, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.registry_server import Registry, registry_server

COLUMNS = f"""{KEYED_COLUMNS}
    - {{name: at, type: timestamp, timezone: UTC}}"""


def _job(
    folder: Path, registry: Registry, bootstrap_servers: str, topic: str, **changes: str
) -> LakeJob:
    given = {
        "columns": COLUMNS,
        "partition_by": "[{column: id, transform: 'bucket[2]'}]",
        "payload": "debezium: {registry: reg}",
        "key": "key: [id]",
        **changes,
    }
    job = write_lake_job(folder, bootstrap_servers=bootstrap_servers, topic=topic, **given)
    text = job.path.read_text()
    found = f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}\nsource:'
    job.path.write_text(text.replace("source:", found, 1))
    return job


def _source(registry: Registry, seed: int, partitions: int = 1) -> AvroChangeSource:
    ids = registry.add("k", KEY_SCHEMA), registry.add("v", VALUE_SCHEMA)
    return AvroChangeSource(seed, ids=ids, partitions=partitions)


def _assert_equal(job: LakeJob, source: AvroChangeSource) -> None:
    found = job.rows("id", "name", "amount", "city")
    assert [(r[0], r[1], str(r[2]), r[3]) for r in found] == source.wanted()
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - the table's times are in UTC, without a zone
    moments = {
        row["id"]: epoch + timedelta(microseconds=moment_us(row)) for row in source.rows.values()
    }
    assert dict(job.rows("id", "at")) == moments  # type: ignore[arg-type]


def test_a_table_equals_the_database_whenever_the_driver_is_killed(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(2)
    with registry_server() as registry:
        job = _job(tmp_path, registry, bootstrap_servers, topic)
        source = _source(registry, 21, partitions=2)
        for point in ("lake.placed", "lake.send.reply"):
            source.change(200)
            tell(bootstrap_servers, topic, source.take())
            drive_until_killed(job, tmp_path / f"marks-{point}", point)
            assert drive(job) == 0
            _assert_equal(job, source)
        assert job.verified().problems == []


def test_a_log_has_each_change(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    columns = f"{COLUMNS}\n    - {{name: op, type: string, path: $.op}}"
    with registry_server() as registry:
        job = _job(tmp_path, registry, bootstrap_servers, topic, columns=columns, key="")
        source = _source(registry, 4)
        source.change(100, ids=10)
        (log,) = source.take().values()
        tell(bootstrap_servers, topic, {0: log})
        job.catch_up()
    rows = sorted(job.rows("_offset", "op", "id"))
    assert len(rows) == sum(value is not None for _, value in log)
    assert {row[1] for row in rows} == {"c", "u", "d"}
    assert [row[0] for row in rows] == [n for n, (_, value) in enumerate(log) if value is not None]


def test_a_key_that_is_not_the_rows_is_dirty(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    with registry_server() as registry:
        job = _job(tmp_path, registry, bootstrap_servers, topic)
        source = _source(registry, 4)
        for number in range(4):
            source.insert(number)
        ((first, second, third, fourth),) = source.take().values()
        records: list[Change] = [
            first,
            (third[0], second[1]),
            (b'{"id":2}', third[1]),
            (b"", fourth[1]),
        ]
        tell(bootstrap_servers, topic, {0: records})
        job.catch_up()
        assert [row[0] for row in job.rows("id")] == [0]
        report = job.verified()
    assert report.problems == []
    assert report.dirty_rows == 3
