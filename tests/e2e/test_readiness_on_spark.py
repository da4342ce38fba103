"""Hours on Spark, from the first row to all who are told, while another Spark looks at the table.

Rows are scrambled over four source partitions. One of them nobody ever writes to; one lags, since
a transaction in it stays open while the others are hours ahead; nothing happens from 11 to 13; and
the driver is killed while an hour is held.
"""

import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord, Record
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.receiving import hook_server, told_keys
from tools.route_runs import RouteRun
from tools.spark_watcher import Hours, spark_watcher
from tools.topic_writer import TopicWriter

BEGIN_S = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
HOUR_S = 3600
SEED = 8
SCRAMBLED_S = HOUR_S // 2
ROWS = 150
LAGGING, SILENT = 0, 3
HOURS = (8, 9, 10, 13, 14, 15)
ANNOUNCED = tuple(range(8, 16))


class Events:
    """Rows in scrambled order, and how many there are of each hour."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)  # noqa: S311 - the same rows in each run
        self.of = Counter[int]()

    def rows(self, *hours: int) -> list[bytes]:
        """Rows of hours for one source partition; none comes after one half an hour younger."""
        times = [
            hour * HOUR_S + self._random.randrange(HOUR_S) for hour in hours for _ in range(ROWS)
        ]
        # Those that say how far it is have to be there.
        times += [(hour + 1) * HOUR_S - 1 for hour in hours]
        times.sort(key=lambda at: at + self._random.randrange(SCRAMBLED_S))
        return self._made(times)

    def last_of(self, hour: int) -> list[bytes]:
        """One more row at an hour's very end."""
        return self._made([(hour + 1) * HOUR_S - 1])

    def _made(self, times: list[int]) -> list[bytes]:
        self.of.update(at // HOUR_S for at in times)
        return [self._row(at) for at in times]

    def _row(self, at_s: int) -> bytes:
        number = self._random.getrandbits(40)
        row = {"id": number, "ts": (BEGIN_S + at_s) * 1000, "city": "x", "amount": "1.00"}
        return json.dumps(row).encode()


def prefix(hour: int) -> str:
    return f"dt=20261120/hr={hour:02d}"


def announcing_job(
    endpoints: LabEndpoints, folder: Path, topic: str, hook_url: str, told_topic: str
) -> JobFile:
    """A job that tells all receivers; nothing but rows moves its hours."""
    ready = f'{{success_file: true, on_all_idle: hold, webhook: {{url: "{hook_url}"}}'
    return write_job(
        folder,
        bootstrap_servers=endpoints.bootstrap_servers,
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        interval="1s",
        event_time="{field: ts, unit: ms, out_of_orderness: 30m, idle_after: 2s}",
        ready=f"{ready}, kafka: {{topic: {told_topic}}}}}",
    )


def why(job: JobFile, hour: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `partitions why` says."""
    capsys.readouterr()
    assert run_command(["partitions", "why", str(job.path), prefix(hour), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def assert_held_by_the_lagging_one(found: dict[str, Any], topic: str) -> None:
    """It waits for one source partition only, and the command names it."""
    (holder,) = found["holders"]
    assert (found["state"], found["reason"]) == ("overdue", "held")
    assert (holder["topic"], holder["partition"], holder["status"]) == (topic, LAGGING, "stalled")
    assert f"{topic}[{LAGGING}] holds it" in found["text"]
    assert "2026-11-20T10:30:00Z" in found["text"]


def assert_none_came_after(records: list[Record], at: dict[str, int]) -> None:
    """No epoch has brought a row to an hour behind its announcement, and none was late."""
    for record in records:
        if isinstance(record.body, DataRecord):
            reached = {"/".join(file.final.split("/")[:2]) for file in record.body.files}
            assert [name for name in reached if record.seq > at.get(name, record.seq)] == []
            assert int(record.body.counts.late) == record.body.late_rows.total == 0


def assert_absent_then_whole(looks: list[Hours], whole: dict[str, int]) -> None:
    """The reader has seen each hour come as a whole, in order, and stay."""
    shown: list[str] = []
    for look in looks:
        assert [hour for hour in shown if hour not in look] == []
        for hour, found in look.items():
            assert found == (whole[hour], whole[hour], 0), hour
        shown += sorted(look.keys() - set(shown))
    assert shown == sorted(whole)


def assert_shown_with_marks(run: RouteRun) -> None:
    """All hours are in the metastore with their `_SUCCESS`, and the table is sound."""
    shown = run.partitions()
    assert sorted(shown) == [f"20261120/{hour:02d}" for hour in ANNOUNCED]
    assert all((Path(place) / "_SUCCESS").exists() for place in shown.values())
    run.assert_verified()


@pytest.mark.slow
def test_each_hour_is_announced_once_whole_and_in_order_to_readers_and_receivers(
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, told_topic = new_topic(4), new_topic(1)
    servers, metastore = lab_endpoints.bootstrap_servers, lab_endpoints.metastore_uri
    writer, events = TopicWriter(servers), Events()
    with hook_server() as hook:
        hook.come_up()
        job = announcing_job(lab_endpoints, tmp_path, topic, hook.url, told_topic)
        run = RouteRun(job)
        for partition in range(SILENT):
            writer.write(topic, events.rows(8, 9), partition=partition)
        with spark_watcher(metastore, job.table, tmp_path) as watcher:
            with DriverProcess(job, tmp_path) as driver:
                told = {"webhook": True, "kafka": True}
                # The silent one holds the hour until it has been quiet for a while.
                while not hook.told:
                    commits = len(driver.events("committed"))
                    for partition in range(SILENT):
                        writer.write(topic, events.last_of(9), partition=partition)
                    driver.wait_for_event("committed", commits + 1)
                driver.wait_until(
                    lambda: why(job, 8, capsys)["announced_to"] == told, "who was told of it"
                )
                # What is behind an open transaction is not read, although it is there.
                with writer.transaction(topic, events.rows(10)) as lagging:
                    writer.write(topic, events.rows(13, 14, 15, 16), partition=LAGGING)
                    for partition in (1, 2):
                        rows = [*events.rows(10), *events.rows(13, 14, 15, 16)]
                        writer.write(topic, rows, partition=partition)
                    driver.wait_until(lambda: why(job, 16, capsys)["rows"], "rows of the last hour")
                    driver.wait_until(
                        lambda: len(why(job, 9, capsys)["holders"]) == 1, "the last holder"
                    )
                    assert_held_by_the_lagging_one(why(job, 9, capsys), topic)
                    driver.wait_until(lambda: any(watcher.looks()), "a reader that sees it")
                    driver.kill_group()
            # Its tasks in threads: two Sparks at one time are enough for a test.
            with DriverProcess(job, tmp_path, module="tools.inline_driver") as driver:
                driver.wait_for_event("fenced")
                assert_held_by_the_lagging_one(why(job, 9, capsys), topic)
                lagging.commit_transaction()
                driver.wait_until(lambda: len(set(hook.heard())) == len(ANNOUNCED), "the rest")
                driver.wait_until(
                    lambda: len(watcher.looks()[-1]) == len(HOURS), "a reader that sees all"
                )
                messages = told_keys(servers, told_topic, len(ANNOUNCED))
            looks = watcher.end()
    records = run.records()
    ready = {r.body.prefix: r for r in records if isinstance(r.body, ReadyRecord)}
    bodies = [each.body for each in records if isinstance(each.body, ReadyRecord)]
    assert [(each.prefix, each.version) for each in bodies] == [(prefix(h), 1) for h in ANNOUNCED]
    counts = [body["rows"] for _, body in hook.told]
    assert counts == [int(each.rows) for each in bodies] == [events.of[h] for h in ANNOUNCED]
    assert_none_came_after(records, {name: each.seq for name, each in ready.items()})
    assert_absent_then_whole(looks, {f"20261120/{hour:02d}": events.of[hour] for hour in HOURS})
    # The driver is killed when its receivers know of the first hour: once each, whoever told.
    assert [key.rpartition(":dt=20261120/hr=")[2] for key in hook.heard()] == [
        f"{hour:02d}:1" for hour in ANNOUNCED
    ]
    assert messages == hook.heard()
    assert_shown_with_marks(run)
