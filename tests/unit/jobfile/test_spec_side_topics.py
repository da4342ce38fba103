"""Topics that a route feeds, or takes counts from, are none that it takes in."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.loader import parse_job

JOB = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  other: {{kafka: {{bootstrap_servers: "k2:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
source: {{connection: main, topics: {topics}}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.small}}
  partition_by: [{{name: dt, event_time: yyyyMMdd}}]
  columns: [{{name: id, type: bigint}}]
event_time: {{field: id, unit: ms, timezone: UTC}}
{block}
"""
DIRTY = "dirty: {store: {topic: orders_dirty}}"


def problems_of(topics: str, block: str) -> str:
    text = JOB.format(topics=topics, block=block)
    with pytest.raises(JobFileError) as caught:
        parse_job(text.encode(), Path("job.yaml"), {})
    return f"{caught.value.where} {caught.value.message}"


@pytest.mark.parametrize("topics", ["[orders, orders_dirty]", '"orders.*"'])
def test_dirty_rows_that_would_come_back_are_refused(topics: str) -> None:
    found = problems_of(topics, DIRTY)
    assert "job.yaml:14:24" in found
    assert "a topic that the route does not take in, got `orders_dirty`" in found
    assert "dirty again, for ever" in found


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("ready: {kafka: {topic: orders}}", "announcements would be read as rows"),
        ("ready: {kafka: {topic: orders, connection: main}}", "announcements would be read"),
        ("ready: {counts: {topic: orders}}", "counts would be read as rows"),
    ],
)
def test_announcements_and_counts_among_the_rows_are_refused(block: str, why: str) -> None:
    assert why in problems_of("[orders]", block)


@pytest.mark.parametrize(
    ("topics", "block"),
    [
        ("[orders]", DIRTY),
        ('"orders"', DIRTY),
        ('"orders_(?!dirty).*"', DIRTY),
        ("[orders]", "ready: {kafka: {topic: orders, connection: other}}"),
        ("[orders]", "ready: {counts: {topic: orders, connection: other}}"),
    ],
)
def test_other_topics_and_other_clusters_are_taken(topics: str, block: str) -> None:
    text = JOB.format(topics=topics, block=block)
    loaded = parse_job(text.encode(), Path("job.yaml"), {})
    assert len(loaded.spec.routes) == 1
