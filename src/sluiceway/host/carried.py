"""Files of the machine that submitted a job, which came along with the driver's program.

A job file names them by the path that they have there. On a cluster the driver looks here for its
copy; tasks never do, since nothing of it reaches them.
"""

import json
import os
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "SLUICEWAY_CARRIED"
"""Of the driver's process: JSON of path -> path of the copy."""


def carry(copies: Mapping[str, str]) -> None:
    """Have this process use copies of files, by the paths that a job file names."""
    os.environ[VARIABLE] = json.dumps(dict(copies))


def is_carried() -> bool:
    """Whether this process is a driver whose program brought its files along."""
    return VARIABLE in os.environ


def path_here(path: str) -> str:
    """Where a file that the job names lies on this machine: its copy, else the path itself."""
    copies = json.loads(os.environ.get(VARIABLE, "{}"))
    return str(copies.get(path, path))
