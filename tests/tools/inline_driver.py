"""`sluiceway run` as it is, but with tasks in threads instead of Spark: a driver to be stopped."""

import sys

from sluiceway.cli.app import run_command
from sluiceway.job import run
from tools.inline_runner import InlineRunner


def main() -> int:
    """Run the process's arguments; the exit code."""
    # A process of its own, so that nobody else meets this.
    run._start_spark = lambda spec, log, *, borrow: (InlineRunner(), None)
    return run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
