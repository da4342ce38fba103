import numpy as np
import pytest

from sluiceway.observe import metrics
from sluiceway.observe.figures import FigureLimits, Figures, Histogram, largest
from sluiceway.observe.metrics import METRICS, OTHER, MetricKind

PROMISED = (
    "records_read_total",
    "bytes_read_total",
    "records_written_total",
    "bytes_written_total",
    "files_written_total",
    "write_failed_records_total",
    "write_failed_bytes_total",
    "records_dirty_total",
    "records_late_total",
    "records_filtered_total",
    "epochs_total",
    "epoch_duration_seconds",
    "source_lag_records",
    "source_lag_seconds",
    "source_committed_offset",
    "watermark_seconds",
    "end_to_end_latency_seconds",
    "write_latency_seconds",
    "last_commit_timestamp_seconds",
    "archive_delay_seconds",
    "partition_ready_delay_seconds",
    "partitions_open",
    "partitions_overdue",
    "commit_retries_total",
    "recoveries_total",
    "duplicates_prevented_total",
    "open_writers",
    "worker_memory_bytes",
    "small_files",
    "job_state",
    "build_info",
)
"""Names of the interface, for boards that people have made."""


def test_names_are_those_of_the_design_and_each_is_there_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names)) > 40
    assert [name for name in PROMISED if name not in names] == []


def test_counters_end_in_total_and_histograms_have_rising_bounds() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") is (metric.kind is MetricKind.COUNTER), metric
        assert bool(metric.bounds) is (metric.kind is MetricKind.HISTOGRAM), metric
        assert list(metric.bounds) == sorted(set(metric.bounds)), metric
        assert metric.help.endswith("."), metric


def test_value_on_a_bound_is_under_it() -> None:
    spread = Histogram((1.0, 5.0))
    for value in (0.5, 1.0, 1.1, 5.0, 6.0):
        spread.add(value)
    assert (spread.counts, spread.total) == ([2, 2, 1], 13.6)


def test_many_values_at_once_are_as_each_alone() -> None:
    one, many = Figures(), Figures()
    values, times = [0.01, 0.25, 0.3, 999_999.0], [3, 1, 2, 4]
    for value, count in zip(values, times, strict=True):
        one.observe(metrics.END_TO_END, value, times=count)
    for _ in range(2):
        many.observe_all(metrics.END_TO_END, np.array(values), np.array(times))
    single = one.read().spreads["end_to_end_latency_seconds"][()]
    double = many.read().spreads["end_to_end_latency_seconds"][()]
    assert double.counts == [2 * count for count in single.counts]
    assert double.total == pytest.approx(2 * single.total)
    assert sum(single.counts) == 10


def test_topics_beyond_the_bound_go_under_other_and_are_counted() -> None:
    figures = Figures(FigureLimits(topics=2))
    for topic in ("a", "b", "c", "a", "d"):
        figures.add(metrics.RECORDS_READ, 10, topic)
    figures.add(metrics.BYTES_READ, 7, "b")
    figures.add(metrics.BYTES_READ, 7, "e")
    read = figures.read()
    assert read.numbers["records_read_total"] == {("a",): 20, ("b",): 10, ("_other",): 20}
    assert read.numbers["bytes_read_total"] == {("b",): 7, ("_other",): 7}
    assert read.cut == {"topic": 3}


def test_nothing_counted_leaves_no_series() -> None:
    figures = Figures()
    figures.add(metrics.RECORDS_DIRTY, 0, "broken")
    assert figures.read().numbers == {}


def test_gauge_forgets_what_is_not_said_again() -> None:
    figures = Figures()
    figures.put(metrics.LAG_RECORDS, {("a",): 1, ("b",): 2})
    figures.put(metrics.LAG_RECORDS, {("b",): 3})
    figures.put_one(metrics.WATERMARK, 5)
    figures.put_one(metrics.WATERMARK, None)
    read = figures.read().numbers
    assert read == {"source_lag_records": {("b",): 3}, "watermark_seconds": {}}


def test_what_was_read_does_not_change_any_more() -> None:
    figures = Figures()
    figures.add(metrics.EPOCHS, 1, "committed")
    figures.observe(metrics.WRITE_LATENCY, 0.1)
    read = figures.read()
    figures.add(metrics.EPOCHS, 1, "committed")
    figures.observe(metrics.WRITE_LATENCY, 0.1)
    assert read.numbers["epochs_total"] == {("committed",): 1}
    assert sum(read.spreads["write_latency_seconds"][()].counts) == 1


def test_largest_values_stay_and_the_rest_is_a_sum() -> None:
    values = {"a": 1.0, "b": 9.0, "c": 5.0, "d": 1.0}
    assert largest(values, 4) == (values, 0)
    assert largest(values, 2) == ({"b": 9.0, "c": 5.0, "_other": 2.0}, 2)


def test_lag_of_a_topic_that_is_called_as_the_rest_is_not_lost() -> None:
    found, cut = largest({OTHER: 100.0, "a": 7.0, "b": 5.0}, 2)
    assert (sum(found.values()), found, cut) == (112.0, {OTHER: 105.0, "a": 7.0}, 1)
