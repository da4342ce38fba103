"""A producer that hangs in a transaction, on a real broker."""

import json

import pytest

from tools.job_files import event
from tools.route_faults import NewRun
from tools.topic_writer import TopicWriter


def test_hanging_transaction_is_reported_and_nothing_behind_it_is_read(
    new_run: NewRun,
    writer: TopicWriter,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sluiceway.schedule.partition_watch.OPEN_FOR_S", 0.0)
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(5)])
    with writer.transaction(topic, [event(n) for n in range(5, 8)]) as producer:
        writer.write(topic, [event(n) for n in range(8, 10)])
        run.catch_up()
        assert run.rows() == [(0, n) for n in range(5)]
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        (told,) = [line for line in lines if line["event"] == "transaction_open"]
        assert (told["since_offset"], told["waiting"]) == (5, 5)
        producer.abort_transaction()
    run.catch_up()
    assert run.rows() == [(0, n) for n in (*range(5), 8, 9)]
    run.assert_verified()
