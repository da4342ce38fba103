"""A new field of JSON becomes a column of a lake table while the job runs."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import DoubleType

from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job
from tools.lake_orders import order
from tools.running_lake import running, wait_for
from tools.topic_writer import TopicWriter


def with_fields(number: int, **more: object) -> bytes:
    return json.dumps({**json.loads(order(number)), **more}).encode()


def test_a_new_field_becomes_a_column_and_all_its_rows_have_it(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        key="evolution: add_columns",
    )
    writer.write(topic, [order(n) for n in range(5)], partition=0)
    with running(job):
        wait_for(lambda: job.ledger_is_there() and len(job.rows("id")) == 5)
        more = [with_fields(n, Price=n + 0.5, parts=[{"name": "x", "n": n}]) for n in range(5, 9)]
        writer.write(topic, [order(9), *more], partition=0)
        wait_for(lambda: len(job.rows("id")) == 10)
    assert job.rows("id", "price") == [
        *((n, None) for n in range(5)),
        *((n, n + 0.5) for n in range(5, 9)),
        (9, None),
    ]
    found = job.load().scan(row_filter="id = 7").to_arrow()
    assert found["parts"].to_pylist() == [[{"name": "x", "n": 7}]]
    # The next driver fills what the last one has added, and files of both kinds are merged.
    writer.write(topic, [with_fields(10, Price=10.5)], partition=0)
    job.catch_up()
    assert job.rows("id", "price")[-1] == (10, 10.5)
    assert job.verified().problems == []


def test_a_field_of_a_change_becomes_what_its_schema_means(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns="    - {name: id, type: bigint}",
        partition_by="[]",
        payload="debezium: {}",
        key="evolution: add_columns",
    )
    decimal = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    }
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "madeAt"},
        {"type": "array", "items": decimal, "field": "fees"},
    ]
    after = {"type": "struct", "fields": fields, "field": "after"}
    schema = {"type": "struct", "fields": [after]}

    def change(number: int, **more: object) -> bytes:
        payload = {"op": "c", "after": {"id": number, **more}}
        return json.dumps({"schema": schema, "payload": payload}).encode()

    new = {"madeAt": 1_763_632_800_000_000, "fees": ["1000", None]}
    for number in (1, 2):
        # The second driver finds the columns with their keys, and the zone of the times.
        writer.write(topic, [change(number * 10), change(number, **new)], partition=0)
        job.catch_up()
    assert str(job.load().schema().find_type("madeat")) == "timestamp"
    found = job.load().scan(row_filter="id < 10").to_arrow()
    assert [str(each) for each in found["madeat"].to_pylist()] == ["2025-11-20 10:00:00"] * 2
    assert found["fees"].to_pylist() == [[Decimal("-26672.12"), None]] * 2
    assert len(job.rows("id")) == 4
    assert job.verified().problems == []


@pytest.mark.parametrize("evolution", ["follow_table", "add_columns"])
def test_a_column_that_somebody_adds_is_filled_without_a_restart(
    evolution: str,
    bootstrap_servers: str,
    new_topic: TopicFactory,
    writer: TopicWriter,
    tmp_path: Path,
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        key=f"evolution: {evolution}",
    )
    writer.write(topic, [order(n) for n in range(3)], partition=0)
    with running(job):
        wait_for(lambda: job.ledger_is_there() and len(job.rows("id")) == 3)
        with job.load().update_schema() as update:
            update.add_column("price", DoubleType())
        # The publish of these rows sees the column; later ones have it.
        writer.write(topic, [order(3)], partition=0)
        wait_for(lambda: len(job.rows("id")) == 4)
        number = 4

        def has_a_price() -> bool:
            nonlocal number
            writer.write(topic, [with_fields(number, price=number + 0.5)], partition=0)
            number += 1
            return job.rows("id", "price")[-1][1] is not None

        wait_for(has_a_price)
        wait_for(lambda: len(job.rows("id")) == number)
    rows: Any = job.rows("id", "price")
    prices = dict(rows)
    assert set(prices) == set(range(number))
    first = min(n for n, price in prices.items() if price is not None)
    assert all(prices[n] == n + 0.5 for n in range(first, number))
    assert job.verified().problems == []
