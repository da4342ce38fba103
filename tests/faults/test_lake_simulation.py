"""Publishing to a lake table on a simulated catalog: promises hold, wrong variants are caught."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SEEDS = 14
MUTANTS = (
    *("head-of-now", "first-slot-left", "replaced-twice", "ours-expired", "main-alone"),
    *("key-at-older-head", "fresh-not-carried", "older-not-carried", "truncate-first"),
    *("first-change-counts", "nothing-overtakes"),
)
MUTANT_SEEDS = 120
# What the seeds have to have seen, or they show nothing.
_BOTH = {"publish", "append_foreign", "compact_foreign", "expire", "roll_back", "refused_late"}
_SEEN = {
    "append": {*_BOTH, "waits", "expired_ours", "orphans_removed"},
    "keyed": {*_BOTH, "truncates", "replayed", "superseded", "delete_foreign", "put_back_older"},
}


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lake_sim", "--jobs", "1", *arguments]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("world", _SEEN)
def test_seeds_break_no_promise_of_lake_tables(world: str) -> None:
    done = _run("--seeds", str(SEEDS), "--only", "-", "--world", world)
    closing = json.loads(done.stdout.splitlines()[-1])
    assert (closing["violations"], closing["seeds"]) == (0, SEEDS), done.stdout
    assert closing["seen"].keys() >= _SEEN[world]
    assert done.returncode == 0, done.stderr


def test_wrong_requests_and_batches_are_caught() -> None:
    names = [part for name in MUTANTS for part in ("--only", name)]
    done = _run("--seeds", "0", "--mutant-seeds", str(MUTANT_SEEDS), *names)
    closing = json.loads(done.stdout.splitlines()[-1])
    assert (closing["mutants"], closing["mutants_killed"]) == (len(MUTANTS),) * 2, done.stdout
