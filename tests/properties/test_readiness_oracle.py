"""Watermark, closing, readiness and late rows in generated histories, judged by brute force."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from readiness_oracle.campaign import MUST_MEET, run_history
from readiness_oracle.generate import generate
from readiness_oracle.judge import EARLY
from readiness_oracle.mutants import MUTANTS, named, patched
from readiness_oracle.shrink import shrunk
from readiness_oracle.simulate import Verdict

TESTS = Path(__file__).parents[1]
HISTORIES = 600
_KINDS = ("early_ready", "silent_late", "stuck")
_ONCE_WRONG = (22608, 30386, 39880, 52414, 67933, 99181)


def test_no_history_is_early_silent_or_stuck_and_every_mutant_is_caught() -> None:
    command = [sys.executable, "-m", "readiness_oracle", "--histories", str(HISTORIES)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    closing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    wrong = {kind: closing[kind] for kind in _KINDS}
    assert wrong == dict.fromkeys(_KINDS, 0), done.stdout[:5000]
    assert closing["histories"] == HISTORIES
    assert closing["mutants_killed"] == closing["mutants"] == len(MUTANTS), done.stdout[-9000:]
    # Every situation of `MUST_MEET` occurred, and no decision of another kind was wrong.
    assert done.returncode == 0, done.stdout[-9000:]


@pytest.mark.parametrize("seed", _ONCE_WRONG)
def test_history_that_once_went_wrong_does_not(seed: int) -> None:
    assert run_history(generate(seed)).violations == ()


def test_enough_mistakes_are_planted() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10
    assert len(MUST_MEET) == len(set(MUST_MEET)) > 20


def test_history_of_a_seed_is_always_the_same() -> None:
    assert generate(17) == generate(17)
    assert generate(17) != generate(18)


def test_mutant_that_nobody_knows_is_refused() -> None:
    with pytest.raises(LookupError, match="idle-by-timer"):
        named("no-such")


def _first_wrong() -> tuple[int, Verdict]:
    for seed in range(50):
        verdict = run_history(generate(seed))
        if verdict.violations:
            return seed, verdict
    raise AssertionError("no history fails")


def test_failing_history_is_made_smaller_and_fails_in_the_same_way() -> None:
    with patched(named("idle-by-timer")):
        seed, verdict = _first_wrong()
        assert verdict.violations[0].kind == EARLY
        whole, small = generate(seed), shrunk(generate(seed), run_history)
        again = run_history(small, traced=True)
    assert again.violations[0].kind == EARLY
    assert any("watermark" in line for line in again.trace)
    rows = [sum(len(log.entries) for log in each.logs) for each in (small, whole)]
    assert (len(small.epochs), rows[0]) < (len(whole.epochs), rows[1])
    assert run_history(small).violations == ()
