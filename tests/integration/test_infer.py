"""`sluiceway infer` on a real topic."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.commands.infer import infer
from sluiceway.errors import TopicNotFoundError, WrongUsageError
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import sample_payloads
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun
from tools.topic_writer import TopicWriter


def access(bootstrap_servers: str) -> SourceAccess:
    return SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))


def test_columns_of_a_topic_fill_a_table_without_a_dirty_row(
    new_run: NewRun,
    writer: TopicWriter,
    bootstrap_servers: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, topic = new_run(2, partition_by="[]", event_time="")
    rows = [
        {"id": n, "userId": f"u{n}", "price": n / 4, "at": "2026-11-20T08:00:00Z", "odd": odd}
        for n, odd in enumerate([1, "a", None, [2]])
    ]
    for n, row in enumerate(rows):
        writer.write(topic, [json.dumps(row).encode()], partition=n % 2)
    infer(topic, bootstrap_servers=bootstrap_servers, records=100)
    by_topic = capsys.readouterr().out
    infer(str(run.job.path), records=100)
    assert capsys.readouterr().out == by_topic
    assert "DOUBT: values of several kinds" in by_topic
    text = run.job.path.read_text()
    head, _, tail = text.partition("  columns:\n")
    block = "".join(f"  {line}\n" for line in by_topic.splitlines())
    run.job.path.write_text(f"{head}{block}  partition_by:{tail.partition('  partition_by:')[2]}")
    run.catch_up()
    assert run.dirty() == []
    assert run.rows('id, userId, price, "at", odd') == [
        (n, f"u{n}", row["price"], run.rows('"at"')[0][0], text)
        for (n, row), text in zip(enumerate(rows), ("1", "a", None, "[2]"), strict=True)
    ]
    run.assert_verified()


def test_sample_holds_both_ends_of_each_partition_and_no_more_than_was_asked_for(
    new_topic: TopicFactory, writer: TopicWriter, bootstrap_servers: str
) -> None:
    topic = new_topic(2)
    for partition in range(2):
        payloads = [f"{partition}:{n}".encode() for n in range(100)]
        writer.write(topic, [*payloads[:50], None, *payloads[50:]], partition=partition)
    found = list(sample_payloads(access(bootstrap_servers), [topic], 12))
    assert {*found} == {
        f"{partition}:{n}".encode() for partition in range(2) for n in (0, 1, 2, 97, 98, 99)
    }
    everything = list(sample_payloads(access(bootstrap_servers), [topic], 100_000))
    assert (len(everything), everything.count(None)) == (202, 2)
    assert len(list(sample_payloads(access(bootstrap_servers), [topic], 3))) <= 3


def test_topic_of_no_json_and_no_topic_are_told(
    new_topic: TopicFactory, writer: TopicWriter, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = new_topic(1)
    with pytest.raises(WrongUsageError, match="is empty: there is no record"):
        infer(topic, bootstrap_servers=bootstrap_servers)
    writer.write(topic, [b"\x00avro", None])
    with pytest.raises(WrongUsageError, match="Avro or Protobuf"):
        infer(topic, bootstrap_servers=bootstrap_servers)
    with pytest.raises(TopicNotFoundError):
        infer(f"{topic}_not", bootstrap_servers=bootstrap_servers)
    with pytest.raises(WrongUsageError, match="is no file"):
        infer(str(tmp_path / "orders"))
