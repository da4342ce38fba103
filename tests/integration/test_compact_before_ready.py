"""An hour is compacted before it is announced: readers see it once, with few files."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.ledger.partition_records import ReadyRecord, ReplaceRecord
from sluiceway.ledger.records import RecordType
from sluiceway.upkeep import compactor
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

HOUR_8_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 20s}"
EIGHT = "dt=20261120/hr=08"
EPOCHS = 4


def row(number: int, hour: int) -> bytes:
    """An event at a full hour."""
    ts_ms = HOUR_8_MS + (hour - 8) * HOUR_MS
    return json.dumps({"id": number, "ts": ts_ms, "city": "x", "amount": "1.00"}).encode()


def fill(run: RouteRun, writer: TopicWriter, topic: str) -> None:
    """Several commits in hour 8, of which nothing is announced yet."""
    for start in range(0, 10 * EPOCHS, 10):
        writer.write(topic, [row(n, 8) for n in range(start, start + 10)], partition=0)
        run.catch_up()
    assert run.partitions() == {}


def end_hour(writer: TopicWriter, topic: str) -> None:
    """A row that closes hours 8 and 9."""
    writer.write(topic, [row(10 * EPOCHS, 10)], partition=0)


def slots(run: RouteRun, kind: type[ReadyRecord] | type[ReplaceRecord]) -> list[int]:
    """Of what was said of hour 8."""
    found = []
    for record in run.records():
        body = record.body
        if isinstance(body, kind):
            named = body.prefix if isinstance(body, ReadyRecord) else body.partition
            found += [record.seq] if named == EIGHT else []
    return found


def files_of(run: RouteRun) -> list[Path]:
    return sorted(Path(run.partitions()["20261120/08"]).glob("*.parquet"))


def offsets_of(run: RouteRun) -> list[int]:
    found: list[int] = []
    for path in files_of(run):
        found += pq.read_table(path)["_offset"].to_pylist()
    return sorted(found)


def test_hour_is_announced_once_with_its_files_merged(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run(event_time=EVENT_TIME, ready="{success_file: true}")
    fill(run, writer, topic)
    end_hour(writer, topic)
    run.catch_up()
    (replaced,), (ready,) = slots(run, ReplaceRecord), slots(run, ReadyRecord)
    assert replaced < ready
    (record,) = [each for each in run.records() if each.seq == ready]
    assert isinstance(record.body, ReadyRecord)
    assert (record.body.rows, record.body.files) == (10 * EPOCHS, 1)
    (merged,) = files_of(run)
    assert merged.parents[1].name.startswith("_sluiceway-")
    assert (merged.parent / "_SUCCESS").exists()
    assert offsets_of(run) == list(range(10 * EPOCHS))
    run.assert_verified()


def test_hour_whose_compaction_takes_too_long_is_announced_and_compacted_later(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "BEFORE_READY_S", 0.0)
    run, topic = new_run(event_time=EVENT_TIME, ready="{}")
    fill(run, writer, topic)
    with live(run) as driver:
        end_hour(writer, topic)
        driver.wait_for(lambda: len(slots(run, ReplaceRecord)) == 1)
        driver.wait_for(lambda: len(files_of(run)) == 1)
    (replaced,), (ready,) = slots(run, ReplaceRecord), slots(run, ReadyRecord)
    assert ready < replaced
    assert offsets_of(run) == list(range(10 * EPOCHS))
    run.assert_verified()


def test_job_that_never_compacts_announces_the_files_as_they_are(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(event_time=EVENT_TIME, ready="{}", files="{compact: never}")
    fill(run, writer, topic)
    end_hour(writer, topic)
    run.catch_up()
    assert len(slots(run, ReadyRecord)) == 1
    assert RecordType.INTENT not in [record.type for record in run.records()]
    assert len(files_of(run)) == EPOCHS
