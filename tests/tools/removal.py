"""Removes a folder in which somebody else still makes or removes files."""

import shutil
from pathlib import Path

_TRIES = 100


def remove_beside_others(folder: Path) -> None:
    """Remove it, also when files come or go between the steps of the removal.

    Raises:
        OSError: Somebody goes on for too long, or it cannot be removed.
    """
    for _ in range(_TRIES):
        try:
            shutil.rmtree(folder)
        except OSError:
            if not folder.exists():
                return
            continue
        return
    shutil.rmtree(folder)
