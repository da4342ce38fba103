"""What a driver takes at most: known before it runs, and not growing with its routes."""

from pathlib import Path

import pytest

from sluiceway.driver.driver_bounds import driver_bounds, memory_mib
from sluiceway.driver.spark.session import default_settings
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import parse_job

JOB = """\
version: 1
name: bounds
connections:
  broker: {kafka: {bootstrap_servers: "nowhere:1"}}
  hms: {metastore: {uri: "thrift://nowhere:1"}}
source: {connection: broker, start: earliest}
format: {json: {unknown_fields: ignore}}
table: {hive: {connection: hms}, columns: [{name: id, type: bigint}], partition_by: []}
routes:
"""


def routes_of(count: int, tmp_path: Path) -> list[RouteConfig]:
    routes = [f"  - {{topics: [topic_{n}], table: ods.t_{n}}}\n" for n in range(count)]
    text = "".join([JOB, *routes]).encode()
    return list(compile_routes(parse_job(text, tmp_path / "job.yaml", {}).spec).routes)


def test_threads_do_not_grow_with_routes_and_heap_is_what_spark_is_given(tmp_path: Path) -> None:
    few = driver_bounds(routes_of(1, tmp_path), default_settings())
    many = driver_bounds(routes_of(80, tmp_path), default_settings())
    assert few == many
    assert (few.heap_mib, few.overhead) == (512, "")
    more = {"spark.driver.memory": "2g", "spark.driver.memoryOverhead": "1g"}
    own = driver_bounds(routes_of(1, tmp_path), default_settings() | more)
    assert (own.heap_mib, own.overhead, own.memory_mib) == (2048, "1g", 2048 + 512)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512m", 512), ("1g", 1024), ("1G", 1024), ("2048k", 2), ("700", 700), ("1gb", 1024)],
)
def test_sizes_are_read_as_spark_reads_them(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


def test_size_that_spark_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a size"):
        memory_mib("1.5g")
