"""`init`: job files that are valid and fill a table without a dirty row, from real servers."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import LabEndpoints
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob
from tools.registry_server import Registry, registry_server
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

AT_MS = 1_795_161_600_000


def payload(number: int) -> bytes:
    body = {"id": number, "at": AT_MS + number, "price": number / 4, "when": "2026-11-20T08:00:00Z"}
    return json.dumps(body).encode()


@pytest.fixture(autouse=True)
def _servers(lab_endpoints: LabEndpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", lab_endpoints.bootstrap_servers)
    monkeypatch.setenv("SLUICEWAY_METASTORE", lab_endpoints.metastore_uri)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def topic(new_topic: TopicFactory, writer: TopicWriter) -> str:
    name = new_topic(2)
    writer.write(name, [payload(n) for n in range(20)], partition=0)
    return name


def test_file_that_is_written_validates_and_fills_the_table(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f"ods.{topic}"
    assert run_command(["init", topic, "--table", table, "--yes"]) == 0
    path = Path(f"{topic}.yaml")
    assert f"wrote {path}" in capsys.readouterr().out
    text = path.read_text()
    assert "{name: at, type: timestamp, unit: ms, required: true} # When a row happened." in text
    assert "{name: id, type: bigint}" in text
    assert "# ready:" in text
    assert run_command(["validate", str(path)]) == 0
    path.write_text(text.replace("interval: 10s", "interval: 0.5s"))
    run = RouteRun(JobFile(path, table))
    run.catch_up()
    assert run.dirty() == []
    assert run.rows('id, "_offset"') == [(n, n) for n in range(20)]
    assert set(run.partitions()) == {"20261120/08"}
    run.assert_verified()


def test_file_that_is_there_is_not_replaced(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(f"{topic}.yaml")
    path.write_text("mine")
    assert run_command(["init", topic, "--yes"]) == 2
    assert path.read_text() == "mine"
    assert "--out FILE" in capsys.readouterr().err


def test_what_is_missing_is_named_where_nobody_can_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command(["init", "--yes"]) == 2
    assert "TOPIC is missing" in capsys.readouterr().err
    monkeypatch.delenv("SLUICEWAY_KAFKA")
    assert run_command(["init", "orders", "--yes"]) == 2
    assert "--bootstrap-servers is missing" in capsys.readouterr().err


def test_chosen_event_time_and_announced_hours_are_in_the_file(topic: str) -> None:
    wanted = ["--event-time", "when", "--ready", "--out", "job.yaml"]
    assert run_command(["init", topic, *wanted, "--yes"]) == 0
    text = Path("job.yaml").read_text()
    assert "event_time: {field: when, " in text
    assert "\nready: {success_file: true}" in text
    assert "{name: at, type: bigint} # DOUBT: may be ms" in text


def test_field_that_is_no_time_is_refused_with_those_that_are(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["init", topic, "--event-time", "price", "--yes"]) == 2
    told = capsys.readouterr().err
    assert "`price` cannot say when a row happened: 2 decimals at most" in told
    assert "these can: at, when, $record_time" in told
    assert not Path(f"{topic}.yaml").exists()


@pytest.mark.parametrize(("field", "dirty"), [("trip.at", 0), ("trip.ms", 0), ("at", 1)])
def test_time_inside_of_a_struct_or_with_a_few_other_values_fills_the_table(
    field: str, dirty: int, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    name = new_topic(1)
    trip = {"at": "2026-11-20T08:00:00Z", "ms": AT_MS}
    rows = [{"id": n, "at": "soon" if n == 1 else trip["at"], "trip": trip} for n in range(4)]
    writer.write(name, [json.dumps(row).encode() for row in rows])
    assert run_command(["init", name, "--event-time", field, "--yes"]) == 0
    path = Path(f"{name}.yaml")
    path.write_text(path.read_text().replace("interval: 10s", "interval: 0.5s"))
    run = RouteRun(JobFile(path, f"ods.{name}"))
    run.catch_up()
    assert len(run.dirty()) == dirty
    assert run.rows("id") == [(n,) for n in range(4) if n != 1 or not dirty]
    assert set(run.partitions()) == {"20261120/08"}


def test_table_that_exists_says_columns_and_partitions(topic: str) -> None:
    table = f"ods.{topic}"
    assert run_command(["init", topic, "--table", table, "--out", "first.yaml", "--yes"]) == 0
    first = Path("first.yaml")
    first.write_text(first.read_text().replace("interval: 10s", "interval: 0.5s"))
    RouteRun(JobFile(first, table)).catch_up()
    assert run_command(["init", topic, "--table", table, "--out", "again.yaml", "--yes"]) == 0
    text = Path("again.yaml").read_text()
    assert "columns: from_table" in text
    assert "- {name: dt, event_time: yyyyMMdd}\n    - {name: hr, event_time: HH}" in text
    # A timestamp of the table cannot be read from a number: the other time is.
    assert "event_time: {field: when, " in text
    assert "meta: [topic, partition, offset, timestamp]" in text
    # Nothing changes, but a next record like these would halt the route.
    assert run_command(["plan", "again.yaml", "--detailed-exitcode"]) == 4


def test_avro_with_a_registry_takes_its_columns_from_there(
    new_topic: TopicFactory, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    name = new_topic(1)
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    with registry_server(Registry()) as registry:
        number = registry.add(f"{name}-value", json.dumps(schema))
        writer.write(name, [b"\0" + number.to_bytes(4, "big") + b"\x02"])
        assert run_command(["init", name, "--yes"]) == 2
        assert f"schema {number} of a registry" in capsys.readouterr().err
        assert run_command(["init", name, "--registry", registry.url, "--yes"]) == 0
        text = Path(f"{name}.yaml").read_text()
        assert "format: {avro: {registry: registry}}" in text
        assert "columns: from_registry" in text
        assert "event_time: {field: $record_time, " in text
        assert run_command(["preview", f"{name}.yaml"]) == 0
        assert "1 record, 1 row, 0 dirty" in capsys.readouterr().out


def test_terminal_is_asked_for_what_is_not_given(topic: str) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sluiceway", "init", "--out", "asked.yaml"]
    with subprocess.Popen(
        command, stdin=follower, stderr=follower, stdout=subprocess.PIPE, text=True
    ) as process:
        os.close(follower)
        os.write(leader, f"{topic}\n\nat\n".encode())
        out, _ = process.communicate(timeout=600)
        os.close(leader)
    assert process.returncode == 0, out
    text = Path("asked.yaml").read_text()
    assert f"name: ods.{topic}, create" in text
    assert "event_time: {field: at, " in text


def test_topic_without_records_is_told(
    new_topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["init", new_topic(1), "--yes"]) == 2
    assert "is empty: there is no record to look at" in capsys.readouterr().err


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog of SQLite, as options name it."""

    job: LakeJob
    options: list[str]

    def filled(self, topic: str) -> str:
        """Fill the table by the file that was written; the file's text."""
        text = self.job.path.read_text()
        quick = text.replace("interval: 10s", "interval: 0.5s")
        assert run_command(["validate", str(self.job.path)]) == 0
        self.job.path.write_text(
            quick.replace("create: if_missing}", "create: if_missing, publish_interval: 1s}")
        )
        self.job.catch_up()
        assert self.job.verified().problems == []
        assert f"topics: [{topic!r}]".replace("'", '"') in text
        return text


