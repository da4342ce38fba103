"""Compacted topics of whole rows in Avro and Protobuf, on a real broker, as a new user meets them.

`infer` says the columns, `plan` and `preview` what would be, and the table is what each key was
last, whenever the driver dies.
"""

from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from tools.avro_change_source import KEY_SCHEMA, ROW_SCHEMA, AvroRowSource
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.protobuf_change_source import KEY_PROTO, ROW_PROTO, ProtobufRowSource
from tools.registry_server import Registry, registry_server
from tools.test_plan import slow_after

_BARE = "bare [id]"


def _job(folder: Path, registry: Registry, servers: str, topic: str, **more: str) -> LakeJob:
    return write_lake_job(
        folder,
        bootstrap_servers=servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[{column: id, transform: 'bucket[2]'}]",
        connections=f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}',
        **more,
    )


def _source(registry: Registry, topic: str, kind: str, key: str) -> ChangeSource:
    # Avro writes a record of one number as it writes the number.
    keys = '"long"' if key == _BARE else KEY_SCHEMA
    schemas = {"avro": (keys, ROW_SCHEMA), "protobuf": (KEY_PROTO, ROW_PROTO)}[kind]
    ids = [
        registry.add(f"{topic}-{part}", schema, kind=kind.upper())
        for part, schema in zip(("key", "value"), schemas, strict=True)
    ]
    made = AvroRowSource if kind == "avro" else ProtobufRowSource
    return made(31, ids=(ids[0], ids[1]), partitions=2)


def _asked(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert run_command(list(command)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "key"),
    slow_after(
        3,
        [
            ("avro", "from_registry"),
            ("protobuf", "from_topic_key"),
            ("avro", _BARE),
            ("protobuf", "[id]"),
        ],
    ),
)
def test_a_compacted_topic_with_a_registry_is_the_table(
    kind: str,
    key: str,
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(2)
    with registry_server() as registry:
        source = _source(registry, topic, kind, key)
        job = _job(
            tmp_path,
            registry,
            bootstrap_servers,
            topic,
            payload=f"{kind}: {{registry: reg}}",
            key=f"key: {key.removeprefix('bare ')}",
        )
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        told = _asked(capsys, "infer", f"{topic}-value", "--registry", registry.url)
        assert "{name: id, type: bigint" in told
        amount = '"decimal(18,2)"' if kind == "avro" else "string"
        assert f"{{name: amount, type: {amount}" in told
        assert "CREATE TABLE" in _asked(capsys, "plan", str(job.path))
        seen = _asked(capsys, "preview", str(job.path), "-n", "400", "--from", "oldest")
        assert ", 0 dirty" in seen
        drive_until_killed(job, tmp_path / "marks", "lake.send.reply")
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        assert drive(job) == 0
        rows = job.rows("id", "name", "amount", "city")
        assert [(r[0], r[1], str(r[2]), r[3]) for r in rows] == source.wanted()
        report = job.verified()
        assert run_command(["maintain", str(job.path), "--keep", "1d"]) == 0
    assert report.problems == []
    assert report.dirty_rows == 0


def test_infer_and_preview_of_a_compacted_topic_of_json(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(1)
    log = [(b'{"id":%d}' % n, b'{"id":%d,"city":"Oslo"}' % n) for n in range(4)]
    tell(bootstrap_servers, topic, {0: [*log, (b'{"id":1}', None)]})
    told = _asked(capsys, "infer", topic, "--bootstrap-servers", bootstrap_servers)
    assert "{name: id, type: bigint}" in told
    assert "{name: city, type: string}" in told
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns="    - {name: id, type: bigint}\n    - {name: city, type: string}",
        partition_by="[]",
        payload="json: {}",
        key="key: [id]",
    )
    seen = _asked(capsys, "preview", str(job.path), "--from", "oldest")
    assert "5 records" in seen
    assert ", 0 dirty; nothing" in seen
    assert [line.split()[1] for line in seen.splitlines()[:6]] == ["CHANGE", *["row"] * 4, "delete"]
    assert "_sluiceway_kind" not in seen
    job.catch_up()
    assert job.rows("id") == [(0,), (2,), (3,)]
