"""A route that announces its hours, on real Kafka and a real metastore, with tasks in threads."""

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq

from sluiceway.driver.stop import StopSignal
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

PATIENCE_S = 240.0
DAY = "2026-11-20T"


def at(clock: str) -> int:
    """Milliseconds of a time of the day that the events are of."""
    return int(datetime.fromisoformat(f"{DAY}{clock}:00+00:00").timestamp() * 1000)


def row(number: int, clock: str) -> bytes:
    """An event."""
    return json.dumps({"id": number, "ts": at(clock), "city": "x", "amount": "1.00"}).encode()


def prefix(hour: int) -> str:
    """Folder of an hour."""
    return f"dt=20261120/hr={hour:02d}"


def announced(run: RouteRun) -> list[ReadyRecord]:
    """All READY records, in order."""
    return [each.body for each in run.records() if isinstance(each.body, ReadyRecord)]


@dataclass
class Reader:
    """Polls the metastore and reads what it shows, as a user's query would."""

    run: RouteRun
    seen: dict[str, list[int]] = field(default_factory=dict)
    without_success: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Rows of each partition that is shown, when they have changed."""
        for value, place in self.run.partitions().items():
            files = sorted(Path(place).glob("*.parquet"))
            rows = sum(pq.read_metadata(each).num_rows for each in files)
            known = self.seen.setdefault(value, [])
            if known[-1:] != [rows]:
                known.append(rows)
            if not (Path(place) / "_SUCCESS").exists():
                self.without_success.add(value)


class Running:
    """A job in a thread, stopped at the end of the block, and whoever feeds it."""

    def __init__(self, run: RouteRun, also: threading.Event) -> None:
        self._stop = StopSignal()
        self._also = also
        self._thread = threading.Thread(target=self._go, args=(run,))
        self.error: BaseException | None = None

    def _go(self, run: RouteRun) -> None:
        try:
            run.run_until(self._stop)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self.error = error

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._also.set()
        self._stop.ask()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert self.error is None


def test_each_hour_appears_once_whole_and_in_order(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run(
        4,
        event_time="{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 20s}",
        ready="{success_file: true, on_all_idle: hold}",
    )
    expected = dict.fromkeys(range(8, 17), 0)
    number = 0

    def send(partition: int, clock: str) -> None:
        nonlocal number
        number += 1
        expected[int(clock[:2])] += 1
        writer.write(topic, [row(number, clock)], partition=partition)

    reader = Reader(run)
    lagging = threading.Event()

    def lag() -> None:
        # It has rows all the time, and they are of hours that the others have left.
        minute = 0
        while not lagging.wait(0.5):
            send(2, f"09:{minute % 50:02d}")
            minute += 1

    # Nobody ever writes to partition 3; nothing happens from 11 to 13.
    for clock in ("08:40", "08:10", "08:55", "08:30"):
        send(0, clock)
        send(1, clock)
    send(2, "08:05")
    run.catch_up()
    assert run.partitions() == {}
    feeder = threading.Thread(target=lag)
    feeder.start()
    with Running(run, lagging):
        for clock in ("09:50", "09:20", "10:30", "10:05", "13:40", "13:10"):
            send(0, clock)
            send(1, clock)
        wait_for(lambda: [each.prefix for each in announced(run)] == [prefix(8)])
        reader.look()
        # Partition 2 holds: the others are hours ahead of it.
        marks = [r.body.watermark for r in run.records() if isinstance(r.body, DataRecord)]
        held = max(int(mark.us) for mark in marks if mark is not None and mark.us is not None)
        assert held < at("10:00") * 1000
        lagging.set()
        feeder.join(PATIENCE_S)
        for clock in ("14:59", "14:00", "15:30", "16:30"):
            for partition in (0, 1, 2):
                send(partition, clock)
        end = time.monotonic() + PATIENCE_S
        while len(reader.seen) < 8 or len(announced(run)) < 8:
            assert time.monotonic() < end, (reader.seen, announced(run))
            reader.look()
            time.sleep(0.1)
        reader.look()

    found = announced(run)
    assert [each.prefix for each in found] == [prefix(hour) for hour in range(8, 16)]
    assert {each.version for each in found} == {1}
    assert [int(each.rows) for each in found] == [expected[hour] for hour in range(8, 16)]
    assert reader.seen == {f"20261120/{hour:02d}": [expected[hour]] for hour in range(8, 16)}
    assert reader.without_success == set()
    run.assert_verified()
