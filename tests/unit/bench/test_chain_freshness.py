"""The job file of a chain: both tables, and nothing of the first left for all routes."""

from pathlib import Path

import pytest
from bench.freshness import chained
from bench.ours import JobChoices, job_text
from bench.workloads import Workload

from sluiceway.jobfile.loader import parse_job
from sluiceway.lab.lab import LabEndpoints


def test_second_route_reads_the_table_of_the_first(tmp_path: Path) -> None:
    endpoints = LabEndpoints("k:9092", "thrift://h:9083", tmp_path)
    whole = {"topic": "fresh-2000", "name": "fresh-2000", "location": tmp_path / "fresh_2000"}
    text = job_text(Workload(), endpoints, JobChoices(), **whole)
    raw, refined = parse_job(
        chained(text, "fresh-2000", "fresh_2000", tmp_path).encode(), Path("job.yaml"), {}
    ).spec.routes
    assert (raw.source.names, raw.table.target.name) == (("fresh-2000",), "bench.fresh_2000")
    assert refined.source.names == ("table:bench.fresh_2000",)
    assert refined.table.target.name == "bench.fresh_2000_refined"
    with pytest.raises(ValueError, match="the job file has no"):
        chained(text, "another", "fresh_2000", tmp_path)
