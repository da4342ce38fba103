"""One rolling restart of three brokers under a transactional producer, and a kill of the driver."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 840.0
KILLS, BROKERS = 2, 3


@pytest.mark.slow
def test_every_row_is_there_once_after_a_rolling_restart_under_transactions() -> None:
    command = [
        *(sys.executable, "-m", "bench.e2e_transactions", "--kills", str(KILLS)),
        *("--rounds", "1", "--seconds", "20", "--rate", "500"),
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
    assert figures["rows"] > 0
    assert figures["aborted"] > 0
    assert figures["restarts"] >= BROKERS
    assert figures["kills"] == KILLS
    assert (figures["lost"], figures["doubled"], figures["halted"]) == (0, 0, 0)
