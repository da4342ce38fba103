"""Many partition values in one epoch, in a worker process of its own: rows, files, memory."""

import json
import subprocess
import sys
from pathlib import Path


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
