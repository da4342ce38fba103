"""How the process of a command ends while a thread of it is still under way."""

import subprocess
import sys

LEFT_BEHIND = """\
import atexit, os, sys, threading
from sluiceway.cli import app


class Torn:
    def __del__(self):
        os.write(2, b"the interpreter is taken down")


def run_command(args):
    atexit.register(os.write, 1, b"tidied ")
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("told ", end="", flush=True)
    return 7


torn = Torn()
app.run_command = run_command
app.main()
"""


def test_threads_that_are_left_behind_meet_no_interpreter_that_is_taken_down() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "told tidied ", "")
