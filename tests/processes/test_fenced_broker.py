"""A cluster without a live broker, as after a pause of its only one, ends no process."""

import os
import subprocess
import sys


def test_a_client_lives_through_a_time_without_live_brokers() -> None:
    # A process of its own: where the library's assertion fails, it ends at once.
    done = subprocess.run(
        [sys.executable, "-m", "tools.fenced_broker"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    seen = ["1", *["SW101"] * 4, "1", "0"]
    assert (done.returncode, done.stdout.splitlines()) == (0, seen), done.stderr
