"""What was meant is said: a value where a mapping is expected, near names, files of others."""

from pathlib import Path

import pytest

from sluiceway.cli.job_file import inspect_checked_job
from sluiceway.jobfile.checks.shape import RENAMED_KEYS, RENAMED_VALUES

BASE = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "h:1"}}
  hms: {metastore: {uri: "thrift://h:2"}}
source: {connection: main, topics: [orders], start: earliest}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns:
    - {name: id, type: bigint}
    - {name: ts, type: bigint}
  partition_by:
    - {name: dt, event_time: yyyyMMdd}
event_time: {field: ts, unit: ms}
"""


def told(text: str) -> str:
    found = inspect_checked_job(text.encode(), Path("job.yaml"))
    return "\n".join(f"{each.text}; {each.todo}" for each in found.problems)


def test_base_is_valid() -> None:
    assert told(BASE) == ""


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("format: {json: {}}", "format: json", "as `format: {json: {}}`; known here: json, raw"),
        ("format: {json: {}}", "format: xml", "write keys and values; known here: json, raw"),
        ("format: {json: {}}", "format: {json: true}", "as `json: {}`; known here: unknown_fields"),
        (
            "version: 1\n",
            "version: 1\nready: true\n",
            "as `ready: {}`; known here: allowed_lateness",
        ),
        ("version: 1\n", "version: 1\nrun: {master: yarn, slots: 4}\n", "as `slots: {max: 4}`"),
        ("version: 1\n", "version: 1\nready: {kafka: true}\n", "as `kafka: {topic: ...}`"),
        ("version: 1\n", "version: 1\nretention: 30d\n", "as `retention: {partitions: 30d}`"),
        ("version: 1\n", "version: 1\nrun: [a]\n", "known here: interval, straggler_timeout"),
        ("version: 1\n", "version: 1\nlineage: true\n", "known here: http, file"),
        ("{field: ts, unit: ms}", "ts", "as `event_time: {field: ts}`; known here: field"),
        ('{kafka: {bootstrap_servers: "h:1"}}', "{kafka: h:1}", "{bootstrap_servers: h:1}`"),
        ('{kafka: {bootstrap_servers: "h:1"}}', "h:1", "known here: kafka, rocketmq, metastore"),
        ("{connection: hms, name: ods.orders}", "a.b", "`hive: {connection: ..., name: ...}`"),
    ],
)
def test_value_where_a_mapping_is_expected_says_which_mapping(
    old: str, new: str, meant: str
) -> None:
    assert old in BASE
    assert meant in told(BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("{field: ts,", "{field: tss,", "did you mean `ts`? Else declare `tss`"),
        ("{field: ts,", "{field: happened,", "; declare `happened` under table.columns"),
        ("event_time: yyyyMMdd", "column: idd", "did you mean `id`? Else declare it"),
    ],
)
def test_column_that_is_not_declared_has_a_near_one(old: str, new: str, meant: str) -> None:
    assert old in BASE
    assert meant in told(BASE.replace(old, new))


def test_key_that_is_not_declared_has_a_near_one() -> None:
    lake = BASE.replace("hive: {connection: hms, name: ods.orders}", "key: [idd]").replace(
        "  key: ", "  iceberg: {connection: hms, name: ods.orders}\n  key: "
    )
    assert "expected a declared column, got `idd`; did you mean `id`? Else" in told(lake)


CONNECT = '{"name": "s3", "config": {"connector.class": "io.confluent.S3", "topics": "a"}}'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("source: {type: mysql}\nsink: {type: doris}\npipeline: {name: x}\n", "Flink CDC"),
        ("source:\n  type: mysql\nsink:\n  type: doris\n", "Flink CDC"),
        (CONNECT, "a connector of Kafka Connect"),
        (CONNECT.replace(" ", "\n\t"), "a connector of Kafka Connect"),
        ("name=s3\nconnector.class=io.confluent.S3\n", "a connector of Kafka Connect"),
        ("connector.class: io.confluent.S3\ntopics: a\n", "a connector of Kafka Connect"),
        ("debezium.source.connector.class=x\n", "the properties of Debezium Server"),
        ("env: {}\nsource: {}\nsink: {}\n", "a job of SeaTunnel"),
        ("-- jobs\nCREATE TABLE t (id INT) WITH ('connector' = 'kafka');\n", "got SQL"),
        ("apiVersion: v1\nkind: Pod\n", "Kubernetes"),
        ("services:\n  kafka: {image: k}\n", "Docker Compose"),
    ],
)
def test_file_of_another_program_is_named(text: str, what: str) -> None:
    found = inspect_checked_job(text.encode(), Path("job.yaml")).problems
    assert len(found) == 1
    assert f"expected a job file, got {what}" in found[0].text or what in found[0].text
    assert "`sluiceway init TOPIC`" in found[0].todo


@pytest.mark.parametrize("text", ["", "name: x\n", BASE + "# connector.class: x\n"])
def test_all_else_is_judged_as_a_job_file(text: str) -> None:
    assert "sluiceway init" not in told(text)


RENAMED = [
    ("{json: {}}", "{json: {extra: dirty}}", "extra", "unknown_fields"),
    ("{json: {}}", "{csv: {extra: ignore}}", "extra", "unknown_fields"),
    ("{json: {}}", "{debezium: {other: skip}}", "other", "other_messages"),
    ("{json: {}}", "{canal: {other: skip}}", "other", "other_messages"),
    ("{json: {}}", "{avro: {unknown_wait: 5s}}", "unknown_wait", "unknown_schema_wait"),
    ("{json: {}}", "{protobuf: {unknown_wait: 5s}}", "unknown_wait", "unknown_schema_wait"),
    ("  columns:", "  key_drain: 1m\n  columns:", "key_drain", "key_order_wait"),
    ("version: 1\n", "version: 1\nready: {lateness: 5s}\n", "lateness", "allowed_lateness"),
    (
        "version: 1\n",
        "version: 1\nready: {counts: {topic: c, decide: alone}}\n",
        "decide",
        "complete_by",
    ),
]


@pytest.mark.parametrize(("old", "new", "was", "now"), RENAMED)
def test_key_that_was_renamed_is_named_as_it_is_now(old: str, new: str, was: str, now: str) -> None:
    assert f"unknown key `{was}`; its name is `{now}` now" in told(BASE.replace(old, new))


def test_each_renamed_key_has_a_case() -> None:
    assert {was: now for _, _, was, now in RENAMED} == RENAMED_KEYS


def test_old_name_in_a_block_without_the_new_one_is_an_unknown_key_like_others() -> None:
    found = told(BASE.replace("{json: {}}", "{raw: {extra: dirty}}"))
    assert "unknown key `extra`; known here:" in found


@pytest.mark.parametrize(
    ("block", "was", "now"),
    [
        ("ready: {counts: {topic: c, since: 2026-11-20T00:00:00Z, complete_by: ", "alone", "count"),
        (
            "ready: {counts: {topic: c, since: 2026-11-20T00:00:00Z, complete_by: ",
            "with_watermark",
            "watermark_and_count",
        ),
        ("event_time: {field: ts, unit: ms, late: ", "side", "side_output"),
    ],
)
def test_value_that_was_renamed_is_named_as_it_is_now(block: str, was: str, now: str) -> None:
    key = block.rsplit(maxsplit=1)[-1].removesuffix(":")
    assert RENAMED_VALUES[key, was] == now
    text = BASE.replace("event_time: {field: ts, unit: ms}\n", "")
    ends = "}" * block.count("{")
    assert f"got `{was}`; its name is `{now}` now" in told(f"{text}{block}{was}{ends}\n")
    assert f"its name is `{now}`" not in told(f"{text}{block}other{ends}\n")
