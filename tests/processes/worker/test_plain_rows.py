"""What a fresh process loads for the rows of a route without a key."""

import subprocess
import sys
from pathlib import Path

CHANGES = {
    *("sluiceway.worker.keyed_stages", "sluiceway.worker.keyed_rows"),
    *("sluiceway.worker.landing", "sluiceway.worker.sql_task"),
    *("sluiceway.worker.replayed_changes", "sluiceway.sinks.change_judge"),
}
SCRIPT = """\
import sys
from tools.small_task import NOW_US, made_batch, run_task
found = run_task([[made_batch(0, [{"id": 7, "ts": NOW_US, "app": "a"}])]])
assert found.ids == {"dt=20261120/hr=12": [7]}, found.ids
print(*sys.modules, sep="\\n")
"""


def test_rows_without_a_key_load_no_code_of_changes() -> None:
    tests = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tests, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines())
    assert "sluiceway.worker.row_stages" in loaded
    assert sorted(CHANGES & loaded) == []
