"""The command `sluiceway`, with epochs of lanes of ten rows each: many places to die at."""

import sys

from sluiceway.cli.app import run_command
from sluiceway.upkeep import lanes
from sluiceway.worker import dirty_reader


def main() -> int:
    """Run the process's arguments; the exit code."""
    # A process of its own, so that no other test meets this.
    lanes._EPOCH_S = 0.0
    dirty_reader._ROWS_AT_ONCE = 10
    return run_command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
