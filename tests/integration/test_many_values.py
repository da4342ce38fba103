"""Many partition values in one epoch, in a worker process of its own: rows, files, memory."""

from bench.many_values import run_process


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
