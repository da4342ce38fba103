"""The driver's growth: how it is told, and the long ledgers it is measured on."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield SimpleNamespace(scale=importlib.import_module("bench.scale"))


def _steps(bench: Any, power: float, *, start_s: float = 1.0) -> list[Any]:
    return [
        bench.scale.Step(size, 2.0 * size**power, 2.0 * size**power, size**power, start_s)
        for size in (1, 100, 10_000)
    ]


@pytest.mark.parametrize(
    ("partitions", "files", "start_s", "fine"),
    [
        (1.0, 0.0, 1.0, True),
        (1.3, 0.0, 1.0, False),
        (1.0, 0.3, 1.0, False),
        (1.0, 0.0, 5.1, False),
    ],
)
def test_result_tells_what_grows_too_fast(
    bench: Any, partitions: float, files: float, start_s: float, fine: object
) -> None:
    line, found = bench.scale.result_of(
        {
            "partitions": _steps(bench, partitions),
            "routes": _steps(bench, 0.5),
            "ledger_files": _steps(bench, files, start_s=start_s),
        }
    )
    assert found is fine
    assert line["as_allowed"] is fine
    assert line["partitions_growth"] == pytest.approx(partitions)
    assert line["routes_cpu_growth"] == pytest.approx(0.5)
    assert line["ledger_files_growth"] == pytest.approx(files)
    assert line["start_s"] == start_s
