"""One lab for several runs of pytest: `python -m tools.shared_lab COMMAND ...`.

Runs the command with `SLUICEWAY_TEST_LAB` in its environment; `tools.lab_fixture` goes by it. The
lab is down when the command has ended, however that happens. Tests that stop a server need a lab
of their own and run without the variable.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.lab_fixture import SHARED_LAB, running_lab


def main(command: list[str]) -> int:
    """Run the command while a lab is up; its exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="sluiceway-tests-") as scratch,
        running_lab(Path(scratch) / "lab") as lab,
    ):
        environ = {**os.environ, SHARED_LAB: str(lab.folder)}
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
