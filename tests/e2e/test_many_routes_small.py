"""Benches of many routes and of transactions, small: kills, restarts, a poisoned topic."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 840.0


def figures_of(*command: str) -> dict[str, Any]:
    """The closing line of a bench that ended well."""
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            output, errors = run.communicate(timeout=PATIENCE_S)
        finally:
            # Not SIGKILL: its servers have to end with it.
            run.terminate()
    assert run.returncode == 0, errors
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


@pytest.mark.slow
def test_every_row_of_every_route_is_there_once_while_things_come_and_go() -> None:
    topics, added, kills = 6, 2, 1
    figures = figures_of(
        *("bench.e2e_routes", "--topics", str(topics), "--added", str(added)),
        *("--kills", str(kills), "--seconds", "20", "--rate", "100"),
    )
    assert figures["routes"] == topics + added
    assert (figures["halted"], figures["halted_expected"]) == (1, 1)
    assert figures["kills"] == kills
    assert (figures["lost"], figures["doubled"], figures["altered"]) == (0, 0, 0)
    assert figures["rows"] + figures["dirty"] == figures["read"]
    # All of one topic's rows and a hundredth of the others'.
    assert 0 < figures["dirty"] < figures["rows"]


@pytest.mark.slow
def test_every_row_is_there_once_after_a_rolling_restart_under_transactions() -> None:
    kills, brokers = 2, 3
    figures = figures_of(
        *("bench.e2e_transactions", "--kills", str(kills)),
        *("--rounds", "1", "--seconds", "20", "--rate", "500"),
    )
    assert figures["rows"] > 0
    assert figures["aborted"] > 0
    assert figures["restarts"] >= brokers
    assert figures["kills"] == kills
    assert (figures["lost"], figures["doubled"], figures["halted"]) == (0, 0, 0)