@pytest.fixture
def lake(tmp_path: Path, topic: str) -> Lake:
    (tmp_path / "warehouse").mkdir()
    job = LakeJob(tmp_path / f"{topic}.yaml", tmp_path, f"ods.{topic}")
    return Lake(job, ["--iceberg", job.uri, "--warehouse", f"file://{tmp_path}/warehouse", "--yes"])


def test_lake_table_is_partitioned_by_the_hour_of_a_column(topic: str, lake: Lake) -> None:
    assert run_command(["init", topic, *lake.options]) == 0
    text = lake.filled(topic)
    assert "{column: at, transform: hour}" in text
    assert lake.job.rows("id") == [(n,) for n in range(20)]
    assert [field.name for field in lake.job.load().spec().fields] == ["at_hour"]


def test_lake_table_with_announced_hours_has_columns_for_them(topic: str, lake: Lake) -> None:
    assert run_command(["init", topic, *lake.options, "--ready"]) == 0
    text = lake.filled(topic)
    assert "\nready: {property: true}" in text
    assert lake.job.rows("dt", "hr") == [("20261120", "08")] * 20


def test_changes_of_debezium_fill_a_table_with_a_key(
    lake: Lake, writer: TopicWriter, new_topic: TopicFactory
) -> None:
    name = new_topic(1)
    source = {"source": {"table": "orders", "ts_ms": AT_MS}, "ts_ms": AT_MS}

    def change(op: str, before: object, after: object) -> bytes:
        return json.dumps({"op": op, "before": before, "after": after, **source}).encode()

    one, two = {"id": 1, "city": "Lyon"}, {"id": 2, "city": "Oslo"}
    moved = {**one, "city": "Rome"}
    told = [(one, change("c", None, one)), (two, change("c", None, two))]
    told += [(one, change("u", one, moved)), (two, change("d", two, None))]
    writer.write_keyed(name, [(json.dumps({"id": row["id"]}).encode(), v) for row, v in told])
    options = [*lake.options, "--table", lake.job.table, "--out", str(lake.job.path)]
    assert run_command(["init", name, *options, "--key", "id"]) == 0
    text = lake.filled(name)
    assert "format: {debezium: {}}" in text
    assert "key: [id] # A row" in text
    assert "ready" not in text
    assert lake.job.rows("id", "city") == [(1, "Rome")]


