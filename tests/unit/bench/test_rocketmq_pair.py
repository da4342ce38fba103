"""The closing line of the bench of RocketMQ beside Kafka, from runs that are known."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.rocketmq_pair")


def _runs(pair: Any, *cpu_s: float, fetch_s: float) -> list[Any]:
    usages = importlib.import_module("bench.process_tree").TreeUsage
    rest = dict.fromkeys(usages.__dataclass_fields__, 0)
    return [
        pair.OurRun(
            usages(**rest | {"cpu_s": each, "wall_s": each}), 1, 1, 0, 1, {"fetch": fetch_s}
        )
        for each in cpu_s
    ]


def test_ratios_are_those_of_the_slopes_and_parts_are_told_for_a_record(pair: Any) -> None:
    runs = {
        side: [
            _runs(pair, 20.0, 20.0, 29.0, fetch_s=1.0),
            _runs(pair, 20.0 + more, 21.0 + more, 20.0 + more, fetch_s=1.0 + more / 10),
        ]
        for side, more in (("kafka", 4.0), ("rocketmq", 6.0), ("singly", 12.0))
    }
    found = pair.result_of((1_000_000, 2_000_000), runs)
    assert (found["kafka_cpu_us"], found["rocketmq_cpu_us"]) == (4.0, 6.0)
    assert (found["cpu_ratio"], found["cpu_ratio_singly"]) == (1.5, 3.0)
    assert found["parts_us"]["rocketmq"] == {"fetch": 0.6}
    assert (found["records"], found["rounds"]) == ([1_000_000, 2_000_000], 3)
