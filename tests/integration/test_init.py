"""`init`: job files that are valid and fill a table without a dirty row, from real servers."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import LabEndpoints
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
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
    assert "those that do: at, when, $record_time" in capsys.readouterr().err
    assert not Path(f"{topic}.yaml").exists()


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
    assert run_command(["plan", "again.yaml", "--detailed-exitcode"]) == 0


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
        out, _ = process.communicate(timeout=120)
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
