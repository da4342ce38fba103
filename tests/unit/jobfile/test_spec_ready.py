"""The block `ready` of a job file."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.eventtime.readiness import CountRule
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.ready_rule import CountsRule, ReadyRule
from sluiceway.jobfile.loader import parse_job
from sluiceway.sources.side_topics import SideTopic

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
        "{allowed_lateness: 10m, visible: on_commit, success_file: true, property: false, "
        'on_all_idle: hold, webhook: {url: "https://Hook.example/x", timeout: 3s, '
        'hosts: [hook.example], headers: {Authorization: "${env:TOKEN}"}}, '
        "kafka: {topic: ready, connection: other}}"
    )
    assert (rule.lateness_us, rule.on_ready, rule.whole_key) == (600_000_000, False, True)
    assert (rule.success_file, rule.table_property) == (True, False)
    assert rule.watermark.hold_when_idle
    headers = (("Authorization", "s3cret"),)
    assert rule.webhook == HttpReceiver("https://Hook.example/x", "hook.example", headers, 3.0)
    assert rule.topic == SideTopic((("bootstrap.servers", "k2:9092"),), "ready")


def test_body_of_a_webhook_is_a_template_of_json() -> None:
    body = '{"conf": {"hour": "{prefix}", "all": "{announcement}"}}'
    rule = load(f"{{webhook: {{url: 'https://h/', accept: [409], body: '{body}'}}}}")
    assert rule.webhook_body == body
    assert rule.webhook == HttpReceiver("https://h/", "h", accept=(409,))


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("body: '{conf: {prefix}}'", "expected JSON of at most 16,384 characters, with names"),
        ('body: \'{"hour": "{hour}"}\'', "not `hour`, got"),
        ("body: '{\"{hour}\": 1}'", "write one of {job}, {route}, {table}, {prefix},"),
        ("accept: [302]", "expected a number of at least 400"),
    ],
)
def test_body_that_no_announcement_fills_is_refused(hook: str, says: str) -> None:
    assert says in problem_of(f"{{webhook: {{url: 'https://h/', {hook}}}}}")


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
        ("{counts: {topic: a, connection: hms}}", "the name of a Kafka connection"),
        ("{counts: {}}", "the key `topic`"),
        ("{counts: {topic: a, complete_by: never}}", "`watermark_and_count` or `count`"),
        ("{counts: {topic: a, since: 2026-11-20}}", "a time such as"),
    ],
)
def test_receiver_that_cannot_be_is_refused(ready: str, says: str) -> None:
    assert says in problem_of(ready)


def test_counts_come_from_a_topic_and_decide_with_the_watermark() -> None:
    counts = load("{counts: {topic: audit}}").counts
    access = (("bootstrap.servers", "k1:9092"),)
    assert counts == CountsRule(SideTopic(access, "audit"), CountRule())
    more = 'complete_by: count, since: "2026-11-20T08:00:00+08:00"'
    counts = load(f"{{counts: {{topic: audit, connection: other, {more}}}}}").counts
    assert counts is not None
    assert counts.topic.options == (("bootstrap.servers", "k2:9092"),)
    assert counts.decide == CountRule(since_us=1_795_132_800_000_000, alone=True)


def test_counts_alone_and_redirected_rows_are_refused() -> None:
    text = HEAD.replace("idle_after: 3s", "idle_after: 3s, late: redirect").replace(
        "  columns", f"  partition_by: [{DAY}, {HOUR}]\n  columns"
    )
    ready = "ready: {counts: {topic: audit, complete_by: count}}\n"
    with pytest.raises(JobFileError, match="expected no `late: redirect` with `complete_by"):
        parse_job((text + ready).encode(), Path("job.yaml"), {})
    parse_job(
        (text + ready.replace("by: count", "by: watermark_and_count")).encode(),
        Path("job.yaml"),
        {},
    )


ROUTES = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main}
format: {json: {}}
table:
  hive: {connection: hms}
  columns: [{name: id, type: bigint}, {name: app, type: string}]
  partition_by: [{name: dt, event_time: yyyyMMdd}]
event_time: {field: id, unit: ms}
ready: {allowed_lateness: 5m, success_file: true, webhook: {url: "https://h/x"}}
routes:
  - {topics: [a], table: ods.a}
  - {topics: [b], table: ods.b, ready: {allowed_lateness: 1h, visible: on_commit}}
  - {topics: [c], table: ods.c, ready: {visible: on_commit}, event_time: {late: reopen}}
"""


def test_block_of_a_route_is_laid_over_that_of_the_file() -> None:
    routes = parse_job(ROUTES.encode(), Path("job.yaml"), {}).spec.routes
    a, b, c = (compile_route(route).ready for route in routes)
    assert a is not None
    assert b is not None
    assert (a.lateness_us, a.on_ready, a.success_file) == (300_000_000, True, True)
    assert (b.lateness_us, b.on_ready, b.success_file) == (3_600_000_000, False, True)
    assert a.webhook == b.webhook == HttpReceiver("https://h/x", "h")
    assert c is not None
    assert (c.lateness_us, c.on_ready) == (300_000_000, False)


def test_wrong_block_of_a_route_is_told_where_it_stands() -> None:
    wrong = ROUTES.replace(
        "allowed_lateness: 1h", "allowed_lateness: 1h, kafka: {topic: x, connection: hms}"
    )
    with pytest.raises(JobFileError, match=r"job\.yaml:16:.* the name of a Kafka connection"):
        parse_job(wrong.encode(), Path("job.yaml"), {})
