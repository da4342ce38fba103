"""A folder for a process's own files, readable by its user alone."""

import os
import stat
import tempfile
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError


def private_folder() -> Path:
    """The driver's folder for files that are no part of a table: for its user alone, below TMPDIR.

    Raises:
        UnhealthyEnvironmentError: Another user made it, or others may read it.
    """
    folder = Path(tempfile.gettempdir()) / f"sluiceway-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UnhealthyEnvironmentError(
            f"cannot make a folder for temporary files: {error}",
            where=str(folder),
            hint="set TMPDIR to a folder that you may write to",
        ) from error
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not mine or found.st_mode & 0o077:
        raise UnhealthyEnvironmentError(
            "the folder for temporary files is not this user's alone",
            where=str(folder),
            hint="remove it, or set TMPDIR to a folder of your own",
        )
    return folder
