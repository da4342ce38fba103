"""Hours that wait for audited counts, on real Kafka and a real metastore, with tasks in threads."""

import json
from datetime import datetime

from sluiceway.audit.partition_states import ObservedCounts
from sluiceway.audit.partition_wait import PartitionWatch
from sluiceway.audit.partition_why import WaitExplanation
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 20s}"


def row(number: int, clock: str) -> bytes:
    """An event of 2026-11-20."""
    at = int(datetime.fromisoformat(f"2026-11-20T{clock}:00+00:00").timestamp() * 1000)
    return json.dumps({"id": number, "ts": at, "city": "x", "amount": "1.00"}).encode()


def count(run: RouteRun, hour: int, rows: int) -> bytes:
    """What an auditor says of an hour of the run's table."""
    time_of = f"2026-11-20T{hour:02d}:00:00Z"
    return json.dumps({"table": run.job.table, "time": time_of, "rows": rows}).encode()


def announced(run: RouteRun) -> list[tuple[str, int]]:
    """Hour and rows of all READY records, in order."""
    bodies = [each.body for each in run.records()]
    return [(b.prefix[-2:], int(b.rows)) for b in bodies if isinstance(b, ReadyRecord)]


def why(run: RouteRun, hour: int) -> WaitExplanation:
    """What the ledger says of an hour."""
    return PartitionWatch(run.config(), f"dt=20261120/hr={hour:02d}").check()


def late_rows(run: RouteRun) -> int:
    """All rows that were late."""
    bodies = [each.body for each in run.records()]
    return sum(body.late_rows.total for body in bodies if isinstance(body, DataRecord))


def test_hour_waits_for_the_rows_that_were_counted_from_one_driver_to_the_next(
    new_run: NewRun, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    audit = new_topic(2)
    run, topic = new_run(
        2,
        event_time=EVENT_TIME,
        ready=f"{{on_all_idle: hold, counts: {{topic: {audit}}}}}",
    )
    for partition in (0, 1):
        first = 10 * partition
        writer.write(topic, [row(first, "08:10"), row(first + 1, "09:20")], partition=partition)
        writer.write(topic, [row(first + 2, "10:30")], partition=partition)
    run.catch_up()
    found = why(run, 8)
    assert (found.reason, found.counts) == ("counts", ObservedCounts(2, None))
    assert found.state == "overdue"
    assert run.partitions() == {}

    # Nobody is misled by an aborted message, by others' tables, and by what is no count.
    writer.abort(audit, [count(run, 8, 2)])
    others = count(run, 8, 2).replace(run.job.table.encode(), b"ods.others")
    writer.write(audit, [others, b"what?", None, count(run, 8, 3), count(run, 9, 9)])
    run.catch_up()
    found = why(run, 8)
    assert found.reason == "counts"
    assert found.text.startswith("counts: have 2 of 3 rows. No driver works for it now")
    assert why(run, 9).reason == "in_order"
    assert announced(run) == []

    # The hour is open still: its last row is in time, however far the watermark is.
    writer.write(topic, [row(3, "08:59")])
    run.catch_up()
    assert announced(run) == [("08", 3)]
    assert late_rows(run) == 0
    assert list(run.partitions()) == ["20261120/08"]

    writer.write(audit, [count(run, 9, 2)], partition=1)
    run.catch_up()
    assert announced(run) == [("08", 3), ("09", 2)]
    records = [each.body for each in run.records()]
    counts = [body for body in records if isinstance(body, CountsRecord)]
    assert [[int(each.rows) for each in body.counts] for body in counts] == [[3, 9], [2]]
    closing = [b.counted for b in records if isinstance(b, DataRecord) and b.closed]
    assert closing == [("dt=20261120/hr=08",), ("dt=20261120/hr=09",)]
    writer.write(topic, [row(4, "08:58")])
    run.catch_up()
    assert late_rows(run) == 1
    run.assert_verified()


def test_counts_alone_announce_as_they_come_while_a_partition_lags(
    new_run: NewRun, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    audit = new_topic(1)
    since = 'since: "2026-11-20T09:00:00Z"'
    run, topic = new_run(
        2,
        event_time=EVENT_TIME,
        ready=f"{{on_all_idle: hold, counts: {{topic: {audit}, complete_by: count, {since}}}}}",
    )
    writer.write(topic, [row(1, "08:10"), row(2, "09:20"), row(3, "10:30")])
    run.catch_up()
    with live(run) as running:
        # An hour before `since` goes by the watermark, which nobody holds any more at 09:00.
        writer.write(topic, [row(11, "09:00")], partition=1)
        wait_for(lambda: announced(run) == [("08", 1)])
        writer.write(audit, [count(run, 10, 1), count(run, 9, 3)])
        wait_for(lambda: why(run, 9).counts == ObservedCounts(2, 3))
        assert why(run, 10).reason == "in_order"
        writer.write(topic, [row(12, "09:01")], partition=1)
        wait_for(lambda: announced(run) == [("08", 1), ("09", 3), ("10", 1)])
        running.stop()
    assert late_rows(run) == 0
    run.assert_verified()
