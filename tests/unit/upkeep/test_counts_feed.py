"""Counts from a topic into the ledger: each word once, from where the last driver was."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sluiceway.errors import FencedError, SourceUnavailableError
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.readiness import CountRule
from sluiceway.host.work_pool import MOST_THREADS, process_pool
from sluiceway.jobfile.compile.ready_rule import CountsRule
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding import fold_counts
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import SourceIdentity
from sluiceway.sources.side_topics import SideTopic, TailMessage
from sluiceway.upkeep import counts_feed
from sluiceway.upkeep.counts_feed import CountsFeed, read_count
from sluiceway.upkeep.expirer import Expirer
from sluiceway.upkeep.partition_requests import ForgetRequest
from sluiceway.upkeep.record_queue import Build, RecordQueue
from tools.driver_thread import PATIENCE_S, Driver
from tools.ledger_records import data
from tools.table_on_disk import table_on_disk
from tools.waiting import wait_for

PERIODS = PrefixPeriods((("dt", "yyyyMMdd"), ("hr", "HH")), "UTC")
SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
EIGHT_US = 1_795_161_600_000_000


def count(time: str, rows: object, table: object = "ods.orders") -> bytes:
    """A message."""
    return json.dumps({"table": table, "time": time, "rows": rows, "by": "billing"}).encode()


def test_message_says_the_rows_of_one_time_of_a_table() -> None:
    found = read_count(count("2026-11-20T09:00:00+01:00", 12), "Ods.Orders", PERIODS)
    assert found is not None
    assert (found.period.prefix, found.rows) == (EIGHT, 12)
    assert read_count(count("2026-11-20T08:00:00Z", 0, "ods.others"), "ods.orders", PERIODS) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the key `table`"),
        (b"{", "expected JSON"),
        (b'{"table":"a","table":"a"}', "expected JSON"),
        (b"[1]", "the key `table`"),
        (b'{"table":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "expected JSON"),
        (b'{"table":"ods.orders","more":"' + b"x" * (1 << 20) + b'"}', "at most 1,048,576 bytes"),
        (b'{"table":"ods.orders","rows":1e400}', "a whole number"),
        (count("2026-11-20T08:00:00Z", 1, table=7), "the key `table`"),
        (count("2026-11-20T08:00:00Z", -1), "a whole number"),
        (count("2026-11-20T08:00:00Z", 1.0), "a whole number"),
        (count("2026-11-20T08:00:00Z", True), "a whole number"),
        (count("2026-11-20T08:00:00Z", 2**63), "a whole number"),
        (count("2026-11-20T08:00:00", 1), "date, time and zone"),
        (count("9999-12-31T23:59:59-14:00", 1), "date, time and zone"),
        (count("8 o'clock", 1), "date, time and zone"),
        (count("0001-01-01T00:00:00+14:00", 1), "date, time and zone"),
        (count("2026-11-20T08:30:00Z", 1), r"as 2026-11-20T08:00:00\+00:00"),
    ],
)
def test_message_that_is_no_count_is_refused_with_what_was_expected(
    value: bytes | None, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        read_count(value, "ods.orders", PERIODS)


@dataclass
class Topic:
    """A log in memory, one partition after the other."""

    logs: dict[int, list[bytes | None]]
    topic_id: str = "t1"
    failure: Exception | None = None
    ends: dict[int, int] = field(default_factory=dict)
    opened: list[dict[int, int | None]] = field(default_factory=list)
    at_once: int = 1_000
    busy: bool = False

    def describe(self) -> tuple[SourceIdentity, tuple[int, ...]]:
        if self.failure is not None:
            raise self.failure
        return SourceIdentity("c1", self.topic_id), tuple(self.logs)

    def open(self, starts: Mapping[int, int | None]) -> None:
        self.opened.append(dict(starts))
        self.ends = {number: start or 0 for number, start in starts.items()}

    @property
    def at_end(self) -> bool:
        return not self.busy and all(
            self.ends[number] == len(log) for number, log in self.logs.items()
        )

    def read(self, most: int, wait_s: float) -> list[TailMessage]:
        del most, wait_s
        found = []
        for number, end in self.ends.items():
            log = self.logs[number]
            self.ends[number] = min(len(log), end + self.at_once)
            found += [TailMessage(number, at, log[at]) for at in range(end, self.ends[number])]
        if not found:
            time.sleep(0.01)
        return found

    def close(self) -> None:
        return


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    table = table_on_disk(tmp_path)
    table.rows(EIGHT)
    made = Driver(table)
    yield made
    made.end()


def feed(driver: Driver, topic: Topic, decide: CountRule | None = None) -> CountsFeed:
    """Begun."""
    rule = CountsRule(SideTopic((), "audit"), decide or CountRule())
    return CountsFeed(
        driver.record_queue,
        rule,
        table="ods.orders",
        periods=PERIODS,
        topic=topic,
        log=stderr_log(level="warning"),
    )


def test_counts_land_with_the_ends_and_the_next_driver_goes_on_there(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    at_eight, at_seven = "2026-11-20T08:00:00Z", "2026-11-20T07:00:00Z"
    topic = Topic({0: [count(at_eight, 1), count(at_eight, 2)], 1: [b"?", count(at_seven, 3)]})
    first = feed(driver, topic)
    wait_for(lambda: not first.pressing)
    first.close()
    (body,) = driver.put(CountsRecord)
    assert [(each.prefix, each.rows) for each in body.counts] == [(SEVEN, 3), (EIGHT, 2)]
    assert [(each.partition, each.end) for each in body.ends] == [(0, 2), (1, 2)]
    assert (body.topic, body.cluster_id, body.topic_id) == ("audit", "c1", "t1")
    told = capsys.readouterr().err
    assert "count_unreadable" in told
    assert '"partition": 1' in told or "partition=1" in told
    topic.logs[0].append(count(at_eight, 9))
    second = feed(driver, topic)
    wait_for(lambda: len(driver.put(CountsRecord)) == 2)
    second.close()
    assert topic.opened == [{0: None, 1: None}, {0: 2, 1: 2}]
    assert driver.table.log.fold().counted.rows == {SEVEN: 3, EIGHT: 9}


def test_count_that_was_corrected_further_on_in_the_topic_is_never_decided_with(
    driver: Driver,
) -> None:
    rows = (10, 25)
    topic = Topic({0: [count("2026-11-20T08:00:00Z", each) for each in rows]}, at_once=1)
    reading = feed(driver, topic)
    wait_for(lambda: not reading.pressing)
    reading.close()
    bodies = driver.put(CountsRecord)
    assert [[(each.prefix, each.rows) for each in body.counts] for body in bodies] == [
        [(EIGHT, 25)]
    ]


def test_topic_that_others_write_without_a_pause_is_read_all_the_same(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_feed, "_LONGEST_UNKEPT_S", 0.1)
    reading = feed(driver, Topic({0: [count("2026-11-20T08:00:00Z", 1)]}, busy=True))
    wait_for(lambda: not reading.pressing and len(driver.put(CountsRecord)) == 1)
    reading.close()
    (body,) = driver.put(CountsRecord)
    assert [(each.prefix, each.rows) for each in body.counts] == [(EIGHT, 1)]


def test_many_messages_that_are_no_counts_are_told_once_a_minute(
    driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic({0: [b"?"] * 999})
    reading = feed(driver, topic)
    wait_for(lambda: not reading.pressing)
    assert capsys.readouterr().err.count("count_unreadable") == 1
    monkeypatch.setattr(counts_feed, "_TELL_EVERY_S", 0.0)
    topic.logs[0] += [b"?", count("2026-11-20T08:00:00Z", 1)]
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    reading.close()
    told = capsys.readouterr().err
    assert '"others": 998' in told or "others=998" in told


def test_topic_of_the_same_name_that_was_made_anew_is_read_from_its_begin(driver: Driver) -> None:
    topic = Topic({0: [count("2026-11-20T08:00:00Z", 1)]})
    first = feed(driver, topic)
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    first.close()
    topic.topic_id = "t2"
    second = feed(driver, topic)
    wait_for(lambda: len(driver.put(CountsRecord)) == 2)
    second.close()
    assert topic.opened == [{0: None}, {0: None}]


def test_counts_of_other_tables_and_of_times_without_need_put_no_record(driver: Driver) -> None:
    times = ("2026-11-20T07:00:00Z", "2026-11-20T08:00:00Z")
    topic = Topic({0: [count(times[1], 1, "ods.others"), count(times[0], 1)]})
    reading = feed(driver, topic, CountRule(since_us=EIGHT_US))
    wait_for(lambda: not reading.pressing)
    assert driver.put(CountsRecord) == []
    topic.logs[0].append(count(times[1], 5))
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    reading.close()
    (body,) = driver.put(CountsRecord)
    assert [(each.prefix, each.rows) for each in body.counts] == [(EIGHT, 5)]
    assert [(each.partition, each.end) for each in body.ends] == [(0, 3)]


def test_reading_of_others_counts_is_kept_now_and_then(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_feed, "_KEEP_EVERY", 3)
    topic = Topic({0: [count("2026-11-20T08:00:00Z", 1, "ods.others")] * 4})
    reading = feed(driver, topic)
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    reading.close()
    (body,) = driver.put(CountsRecord)
    assert (body.counts, [int(each.end) for each in body.ends]) == ((), [4])


def test_counts_that_would_push_out_one_that_closes_wait_for_the_closing(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_counts, "MAX_COUNTED", 1)
    topic = Topic({0: [count("2026-11-20T08:00:00Z", 1)]})
    reading = feed(driver, topic)
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    driver.record_queue.close_prefixes([EIGHT], None, [EIGHT])
    topic.logs[0].append(count("2026-11-20T09:00:00Z", 1))
    asked: list[Build] = []
    real = driver.record_queue.ask

    def ask(build: Build) -> Future[int | None]:
        asked.append(build)
        return real(build)

    monkeypatch.setattr(driver.record_queue, "ask", ask)
    wait_for(lambda: len(asked) >= 2)
    assert len(driver.put(CountsRecord)) == 1
    closing = replace(data(1, 9), closed=(EIGHT,), counted=(EIGHT,))
    driver.record_queue.ask(lambda _: closing).result()
    wait_for(lambda: len(driver.put(CountsRecord)) == 2)
    reading.close()
    assert driver.table.log.fold().counted.rows == {"dt=20261120/hr=09": 1}


def test_count_of_what_the_driver_has_closed_is_left_out(driver: Driver) -> None:
    driver.record_queue.close_prefixes([EIGHT], None, [EIGHT])
    times = ("2026-11-20T08:00:00Z", "2026-11-20T09:00:00Z")
    reading = feed(driver, Topic({0: [count(each, 3) for each in times]}))
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    reading.close()
    (body,) = driver.put(CountsRecord)
    assert [each.prefix for each in body.counts] == ["dt=20261120/hr=09"]


def test_topic_that_does_not_answer_is_told_and_tried_again(
    driver: Driver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_feed, "_FIRST_PAUSE_S", 0.01)
    topic = Topic({0: [count("2026-11-20T08:00:00Z", 1)]}, failure=SourceUnavailableError("away"))
    reading = feed(driver, topic)
    # A run to the log ends waits for a topic that answers only.
    wait_for(lambda: not reading.pressing)
    topic.failure = None
    wait_for(lambda: len(driver.put(CountsRecord)) == 1)
    reading.close()
    assert "counts_wait" in capsys.readouterr().err


def test_route_that_was_left_ends_it_without_a_word(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.record_queue.end(FencedError("the route was left"))
    reading = feed(driver, Topic({0: [count("2026-11-20T08:00:00Z", 1)]}))
    wait_for(lambda: not reading.pressing)
    reading.close()
    assert capsys.readouterr().err == ""


def test_feeds_of_routes_that_nobody_serves_hold_no_thread_of_the_pool(driver: Driver) -> None:
    waits = [RecordQueue(driver.table.log, ()) for _ in range(MOST_THREADS + 4)]
    rule = CountsRule(SideTopic((), "audit"), CountRule())
    feeds = [
        CountsFeed(
            queue,
            rule,
            table="ods.orders",
            periods=PERIODS,
            topic=Topic({0: [count("2026-11-20T08:00:00Z", 1)]}),
            log=stderr_log(level="error"),
        )
        for queue in waits
    ]
    turned = threading.Event()
    other = process_pool().add(turned.set)
    other.wake()
    assert turned.wait(PATIENCE_S)
    assert all(each.pressing for each in feeds)
    for queue, each in zip(waits, feeds, strict=True):
        queue.end(FencedError("the route was left"))
        each.close()


def test_counts_are_read_while_routes_that_nobody_serves_hold_the_pool_of_upkeep(
    driver: Driver,
) -> None:
    waits = [RecordQueue(driver.table.log, ()) for _ in range(MOST_THREADS + 4)]
    request = ForgetRequest(1, "l", "forget", "me@h", "too old", drop=False, partitions=())
    expirers = [Expirer(queue, None, stderr_log(level="error")) for queue in waits]
    for each in expirers:
        each.enqueue(request)
    wait_for(lambda: sum(queue.is_waited_for(Fold()) for queue in waits) >= MOST_THREADS)
    reading = feed(driver, Topic({0: [count("2026-11-20T08:00:00Z", 1)]}))
    try:
        wait_for(lambda: not reading.pressing)
    finally:
        for queue, each in zip(waits, expirers, strict=True):
            queue.end(FencedError("the route was left"))
            each.close()
    reading.close()
    assert [each.rows for body in driver.put(CountsRecord) for each in body.counts] == [1]
