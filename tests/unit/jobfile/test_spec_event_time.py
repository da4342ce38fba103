"""The block `event_time` and the kinds of partition columns."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.compile.compile import compile_route, why_no_rows
from sluiceway.jobfile.loader import parse_job

HEAD = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a, b]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.small}
  columns: [{name: id, type: bigint}, {name: at, type: string}, {name: t, type: timestamp}]
"""


def load(partitions: str, event_time: str = "", more: str = "") -> RouteSpec:
    block = f"event_time: {{{event_time}}}\n" if event_time else ""
    text = f"{HEAD}  partition_by: [{partitions}]\n{block}{more}"
    (route,) = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    return route


def problem_of(partitions: str, event_time: str = "", more: str = "") -> str:
    with pytest.raises((JobFileError, NotInThisVersionError)) as caught:
        load(partitions, event_time, more)
    _, line = caught.value.message.splitlines()
    return line.removeprefix("  job.yaml:")


BY_DAY = "{name: dt, event_time: yyyyMMdd}"


def test_event_time_without_more_has_the_defaults() -> None:
    found = load(BY_DAY, "field: id, unit: ms").event_time
    assert found is not None
    assert (found.max_future_ms, found.min_time_us, found.timezone) == (3_600_000, None, "UTC")
    assert (found.archive_window_ms, found.late) == (None, None)
    assert (found.out_of_orderness_ms, found.idle_after_ms) == (60_000, 300_000)


def test_event_time_keys_are_read_with_their_units() -> None:
    found = load(
        BY_DAY,
        "field: at, format: yyyy-MM-dd HH:mm:ss, timezone: Asia/Shanghai, max_future: 5m, "
        "min_time: 2020-01-01T00:00:00Z, out_of_orderness: 0s, archive_window: 2d, "
        "idle_after: 90s, late: reopen, reopen_every: 10m",
        "ready: {visible: on_commit}\n",
    ).event_time
    assert found is not None
    assert (found.format, found.timezone) == ("yyyy-MM-dd HH:mm:ss", "Asia/Shanghai")
    assert (found.max_future_ms, found.min_time_us) == (300_000, 1_577_836_800_000_000)
    assert (found.out_of_orderness_ms, found.archive_window_ms) == (0, 172_800_000)
    assert (found.idle_after_ms, found.late, found.reopen_every_ms) == (90_000, "reopen", 600_000)


def test_interval_of_announcing_anew_is_set_without_late_rows_too_as_replays_bring_rows() -> None:
    found = load(BY_DAY, "field: id, unit: ms, reopen_every: 10m", "ready: {}\n").event_time
    assert found is not None
    assert (found.late, found.reopen_every_ms) == (None, 600_000)


def test_archive_window_may_be_unlimited() -> None:
    found = load(BY_DAY, "field: id, unit: s, archive_window: unlimited").event_time
    assert found is not None
    assert found.archive_window_ms == "unlimited"


@pytest.mark.parametrize("field", ["$record_time", "$processing_time"])
def test_event_time_may_be_the_queue_s_or_the_clock_s(field: str) -> None:
    found = load(BY_DAY, f"field: {field}")
    assert found.event_time is not None
    assert found.event_time.is_own
    assert why_no_rows(found) is None


def test_partition_columns_are_compiled_by_their_kinds() -> None:
    spec = load(
        "{name: src, constant: web}, {name: dt, processing_time: yyyyMMdd, timezone: Asia/Tokyo}, "
        "{name: hr, record_time: HH}, {name: at, column: at}"
    )
    assert why_no_rows(spec) is None
    rules = [
        (rule.constant, rule.pattern, rule.kind.value, rule.timezone, rule.column)
        for rule in compile_route(spec).partitions
    ]
    assert rules == [
        ("web", None, "event", None, None),
        (None, "yyyyMMdd", "processing", "Asia/Tokyo", None),
        (None, "HH", "record", None, None),
        (None, None, "event", None, "at"),
    ]


@pytest.mark.parametrize(
    ("partitions", "event_time", "problem"),
    [
        ("{name: x}", "", "expected exactly one of event_time, column, constant, processing_time,"),
        ("{name: x, constant: a, column: id}", "", "expected exactly one of event_time, column,"),
        ("{name: x, constant: ''}", "", "expected 1 to 255 printable characters"),
        ("{name: x, record_time: YYYY}", "", "expected a pattern of yyyy MM dd HH mm"),
        ("{name: x, constant: a, timezone: UTC}", "", "expected `timezone` with processing_time"),
        (BY_DAY, "field: $offset, unit: ms", "expected a path, or one of $record_time, $process"),
        (BY_DAY, "field: $record_time, unit: ms", "expected no `unit` for $record_time"),
        (BY_DAY, "field: at, unit: iso8601, format: iso8601", "expected `unit` or `format`, got"),
        (BY_DAY, "field: id, format: yyyyMMdd", "expected no `format` for the values of `bigint`"),
        (BY_DAY, "field: t, format: yyyyMMdd", "expected no `format` for the values of `timesta"),
        (BY_DAY, "field: id, unit: s, max_future: 1", "expected a duration such as `10s`"),
        (BY_DAY, "field: id, unit: s, min_time: 2020-01-01", "expected a time such as `2020-01"),
        (BY_DAY, "field: id, unit: s, archive_window: never", "expected a duration such as `10s`"),
        (BY_DAY, "field: id, unit: s, late: drop", "expected `side_output`, `redirect`, `reopen`"),
        (BY_DAY, "field: id, unit: s, reopen_every: 1h", "expected `reopen_every` with a bl"),
    ],
)
def test_event_time_that_cannot_be_is_told(partitions: str, event_time: str, problem: str) -> None:
    assert problem in problem_of(partitions, event_time)


@pytest.mark.parametrize("form", ["yyyy-MM", "HH:mm", "yyyy-MM-dd hh"])
def test_form_that_is_none_is_told_by_the_check_of_a_job_file(form: str) -> None:
    spec = load(BY_DAY, f"field: at, format: '{form}'")
    assert "a format" in str(why_no_rows(spec))


@pytest.mark.parametrize("ready", ["{visible: on_ready}", "{allowed_lateness: 5m}"])
def test_reopening_what_waits_to_be_seen_is_not_in_this_version(ready: str) -> None:
    problem = problem_of(BY_DAY, "field: id, unit: s, late: reopen", f"ready: {ready}\n")
    assert (
        "`late: reopen` of partitions that are visible on_ready is not in this version" in problem
    )


@pytest.mark.parametrize(
    ("event_time", "more", "window_us"),
    [
        ("", "", None),
        (", late: side_output", "", 86_400_000_000),
        ("", "ready: {visible: on_commit}\n", 86_400_000_000),
        (", archive_window: 2h", "", 7_200_000_000),
        (", late: side_output, archive_window: unlimited", "", None),
    ],
)
def test_rows_are_late_by_age_only_where_the_job_file_speaks_of_it(
    event_time: str, more: str, window_us: int | None
) -> None:
    rule = compile_route(load(BY_DAY, f"field: id, unit: s{event_time}", more)).late
    assert rule.window_us == window_us
