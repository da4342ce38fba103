"""How many records a task has read so far, for whoever watches the run: a small file, no truth."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluiceway.worker.plan import TaskPlan

_EVERY_S = 0.25


class ReadTally:
    """Reports how far a bundle is. One task; used by its thread.

    Args:
        plans: Plans of the bundle. The first one's `tally` is the file; empty writes none.
    """

    def __init__(self, plans: Sequence[TaskPlan]) -> None:
        path = plans[0].tally if plans else ""
        # On another machine than the driver's its folder is not there, and no terminal shows it.
        self._path = Path(path) if path and Path(path).parent.is_dir() else None
        self._due = 0.0

    def write(self, rows: Mapping[str, int]) -> None:
        """Write how many rows of each route were read, unless that was just done.

        Args:
            rows: Rows by the route's name, since the task began.
        """
        now = time.monotonic()
        if self._path is None or now < self._due:
            return
        self._due = now + _EVERY_S
        beside = self._path.with_suffix(".tmp")
        try:
            beside.write_text(json.dumps(rows))
            os.replace(beside, self._path)  # noqa: PTH105 - one call for both names
        except OSError:
            # The watcher has gone and taken its folder along.
            self._path = None


def read_tally(path: str) -> dict[str, int]:
    """What a task has reported; nothing when it has not yet, or the file is unreadable."""
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): rows for name, rows in found.items() if isinstance(rows, int)}
