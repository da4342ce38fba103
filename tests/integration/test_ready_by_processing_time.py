"""`ready` by processing time on real servers: a minute is announced when the clock is past it."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.schedule import steady_clock
from tools.job_files import event
from tools.route_faults import LiveRun, NewRun, data_records, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

PATIENCE_S = 180.0


def announcing(new_run: NewRun) -> tuple[RouteRun, str]:
    return new_run(
        event_time="{field: $processing_time, out_of_orderness: 0s, idle_after: 1s}",
        partition_by='[{name: at, event_time: "yyyyMMddHHmm"}]',
        ready="{visible: on_ready}",
    )


def announced(run: RouteRun) -> dict[str, ReadyRecord]:
    bodies = (record.body for record in run.records())
    return {body.prefix: body for body in bodies if isinstance(body, ReadyRecord)}


def written(run: RouteRun) -> list[str]:
    """The partition of each committed row, in the order of the log."""
    files = [file for body in data_records(run) for file in body.files]
    return [file.final.partition("/")[0] for file in files for _ in range(int(file.rows))]


def wait_a_minute(running: LiveRun, condition: Callable[[], bool]) -> None:
    """Wait for the end of a minute of the clock, while the route lives."""
    until = time.monotonic() + PATIENCE_S
    while not (running.ended() or condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
    assert condition(), "the route has ended"


def end_us(prefix: str) -> int:
    begin = datetime.strptime(prefix.removeprefix("at=") + "+0000", "%Y%m%d%H%M%z")
    return int((begin + timedelta(minutes=1)).timestamp() * 1_000_000)


def minute_of(at_s: float) -> str:
    return f"at={datetime.fromtimestamp(at_s, UTC):%Y%m%d%H%M}"


def test_minute_in_which_a_row_is_read_is_announced_when_it_is_over_with_all_its_rows(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = announcing(new_run)
    began = time.time()
    writer.write(topic, [event(0), event(1)])
    run.catch_up()
    first = written(run)
    assert len(first) == 2
    with live(run) as running:
        assert minute_of(began) <= min(first) <= max(first) <= minute_of(time.time())
        wait_a_minute(running, lambda: set(first) <= set(announced(run)))
        # What is read from now on goes to a later minute, whatever the topic says of its time.
        writer.write(topic, [event(2)])
        running.wait_for(lambda: len(written(run)) == 3)
        last = written(run)[-1]
        assert last > max(first)
        wait_a_minute(running, lambda: last in announced(run))
        running.wait_for(lambda: len(run.rows()) == 3)
        running.stop()
    ready = announced(run)
    assert list(ready) == sorted(ready), "not in the order of time"
    rows = {prefix: int(body.rows) for prefix, body in ready.items() if body.rows}
    assert rows == Counter(written(run))
    for prefix, body in ready.items():
        assert body.at_us is not None
        assert body.at_us >= end_us(prefix) + 1_000_000, "before the minute and `idle_after`"
    run.assert_verified()


class DayAhead:
    """The clocks of this host, of which the wall clock may be set a day ahead."""

    def __init__(self) -> None:
        self.wrong_s = 0

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ns(self) -> int:
        return time.time_ns() + self.wrong_s * 1_000_000_000


def test_clock_that_is_a_day_ahead_for_a_while_closes_nothing_and_dates_no_row(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = DayAhead()
    monkeypatch.setattr(steady_clock, "time", clock)
    run, topic = announcing(new_run)
    writer.write(topic, [event(0)])
    run.catch_up()
    with live(run) as running:
        clock.wrong_s = 86_400
        writer.write(topic, [event(1)])
        running.wait_for(lambda: len(written(run)) == 2)
        wait_a_minute(running, lambda: set(written(run)) <= set(announced(run)))
        clock.wrong_s = 0
        writer.write(topic, [event(2)])
        running.wait_for(lambda: len(written(run)) == 3)
        running.stop()
    now = time.time()
    assert max(written(run)) <= minute_of(now)
    assert max(announced(run)) <= minute_of(now)
    run.assert_verified()
