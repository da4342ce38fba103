"""`compact` on real servers: small files become few, whoever carries it out."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

from sluiceway.cli.app import run_command
from sluiceway.ledger.records import RecordType
from tools.job_files import event
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

COLUMNS = "_partition, _offset, id, ts, city, amount, _topic, _timestamp"


def fill(run: RouteRun, writer: TopicWriter, topic: str, epochs: int) -> None:
    """So many commits, each with a file of its own in the one partition."""
    for start in range(0, 10 * epochs, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()


def compact(
    run: RouteRun, capsys: pytest.CaptureFixture[str], *options: str
) -> list[dict[str, Any]]:
    """What became of the partitions of the one route."""
    capsys.readouterr()
    assert run_command(["compact", str(run.job.path), *options, "-o", "json"]) == 0
    found: list[dict[str, Any]]
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    found = route["partitions"]
    return found


def folder(run: RouteRun) -> Path:
    (place,) = run.partitions().values()
    return Path(place)


def test_partition_is_compacted_without_a_driver_and_left_alone_afterwards(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 4)
    (name,) = [f"dt={value.replace('/', '/hr=')}" for value in run.partitions()]
    rows, old = run.rows(COLUMNS), folder(run)
    assert len(list(old.glob("*.parquet"))) == 4
    (planned,) = compact(run, capsys, name, "--dry-run")
    assert (planned["files"], planned["files_after"], planned["left"]) == (4, 1, "")
    (done,) = compact(run, capsys, name)
    assert (done["outcome"], done["files_before"], done["files_after"]) == ("compacted", 4, 1)
    assert done["cpu_ms"] > 0
    assert folder(run) != old
    assert len(list(folder(run).glob("*.parquet"))) == 1
    assert run.rows(COLUMNS) == rows
    (merged,) = folder(run).glob("*.parquet")
    assert pq.read_table(merged)["_offset"].to_pylist() == list(range(40))
    run.assert_verified()
    (again,) = compact(run, capsys, name)
    assert (again["outcome"], again["files_after"]) == ("left", 1)
    assert not list((run.root() / "_sluiceway").glob("*/requests/*"))


def test_running_driver_compacts_what_it_is_asked_for_while_it_reads(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 3)
    with live(run) as driver:
        writer.write(topic, [event(n) for n in range(30, 40)], partition=0)
        driver.wait_for(lambda: len(run.rows()) == 40)
        (done,) = compact(run, capsys, "dt=20261120")
        assert done["outcome"] == "compacted", done
        writer.write(topic, [event(n) for n in range(40, 50)], partition=0)
        driver.wait_for(lambda: len(run.rows()) == 50)
    assert run.rows() == [(0, n) for n in range(50)]
    kinds = [record.type for record in run.records()]
    assert kinds.count(RecordType.REPLACE) == 1
    # One driver after the three that have filled it.
    assert kinds.count(RecordType.FENCE) == 4
    run.assert_verified()


def test_reader_in_mid_query_reads_on_from_the_files_that_it_has_listed(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run()
    fill(run, writer, topic, 4)
    old = folder(run)
    query = dataset.dataset([str(path) for path in sorted(old.glob("*.parquet"))])
    batches = query.to_batches(columns=["_offset"], batch_readahead=0, fragment_readahead=0)
    seen = next(batches)["_offset"].to_pylist()
    (done,) = compact(run, capsys, "dt=20261120")
    assert done["outcome"] == "compacted"
    assert folder(run) != old
    for batch in batches:
        seen += batch["_offset"].to_pylist()
    assert sorted(seen) == list(range(40))
    # The same listing is read once more, as a retried task does.
    again = query.to_table(columns=["_offset"])["_offset"].to_pylist()
    assert sorted(again) == list(range(40))
    # Whoever asks the metastore now finds the new files, and no row twice.
    assert run.rows() == [(0, n) for n in range(40)]
