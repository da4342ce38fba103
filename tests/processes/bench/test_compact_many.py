"""Many partitions compacted beside a driver, in small, as `bench.compact_many` measures it."""

import importlib
import json
from pathlib import Path

import pytest


def test_all_partitions_are_compacted_together_with_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    bench = importlib.import_module("bench.compact_many")
    words = ["--partitions", "6", "--files", "3", "--rows", "2", "--interval", "0.01"]
    assert bench.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["partitions"], found["files_before"], found["files_after"]) == (6, 18, 6)
    # A look, and their records; one turn each where the machine has time.
    assert found["turns"] < 1 + 2 * 6
    assert found["rewriting_cpu_s"] > 0