@pytest.mark.parametrize(
    ("keys", "option", "told"),
    [
        ((b'{"id": 1}', b'{"id": 2}'), "id", "key: [id] # A row"),
        ((b'{"id": 1}', b'{"id": 2}'), "from_topic_key", "key: from_topic_key # A row"),
        ((b"1", b"2"), "id", "key_format: text # "),
        ((b"\0\0\0\1", b"\0\0\0\2"), "id", "key_format: int32 # "),
        ((bytes(7) + b"\1", bytes(7) + b"\2"), "id", "key_format: int64 # "),
    ],
)
def test_whole_rows_fill_a_table_with_a_key(
    keys: tuple[bytes, bytes],
    option: str,
    told: str,
    lake: Lake,
    writer: TopicWriter,
    new_topic: TopicFactory,
) -> None:
    name = new_topic(1)
    values = (b'{"id": 1, "city": "Lyon"}', b'{"id": 2, "city": "Oslo"}')
    rows = [*zip(keys, values, strict=True), (keys[0], b'{"id": 1, "city": "Rome"}')]
    writer.write_keyed(name, [*rows, (keys[1], None)])
    options = [*lake.options, "--table", lake.job.table, "--out", str(lake.job.path)]
    assert run_command(["init", name, *options, "--key", option]) == 0
    assert told in lake.filled(name)
    assert lake.job.rows("id", "city") == [(1, "Rome")]


def test_rows_without_a_key_of_their_own_leave_a_doubt(topic: str, lake: Lake) -> None:
    assert run_command(["init", topic, *lake.options, "--key", "id"]) == 0
    assert "key_order: by_partition # DOUBT: " in lake.filled(topic)
    assert lake.job.rows("id") == [(n,) for n in range(20)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--key", "nr"], "no row has a field `nr`\nhint: rows have: id, at, "),
        (["--key", "id,"], "--key has a column without a name"),
        (["--key", "from_topic_key"], "no record has a key"),
        (["--key", "id", "--ready"], "has no hours that are complete"),
    ],
)
def test_what_a_key_cannot_be_is_told(
    options: list[str], told: str, topic: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["init", topic, *lake.options, *options]) == 2
    assert told in capsys.readouterr().err
    assert not lake.job.path.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--key", "id"], "--key is about a lake table"),
        (["--iceberg", "lake:8181"], "`lake:8181` is no address of an Iceberg catalog"),
        (["--iceberg", "sqlite:////srv/c.db"], "--warehouse file:///DIR"),
    ],
)
def test_options_of_a_lake_table_that_miss_something_are_told(
    options: list[str], told: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["init", topic, "--yes", *options]) == 2
    assert told in capsys.readouterr().err
