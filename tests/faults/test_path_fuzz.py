"""The fuzzer of paths: a small run of each format, and that it sees what it looks for."""

import random
from collections.abc import Sequence

import pytest

from sluiceway.host.native_module import native_module
from tools import path_fuzz
from tools.path_fuzz import FORMATS, Made, run_batch

pytestmark = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)


@pytest.mark.parametrize("name", FORMATS)
def test_all_paths_of_a_format_agree(name: str) -> None:
    for seed in range(4):
        found = run_batch(name, seed)
        assert found["examples"] == []
        assert found["rows"] + found["dirty"] <= found["payloads"]
        assert found["paths"] > 1


@pytest.mark.parametrize("fault", ["differences", "unaccounted", "crashes"])
def test_a_path_of_its_own_opinion_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def right(payloads: Sequence[bytes | None]) -> list[object]:
        return ["{}"] * len(payloads)

    def wrong(payloads: Sequence[bytes | None]) -> list[object]:
        if fault == "crashes":
            raise ValueError("no such row")
        return ["lost" if fault == "unaccounted" else "{'a': 1}", *right(payloads[1:])]

    def made(pick: random.Random) -> Made:
        return lambda: pick.randbytes(3), {"exact": right, "native": wrong}

    monkeypatch.setattr(path_fuzz, "FORMATS", {"odd": made})
    found = run_batch("odd", 1)
    assert found[fault] == 1
    assert len(found["examples"]) == 1
