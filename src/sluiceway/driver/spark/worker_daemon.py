"""Spark's daemon of Python workers, for a master on this machine.

Spark puts archives before all other entries of Python's path: its own pyspark, and a jar. Modules
of an archive are compiled again in each process. That cost a run 0.4 s before its first commit.
"""

import sys
from pathlib import Path

_ARCHIVE = ("python", "lib", "pyspark.zip")


def archives_last(path: list[str]) -> list[str]:
    """Python's path with Spark's archives after the folder where the same pyspark is installed.

    Args:
        path: As Spark has made it. A pyspark that is not below a folder of it stays first.
    """
    found = next((entry for entry in path if Path(entry).parts[-3:] == _ARCHIVE), None)
    if found is None or str(Path(found).parents[3]) not in path:
        return path
    return sorted(path, key=lambda entry: entry.endswith((".zip", ".jar")))


if __name__ == "__main__":
    sys.path[:] = archives_last(sys.path)
    from pyspark.daemon import manager

    manager()
