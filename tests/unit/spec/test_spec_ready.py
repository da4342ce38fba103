"""The block `ready` of a job file."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.job.compile import compile_route
from sluiceway.job.ready_rule import ReadyRule, TopicRule, WebhookRule
from sluiceway.spec.loader import parse_job

DAY, HOUR = "{name: dt, event_time: yyyyMMdd}", "{name: hr, event_time: HH}"
APP = "{name: app, column: app}"
HEAD = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  other: {kafka: {bootstrap_servers: "k2:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.small}
  columns: [{name: id, type: bigint}, {name: app, type: string}]
event_time: {field: id, unit: ms, out_of_orderness: 2s, idle_after: 3s, timezone: Asia/Tokyo}
"""


def load(ready: str, *partitions: str) -> ReadyRule:
    where, listed = "  columns", ", ".join(partitions or (DAY, HOUR))
    text = HEAD.replace(where, f"  partition_by: [{listed}]\n{where}") + f"ready: {ready}\n"
    environ = {"TOKEN": "s3cret"}
    (route,) = parse_job(text.encode(), Path("job.yaml"), environ).spec.routes
    found = compile_route(route).ready
    assert found is not None
    return found


def problem_of(ready: str, *partitions: str) -> str:
    with pytest.raises(JobFileError) as caught:
        load(ready, *partitions)
    return caught.value.message


def test_block_without_keys_shows_partitions_on_ready() -> None:
    rule = load("{}", DAY, HOUR, APP)
    assert (rule.on_ready, rule.success_file, rule.table_property) == (True, False, True)
    assert (rule.lateness_us, rule.whole_key, rule.timezone) == (0, False, "Asia/Tokyo")
    assert rule.columns == (("dt", "yyyyMMdd"), ("hr", "HH"))
    mark = rule.watermark
    assert (mark.out_of_orderness_us, mark.idle_after_us) == (2_000_000, 3_000_000)
    assert not mark.hold_when_idle


def test_all_keys_are_taken() -> None:
    rule = load(
        "{lateness: 10m, visible: on_commit, success_file: true, property: false, "
        'on_all_idle: hold, webhook: {url: "https://Hook.example/x", timeout: 3s, '
        'hosts: [hook.example], headers: {Authorization: "${env:TOKEN}"}}, '
        "kafka: {topic: ready, connection: other}}"
    )
    assert (rule.lateness_us, rule.on_ready, rule.whole_key) == (600_000_000, False, True)
    assert (rule.success_file, rule.table_property) == (True, False)
    assert rule.watermark.hold_when_idle
    headers = (("Authorization", "s3cret"),)
    assert rule.webhook == WebhookRule("https://Hook.example/x", "hook.example", headers, 3.0)
    assert rule.topic == TopicRule((("bootstrap.servers", "k2:9092"),), "ready")


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        ((APP, DAY, HOUR), "begin with an `event_time`"),
        ((DAY, APP, HOUR), "all columns of the event time before the others"),
        ((HOUR,), "with the year first"),
        (("{name: m, event_time: yyyyHH}",), "got yyyy HH"),
    ],
)
def test_columns_whose_times_do_not_lead_are_refused(
    partitions: tuple[str, ...], says: str
) -> None:
    assert says in problem_of("{}", *partitions)


@pytest.mark.parametrize(
    ("ready", "says"),
    [
        ('{webhook: {url: "ftp://h/x"}}', "an http or https URL"),
        ('{webhook: {url: "http://user:pw@h/x"}}', "an http or https URL"),
        ('{webhook: {url: "http://h/x", hosts: []}}', "host names"),
        ('{webhook: {url: "http://h/x", hosts: [other]}}', "expected one of the hosts other"),
        ('{webhook: {url: "http://h/x", headers: {"a b": c}}}', "headers of printable"),
        ('{webhook: {url: "http://h/x", headers: {Authorization: abc}}}', "from a reference"),
        ("{kafka: {topic: ready, connection: hms}}", "the name of a Kafka connection"),
        ('{kafka: {topic: "a/b"}}', "topic name"),
        ("{visible: sometimes}", "`on_ready` or `on_commit`"),
    ],
)
def test_receiver_that_cannot_be_is_refused(ready: str, says: str) -> None:
    assert says in problem_of(ready)
