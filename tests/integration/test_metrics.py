"""Counters of a real job against what broker, files and ledger say, counted by other code."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.observe.log import stderr_log
from sluiceway.observe.metrics import METRICS
from sluiceway.service.health import HttpAccess, health_served
from tools.job_files import event
from tools.metrics_truth import Place, differences, read_page, true_counters
from tools.route_faults import NewRun, wait_until
from tools.route_runs import RouteRun
from tools.row_oracle import BrokerRecord
from tools.topic_writer import TopicWriter

NOON_MS = 1_795_176_000_000
HOUR_MS = 3_600_000
BAD = (b"{", b"[1]", b'{"id":1.5,"ts":1}', b'{"ts":1}', b'{"id":1,"ts":1,"amount":"0.125"}')


@contextmanager
def running(run: RouteRun) -> Iterator[int]:
    """The job runs beside the block; the port of its endpoints."""
    stop, board = StopSignal(), StatusBoard()
    driver = threading.Thread(target=lambda: run.run_until(stop, board=board))
    access = HttpAccess.of(run.job.spec)
    with health_served(0, board, stderr_log(level="warning"), access) as port:
        assert port is not None
        driver.start()
        try:
            yield port
        finally:
            stop.ask()
            driver.join(60)
    assert not driver.is_alive()


def page_of(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert "text/plain" in (answer.getheader("Content-Type") or "")
        return read_page(answer.read().decode())
    finally:
        connection.close()


def row(number: int, city: str, at_ms: int = NOON_MS) -> bytes:
    return event(number, ts_ms=at_ms, city=city)


def is_filtered(record: BrokerRecord) -> bool:
    if record.value is None or record.value in BAD:
        return False
    found: object = json.loads(record.value)["city"]
    return found == "nowhere"


def test_counters_are_what_an_independent_reader_counts(
    new_run: NewRun,
    writer: TopicWriter,
    bootstrap_servers: str,
    metastore_uri: str,
) -> None:
    run, topic = new_run(2, event_time="{field: ts, unit: ms, archive_window: 24h}")
    text = run.job.path.read_text()
    run.job.path.write_text(f"{text}where: \"city <> 'nowhere'\"\n")
    writer.write(topic, [row(n, "Berlin") for n in range(300)])
    writer.write(topic, [row(n, "nowhere") for n in range(40)], partition=1)
    writer.write(topic, [BAD[n % len(BAD)] for n in range(23)], partition=1)
    writer.write_keyed(topic, [(b"k", None)] * 7)
    with running(run) as port:
        read = "sluiceway_records_read_total"
        wait_until(lambda: page_of(port).get(read) == {(topic,): 370.0})
        # Forty hours behind what partition 0 has had: late, and put aside.
        old = [row(n, "Berlin", NOON_MS - 40 * HOUR_MS) for n in range(11)]
        writer.write(topic, [*old, *(row(n, "Rome") for n in range(19))])
        wait_until(lambda: page_of(port).get(read) == {(topic,): 400.0})
        lag = "sluiceway_source_lag_records"
        wait_until(lambda: page_of(port).get(lag) == {(topic,): 0.0})
        place = Place(
            *(bootstrap_servers, metastore_uri, run.job.table, topic),
            root=run.root(),
            is_filtered=is_filtered,
        )
        truth = true_counters(place)
        wait_until(lambda: differences(page_of(port), truth) == {})
        page = page_of(port)
    late = truth["sluiceway_records_late_total"]
    assert late == {("side",): 11.0}
    assert sum(truth["sluiceway_records_dirty_total"].values()) == 23
    assert truth["sluiceway_records_filtered_total"] == {(): 40.0}
    assert truth["sluiceway_records_skipped_total"] == {(): 7.0}
    assert page["sluiceway_source_committed_offset"] == {("0", topic): 337.0, ("1", topic): 63.0}
    assert page["sluiceway_job_state"][("running",)] == 1
    assert page["sluiceway_recoveries_total"] == {("start",): 1.0, ("publish",): 0.0}
    phases = page["sluiceway_epoch_duration_seconds_count"]
    epochs = truth["sluiceway_epochs_total"][("committed",)]
    assert {phase: phases[(phase,)] for phase in ("run", "prepare", "commit", "publish")} == (
        dict.fromkeys(("run", "prepare", "commit", "publish"), epochs)
    )
    assert page["sluiceway_store_operation_seconds_count"][("put",)] > epochs
    followers = {("catalog",), ("files",), ("offsets",)}
    assert page["sluiceway_follower_behind_slots"].keys() == followers
    assert page["sluiceway_worker_memory_bytes"][()] > 1 << 20
    assert page["sluiceway_open_writers"][()] >= 1
    assert_all_are_there(page)


def assert_all_are_there(page: dict[str, dict[tuple[str, ...], float]]) -> None:
    """Each name of the definition is on the page of a job that has met all of it."""
    unmet = {"watermark_seconds", "partition_overdue_since_seconds"}
    # The job has one place only.
    unmet |= {"room_ready", "room_needs_confirmation", "rooms_in_one_place", "room_not_waited_for"}
    unmet |= {"last_drill_timestamp_seconds", "room_positions", "mirror_lag_records"}
    unmet |= {"copies_dropped_total"}
    for metric in METRICS:
        name = metric.full_name + ("_count" if metric.kind == "histogram" else "")
        assert (name in page) is (metric.name not in unmet), name
