"""Keyed tables whose key nobody lists: the records' keys say it, or the schema of these."""

import json
import threading
import time
from pathlib import Path

import pytest

from sluiceway.audit.planned_route import foresee_route
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import JobFileError, KeyNotToldError, TableMismatchError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import load_job
from sluiceway.route.table_keys import with_table_key
from tools.avro_change_source import KEY_SCHEMA, VALUE_SCHEMA, AvroChangeSource
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.registry_server import Registry, registry_server
from tools.waiting import wait_for

BUCKETS = "[{column: id, transform: 'bucket[2]'}]"


def _job(folder: Path, servers: str, topic: str, key: str, **changes: str) -> LakeJob:
    given = {"columns": KEYED_COLUMNS, "partition_by": BUCKETS, "payload": "debezium: {}"}
    key = f"key: {key}"
    return write_lake_job(
        folder, bootstrap_servers=servers, topic=topic, key=key, **{**given, **changes}
    )


def _with_registry(folder: Path, servers: str, topic: str, key: str, registry: Registry) -> LakeJob:
    connections = f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}'
    payload = "debezium: {registry: reg}"
    return _job(folder, servers, topic, key, payload=payload, connections=connections)


def _route(job: LakeJob) -> RouteConfig:
    (route,) = compile_routes(load_job(job.path).spec).routes
    return route


def _told(job: LakeJob) -> tuple[str, ...]:
    key = with_table_key(_route(job)).key
    assert key is not None
    return key.columns


def _identifiers(job: LakeJob) -> set[str]:
    schema = job.load().schema()
    return {schema.find_column_name(number) or "" for number in schema.identifier_field_ids}


@pytest.mark.parametrize("with_schema", [False, True])
def test_json_keys_say_the_key_once(
    with_schema: bool,  # noqa: FBT001 - a parameter of pytest's
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    job = _job(tmp_path, bootstrap_servers, topic, "from_topic_key")
    source = ChangeSource(3, partitions=2, with_schema=with_schema)
    source.change(120)
    tell(bootstrap_servers, topic, source.take())
    assert foresee_route(_route(job)).config.key == with_table_key(_route(job)).key
    job.catch_up()
    assert _identifiers(job) == {"id"}
    source.change(120)
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    rows = job.rows("id", "name", "amount", "city")
    assert [(r[0], r[1], str(r[2]), r[3]) for r in rows] == source.wanted()
    assert job.verified().problems == []
    # The table has said it: records of another key change nothing.
    tell(bootstrap_servers, topic, {0: [(b'{"other":1}', None)] * 300})
    assert _told(job) == ("id",)


@pytest.mark.parametrize("key", ["from_topic_key", "from_registry"])
def test_schemas_of_avro_keys_say_the_key(
    key: str, bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(2)
    with registry_server() as registry:
        ids = (
            registry.add(f"{topic}-key", KEY_SCHEMA),
            registry.add(f"{topic}-value", VALUE_SCHEMA),
        )
        job = _with_registry(tmp_path, bootstrap_servers, topic, key, registry)
        source = AvroChangeSource(21, ids=ids, partitions=2)
        source.change(200)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        assert _identifiers(job) == {"id"}
        rows = job.rows("id", "name", "amount", "city")
        assert [(r[0], r[1], str(r[2]), r[3]) for r in rows] == source.wanted()
        assert job.verified().problems == []
        other = {"type": "record", "name": "Key", "fields": [{"name": "name", "type": "string"}]}
        registry.add(f"{topic}-key", json.dumps(other))
        if key == "from_registry":
            with pytest.raises(TableMismatchError, match="the table's is id"):
                _told(job)
        else:
            assert _told(job) == ("id",)


def test_a_route_waits_for_the_first_key(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = _job(tmp_path, bootstrap_servers, topic, "from_topic_key")
    with pytest.raises(KeyNotToldError):
        _told(job)
    stop = StopSignal()
    running = threading.Thread(target=lambda: job.run(stop, bounded=False))
    running.start()
    try:
        time.sleep(1)
        assert not job.ledger_is_there()
        source = ChangeSource(3)
        source.change(40)
        tell(bootstrap_servers, topic, source.take())
        wait_for(job.ledger_is_there)
        wait_for(lambda: len(job.rows("id")) == len(source.wanted()))
    finally:
        stop.ask()
        running.join()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([b'{"nowhere":1}'], "no column reads its field nowhere"),
        ([b'{"id":1}', b'{"name":"a"}'], "not all have the same fields"),
        ([b'"text"'], "has no fields"),
    ],
)
def test_keys_that_cannot_be_the_tables_are_refused(
    keys: list[bytes], said: str, bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = _job(tmp_path, bootstrap_servers, topic, "from_topic_key")
    tell(bootstrap_servers, topic, {0: [(key, b"{}") for key in keys]})
    with pytest.raises(JobFileError, match=said):
        _told(job)


def test_maxwells_keys_say_it_behind_their_prefix(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = _job(tmp_path, bootstrap_servers, topic, "from_topic_key", payload="maxwell: {}")
    key = b'{"database":"shop","table":"orders","pk.id":1}'
    tell(bootstrap_servers, topic, {0: [(key, None)]})
    assert _told(job) == ("id",)
