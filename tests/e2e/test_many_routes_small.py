"""Many topics into many tables by one job, small: a kill, a poisoned topic, a dropped table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 840.0
TOPICS, ADDED, KILLS = 6, 2, 1


@pytest.mark.slow
def test_every_row_of_every_route_is_there_once_while_things_come_and_go() -> None:
    command = [
        *(sys.executable, "-m", "bench.e2e_routes", "--topics", str(TOPICS), "--added", str(ADDED)),
        *("--kills", str(KILLS), "--seconds", "20", "--rate", "100"),
    ]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            output, told = run.communicate(timeout=PATIENCE_S)
        finally:
            # Not SIGKILL: its servers have to end with it.
            run.terminate()
    assert run.returncode == 0, told
    figures = json.loads(output.splitlines()[-1])
    assert figures["routes"] == TOPICS + ADDED
    assert (figures["halted"], figures["halted_expected"]) == (1, 1)
    assert figures["kills"] == KILLS
    assert (figures["lost"], figures["doubled"], figures["altered"]) == (0, 0, 0)
    assert figures["rows"] + figures["dirty"] == figures["read"]
    # All of one topic's rows and a hundredth of the others'.
    assert 0 < figures["dirty"] < figures["rows"]
