"""The job file of a chain: both tables, and nothing of the first left for all routes."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.jobfile.loader import parse_job
from sluiceway.lab.lab import LabEndpoints


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """What imports a module of the benchmarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield lambda name: importlib.import_module(f"bench.{name}")


def test_second_route_reads_the_table_of_the_first(bench: Any, tmp_path: Path) -> None:
    chained, ours = bench("freshness").chained, bench("ours")
    endpoints = LabEndpoints("k:9092", "thrift://h:9083", tmp_path)
    whole = {"topic": "fresh-2000", "name": "fresh-2000", "location": tmp_path / "fresh_2000"}
    text = ours.job_text(bench("workloads").Workload(), endpoints, ours.JobChoices(), **whole)
    raw, refined = parse_job(
        chained(text, "fresh-2000", "fresh_2000", tmp_path).encode(), Path("job.yaml"), {}
    ).spec.routes
    assert (raw.source.names, raw.table.target.name) == (("fresh-2000",), "bench.fresh_2000")
    assert refined.source.names == ("table:bench.fresh_2000",)
    assert refined.table.target.name == "bench.fresh_2000_refined"
    with pytest.raises(ValueError, match="the job file has no"):
        chained(text, "another", "fresh_2000", tmp_path)
