"""Many partition values in one epoch: rows, files, memory; and then their small files merged."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from tools.job_files import event
from tools.route_faults import NewRun, data_records
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

VALUES, AGAIN, LATER_EPOCHS = 200, 5, 2


def run_process(values: int, records: int, memory_mib: int) -> dict[str, float]:
    options = ("--values", values, "--records", records, "--memory-mib", memory_mib)
    done = subprocess.run(
        [sys.executable, "-m", "bench.many_values", *map(str, options)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_many_values_with_few_rows_are_one_file_each_within_the_memory() -> None:
    found = run_process(3_000, 60_000, 512)
    assert (found["values"], found["rows"], found["files"]) == (3_000, 60_000, 3_000)
    assert found["most_files_of_a_value"] == 1
    # A file that is closed holds nothing: what all of them held would be beyond this.
    assert found["rss_peak_mib"] - found["rss_before_mib"] < 300


def test_more_rows_than_the_memory_takes_are_all_there_in_more_files() -> None:
    found = run_process(300, 250_000, 128)
    assert (found["values"], found["rows"]) == (300, 250_000)
    assert 300 < found["files"] < 300 * 20
    # Half of the memory, and what one write brings before it is measured: a sorted eighth.
    assert found["kept_peak_mib"] <= 64 + 2 * 16
    assert found["rss_peak_mib"] - found["rss_before_mib"] < 512


def files_of(run: RouteRun) -> Counter[str]:
    """How many files each value has, where the metastore shows it."""
    shown = run.partitions().items()
    return Counter({value: len(list(Path(at).glob("*.parquet"))) for value, at in shown})


def write(writer: TopicWriter, topic: str, first: int, values: int) -> int:
    """A row for each of so many values in each of two source partitions; the next number."""
    for partition in range(2):
        numbers = range(first + partition * values, first + (partition + 1) * values)
        rows = [event(number, city=f"city-{number % values:05d}") for number in numbers]
        writer.write(topic, rows, partition=partition)
    return first + 2 * values


def test_many_values_of_a_route_are_all_there_and_their_files_few_when_merged(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(
        2, event_time="", partition_by="[{name: part, column: city}]", interval="10m"
    )
    written = write(writer, topic, 0, VALUES)
    run.catch_up()
    assert [int(each.counts.written) for each in data_records(run)] == [2 * VALUES]
    files = files_of(run)
    # Two tasks at the most: no value has more files than twice the ideal.
    assert (len(files), max(files.values())) == (VALUES, 2)
    for _ in range(LATER_EPOCHS):
        written = write(writer, topic, written, AGAIN)
        run.catch_up()
    many = {value for value, count in files_of(run).items() if count > 2}
    assert many == {f"city-{number:05d}" for number in range(AGAIN)}
    rows = run.rows()
    capsys.readouterr()
    names = [f"part={value}" for value in files]
    assert run_command(["compact", str(run.job.path), *names, "-o", "json"]) == 0
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    outcomes = Counter(each["outcome"] for each in route["partitions"])
    assert outcomes == {"compacted": AGAIN, "left": VALUES - AGAIN}
    merged = files_of(run)
    assert {merged[value] for value in many} == {1}
    assert merged.total() <= 2 * VALUES
    assert run.rows() == rows
    assert len(rows) == written
    run.assert_verified()
