"""The benchmarks' events: right size, right columns, the same on every machine."""

import hashlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import independent_reader as reader
from tools import row_oracle as oracle


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2])
        yield importlib.import_module("bench.standard_events")


@pytest.mark.parametrize(
    ("shape", "size", "fields"),
    [
        *(("standard", 455, 14), ("plain", 350, 12), ("narrow", 120, 6), ("wide", 2048, 60)),
        *(("bids", 240, 5), ("taxi", 669, 29)),
    ],
)
def test_bench_events_every_event_has_the_shape(
    bench: Any, shape: str, size: int, fields: int
) -> None:
    events = list(bench.bench_events(3_000, shape=shape))
    columns = bench.SHAPES[shape].columns
    assert {len(event) for event in events} == {size}
    assert len(columns) == fields
    assert all([n for n in json.loads(event) if n in columns] == list(columns) for event in events)


@pytest.mark.parametrize("shape", ["standard", "plain", "narrow", "wide", "bids", "taxi"])
def test_bench_events_every_event_is_convertible_without_nulls(bench: Any, shape: str) -> None:
    view = reader.TableView(bench.SHAPES[shape].columns, ("dt", "hr"), (), ())
    key, time = bench.SHAPES[shape].keys
    expected = reader.Expectation(event_time=(time,), required=frozenset({key, time}))
    rows = oracle.RowOracle(view, expected)
    partitions = set()
    for index, event in enumerate(bench.bench_events(2_400, shape=shape)):
        row = rows.row(reader.BrokerRecord("t", 0, index, None, None, event))
        assert None not in row
        partitions.add(row[-2:])
    assert len(partitions) == 24


def test_bench_events_are_the_same_on_every_machine(bench: Any) -> None:
    digest = hashlib.sha256(b"\n".join(bench.bench_events(2_000))).hexdigest()
    assert digest == "31b9a4cedb2e07fdab1780d98bf1694b62a1b112e8a98f26bbd96d41fc4ea839"


def test_bench_events_a_part_equals_that_part_of_the_whole(bench: Any) -> None:
    whole = list(bench.bench_events(1_000))
    assert list(bench.bench_events(1_000, first=400)) == whole[400:]


def test_expected_id_sum_is_the_sum_of_all_ids(bench: Any) -> None:
    ids = [json.loads(event)["id"] for event in bench.bench_events(777)]
    assert bench.expected_id_sum(777) == sum(ids)
    assert len(set(ids)) == 777
