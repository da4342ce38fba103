"""A few wrong changes of the lines that hold a rule: what is named as their proof sees them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutate.kept import ONCE_SURVIVED
from tools.test_plan import slow_after

TESTS = Path(__file__).parents[1]


def _mutate(*arguments: str) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-m", "mutate", "--results", "-", *arguments]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    closing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    wrong = closing["not_applied"] + closing["survived"]
    assert done.returncode == int(wrong > 0), done.stderr
    return closing, done.stdout


@pytest.mark.parametrize(
    "names", slow_after(1, [ONCE_SURVIVED[:3], ONCE_SURVIVED[3:]]), ids=["first", "others"]
)
def test_lines_that_once_nobody_missed_are_missed_by_a_named_test(names: list[str]) -> None:
    chosen = [part for name in names for part in ("--only", name)]
    closing, said = _mutate("--seeds", "0", *chosen)
    assert closing["mutants"] == closing["killed"] == len(names), said


@pytest.mark.slow
def test_mutant_that_nobody_can_tell_from_the_product_lives_through_tests_and_seeds() -> None:
    name = "lease.wait_until_free: < -> <= in: time.monotonic() - watched_since < DEAD_AFTER_S"
    closing, said = _mutate("--seeds", "2", "--only", name)
    assert (closing["mutants"], closing["killed"], closing["equivalent"]) == (1, 0, 1)
    assert f"{name}: SURVIVED" in said
