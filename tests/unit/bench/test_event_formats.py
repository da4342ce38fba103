"""The benchmarks' events in each format: the same rows as in JSON, for us and for Flink."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import Field, Schema

COUNT = 40


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    names = ("event_formats", "flink", "workloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield SimpleNamespace(**{name: importlib.import_module(f"bench.{name}") for name in names})


def _rows(bench: Any, name: str, shape: str) -> list[dict[str, Any]]:
    workload = bench.workloads.Workload(shape, format=name)
    payloads = [event for _, event in bench.workloads.workload_events(workload, COUNT)]
    types = bench.event_formats.types_of(shape)
    schema = Schema(tuple(Field(column, of) for column, of in types.items()))
    (options,) = json.loads(bench.event_formats.our_format(name, shape, "auto")).values()
    found = open_decoder(FormatChoice(name, tuple(options.items())), schema).decode(payloads)
    assert found.dirty == ()
    return list(found.rows.to_pylist())


@pytest.mark.parametrize("name", ["debezium", "avro", "protobuf", "csv"])
def test_events_of_every_format_are_those_of_json(bench: Any, name: str) -> None:
    shape = bench.workloads.WORKLOADS[bench.workloads.FORMATS[name]].shape
    assert _rows(bench, name, shape) == _rows(bench, "json", shape)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("json", "`amount`"),
        ("debezium", "`after`.`amount`"),
        ("avro", "`amount`"),
        ("protobuf", "CAST(`amount` AS DECIMAL(18,2))"),
        ("csv", "`amount`"),
    ],
)
def test_flink_reads_the_same_columns(bench: Any, name: str, read: str, tmp_path: Path) -> None:
    workload = bench.workloads.WORKLOADS[bench.workloads.FORMATS[name]]
    source, sink, insert = bench.flink.statements(
        workload, bootstrap_servers="localhost:1", topic="t", folder=tmp_path
    )
    assert f"'format' = '{'json' if name == 'debezium' else name}'" in source
    assert "`amount` DECIMAL(18,2)" in sink
    assert f" {read}," in insert
