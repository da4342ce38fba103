"""Routes that share the reading of a topic, from seeds: promises hold, wrong variants are caught.

The product has to be imported by the simulation itself, so each test runs it as a command.
"""

import json
import os
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
SEEDS = 12
MUTANT_SEEDS = 40
# What the seeds have to have seen, or they show nothing.
SEEN = {"apart", "committed", "fenced", "route_found", "route_halted", "route_waits", "shared"}
SEEN_OF_ROOMS = {"confirmed", "fenced", "mirror_repeats", "room_ready", "rooms_lost"}

SEEN_OF_RETURNS = {"created_again", "drained", "fenced", "rooms_back", "rooms_cut", "switched_back"}
SEEN_OF_COPIES = {"adopt_adopted", "adopt_SW470", "claims_back", "late_files", "rooms_lost"}


def _simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "shared_sim", *arguments]
    return subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, check=False
    )


def assert_proved(done: subprocess.CompletedProcess[str], mutants: int, seen: Set[str]) -> None:
    """No seed breaks a promise, at least so many mutants are all caught, and all this was met."""
    assert done.returncode == 0, done.stdout + done.stderr
    closing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert closing["violations"] == 0, done.stdout
    assert closing["mutants"] == closing["mutants_killed"] >= mutants, done.stdout
    assert {name for name, count in closing["seen"].items() if count} >= seen


def test_seeds_break_no_promise_of_routes_that_share_a_topic_and_mutants_are_caught() -> None:
    done = _simulate("--seeds", str(SEEDS), "--mutant-seeds", str(MUTANT_SEEDS))
    assert_proved(done, 8, SEEN)


def test_seeds_break_no_promise_of_rooms_with_a_mirror_and_mutants_are_caught() -> None:
    done = _simulate("--rooms", "lost", "--seeds", "40", "--mutant-seeds", "120")
    assert_proved(done, 5, SEEN_OF_ROOMS)


def test_seeds_break_no_promise_of_a_room_that_returns_and_mutants_are_caught() -> None:
    done = _simulate("--rooms", "back", "--seeds", "15", "--mutant-seeds", "70")
    assert_proved(done, 6, SEEN_OF_RETURNS)


def test_seeds_break_no_promise_of_copied_tables_and_mutants_are_caught() -> None:
    done = _simulate("--rooms", "copied", "--seeds", "15", "--mutant-seeds", "20")
    assert_proved(done, 6, SEEN_OF_COPIES)


def test_seed_of_shared_reading_replays_exactly() -> None:
    first, second = (_simulate("--seed", "3").stdout for _ in range(2))
    assert first.count("[committed]") > 3
    assert _without_folder(first) == _without_folder(second)


def _without_folder(trace: str) -> list[str]:
    """The trace without the name of its folder, and without what real clocks say."""
    return [line.split(" {")[0] for line in trace.splitlines() if "/shared-sim-" not in line]
