"""Files that came with a submitted driver's program from the machine of its submission.

A job file names them by their paths on that machine. On a cluster the driver finds its copies here.
Tasks never use them, because no copy reaches them.
"""

import json
import os
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "SLUICEWAY_CARRIED"
"""Variable of the driver's process: JSON of path -> path of the copy."""


def carry(copies: Mapping[str, str]) -> None:
    """Make this process use copies of files, by the paths in the job file."""
    os.environ[VARIABLE] = json.dumps(dict(copies))


def is_carried() -> bool:
    """Whether this process is a driver whose program brought its files along."""
    return VARIABLE in os.environ


def path_here(path: str) -> str:
    """Path on this machine of a file that the job names: its copy, else the path itself."""
    copies = json.loads(os.environ.get(VARIABLE, "{}"))
    return str(copies.get(path, path))
