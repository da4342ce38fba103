"""How the user calls this program again, for hints that work when they are copied."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def own_command(*, anywhere: bool = False) -> str:
    """`sluiceway` when the PATH has this installation, else how to call it from here.

    Args:
        anywhere: Whether the command has to work from every folder.
    """
    beside = Path(sys.executable).parent / "sluiceway"
    found = shutil.which("sluiceway")
    if found is not None and beside.exists() and Path(found).samefile(beside):
        return "sluiceway"
    if os.access(beside, os.X_OK):
        return shlex.quote(str(beside) if anywhere else from_here(beside))
    python = Path(sys.executable)
    return f"{shlex.quote(str(python) if anywhere else from_here(python))} -m sluiceway"


def from_here(path: Path) -> str:
    """The path, as short as it can be typed in the current folder."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def exports(bootstrap_servers: str, metastore_uri: str) -> list[str]:
    """Shell lines that set the variables of the example's job file."""
    return [
        f"export SLUICEWAY_KAFKA={shlex.quote(bootstrap_servers)}",
        f"export SLUICEWAY_METASTORE={shlex.quote(metastore_uri)}",
    ]
