"""Writes what comes on standard input to a bounded log, until all who may write there are gone.

A process of its own, `python -m sluiceway.cluster.log_keeper PATH PART_BYTES`, so that a driver
whose supervisor was killed still has somebody who listens.
"""

import json
import os
import signal
import sys
from pathlib import Path

from sluiceway.host.bounded_log import BoundedLog

_BLOCK_BYTES = 1 << 16


class LogKeeper:
    """Never raises and never stops listening: a full disk costs lines, not the driver.

    Args:
        log: Where to.
    """

    def __init__(self, log: BoundedLog) -> None:
        self._log = log
        self._lost = 0

    def keep(self, block: bytes) -> None:
        """Write what was read, and first how much could not be written before it."""
        try:
            if self._lost:
                told = {"event": "log_lost", "level": "warning", "bytes": self._lost}
                self._log.write(b"\n" + json.dumps(told).encode() + b"\n")
                self._lost = 0
            self._log.write(block)
        except OSError:
            self._lost += len(block)

    def keep_all(self, source: int) -> None:
        """Write all that comes from a descriptor, to its end."""
        while block := os.read(source, _BLOCK_BYTES):
            self.keep(block)


def main() -> None:
    """Keep the log that the arguments name."""
    # It ends with the last of those it listens to, not before them.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    path, part_bytes = sys.argv[1:]
    LogKeeper(BoundedLog(Path(path), part_bytes=int(part_bytes))).keep_all(sys.stdin.fileno())


if __name__ == "__main__":
    main()
