"""The closing line of the bench of stores, from runs that are known, and what it refuses."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COUNTS = (1_000_000, 2_000_000)


@pytest.fixture(scope="module")
def stores() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.stores")


def _run(stores: Any, cpu_s: float) -> Any:
    usages = importlib.import_module("bench.process_tree").TreeUsage
    rest = dict.fromkeys(usages.__dataclass_fields__, 0)
    return stores.OurRun(
        usages(**rest | {"cpu_s": cpu_s, "wall_s": cpu_s}), 2, 1, 0, 1, {"write": cpu_s / 10}
    )


def _found(stores: Any, large_s: dict[str, float], p50_s: dict[str, float]) -> dict[str, Any]:
    runs = {
        kind: [[_run(stores, 20.0)], [_run(stores, 20.0 + more)]] for kind, more in large_s.items()
    }
    fresh = {
        kind: stores.Freshness(2.0, 5.0, 100, p50, 2 * p50, 3 * p50, 1, 0.0, 0.5)
        for kind, p50 in p50_s.items()
    }
    found: dict[str, Any] = stores.closing(COUNTS, runs, fresh)
    return found


def test_ratios_are_to_the_local_disk_and_freshness_is_told_of_each(stores: Any) -> None:
    found = _found(
        stores, {"local": 4.0, "hdfs": 5.0, "s3": 4.4}, {"local": 1.2, "hdfs": 2.4, "s3": 1.5}
    )
    assert found["stores"] == ["local", "hdfs", "s3"]
    assert found["cpu_us"] == {"local": 4.0, "hdfs": 5.0, "s3": 4.4}
    assert found["cpu_ratio"] == {"hdfs": 1.25, "s3": 1.1}
    assert found["append_to_readable_p50_s"] == {"local": 1.2, "hdfs": 2.4, "s3": 1.5}
    assert found["parts_us"]["hdfs"] == {"write": 0.5}
    assert found["epochs"] == {"local": [2], "hdfs": [2], "s3": [2]}
    assert stores.is_within(found)


@pytest.mark.parametrize(
    ("dear", "slow"), [({"hdfs": 5.3}, {}), ({"s3": 0.0}, {}), ({}, {"s3": 2.6})]
)
def test_store_that_costs_more_or_is_slower_is_told_by_the_exit_code(
    stores: Any, dear: dict[str, float], slow: dict[str, float]
) -> None:
    cheap = {"local": 4.0, "hdfs": 4.0, "s3": 4.0}
    fresh = dict.fromkeys(cheap, 1.0)
    assert stores.is_within(_found(stores, cheap, fresh))
    assert not stores.is_within(_found(stores, cheap | dear, fresh | slow))
