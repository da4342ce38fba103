"""A JVM's loaded Spark classes in an archive: later JVMs start with a third of the CPU.

    python -m sluiceway.driver.spark.class_archive        makes the archive, where there is none yet

`make install` does so once; without the archive a start is only slower. The archive belongs to this
Python environment and one Java. The JVM itself compares its own version and each jar with the
archive, and goes on without it where one differs.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome, find_java

# Hardly any memory is allocated, but G1 would take the whole heap in time. Rows do not pass through
# the JVM, so the second compiler costs more than it saves, even over 300 epochs.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a driver's JVM and of its executors, with an archive or without."""

_FOLDER = Path(sys.prefix) / "share" / "sluiceway"
# The JVM's text about an archive that it refuses would stand among the lines of the log.
_QUIET = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
_MAKE_TIMEOUT_S = 600.0
# Runs what a driver runs: a context, tasks that exchange bytes with Python, the end.
_REHEARSAL = """\
import sys
from pyspark import SparkContext
from sluiceway.host.java import find_java
from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_jobs import JobLabel, StageCounters, collected
from sluiceway.driver.spark.spark_task import warm_task
context, _ = start_context("classes", "local[2]", {"spark.driver.extraJavaOptions": sys.argv[1]},
                           find_java())
counters, label = StageCounters.of(context), JobLabel("classes", "", "classes")
for _ in range(3):
    collected(context, label, [b"", b""], warm_task, counters)
jvm = SparkContext._gateway.proc
context.stop()
SparkContext._gateway.shutdown()
jvm.stdin.close()
sys.exit(jvm.wait(300))
"""


def archive_file(java: JavaHome, folder: Path = _FOLDER) -> Path:
    """Path of the archive of this environment and this Java; the file may be missing."""
    release = java.path / "release"
    built = release.read_bytes() if release.is_file() else b""
    what = (str(java.path.resolve()), pyspark.__version__, pyspark.__file__, _REHEARSAL)
    told = hashlib.sha256("\0".join(what).encode() + built).hexdigest()[:12]
    return folder / f"spark-classes-{told}.jsa"


def archive_options(java: JavaHome, folder: Path = _FOLDER) -> str:
    """JVM options that use the archive; empty without one. Called at each start."""
    file = archive_file(java, folder)
    return f'{_QUIET} "-XX:SharedArchiveFile={file}"' if file.is_file() else ""


def make_archive(java: JavaHome, plain_options: str, folder: Path = _FOLDER) -> Path:
    """Make the archive, or keep an existing one; takes a start of Spark and its end.

    Args:
        java: Java of the archive.
        plain_options: Options with which drivers start their JVM.
        folder: Folder of the archive; created when missing.

    Raises:
        UnhealthyEnvironmentError: Spark does not start, or the folder cannot be written to.
    """
    file = archive_file(java, folder)
    if file.is_file():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            # It gets its name only when it is complete: a JVM maps it into its memory.
            made = Path(scratch) / file.name
            options = f'{plain_options} "-XX:ArchiveClassesAtExit={made}"'
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-c", _REHEARSAL, options],
                env={**os.environ, "JAVA_HOME": str(java.path)},
                capture_output=True,
                text=True,
                check=False,
                timeout=_MAKE_TIMEOUT_S,
            )
            if done.returncode != 0 or not made.is_file():
                last = "\n".join(done.stderr.splitlines()[-5:])
                raise UnhealthyEnvironmentError(
                    f"no archive of Spark's classes was made:\n{last}", where=str(file)
                )
            made.replace(file)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnhealthyEnvironmentError(
            f"no archive of Spark's classes was made: {error}", where=str(file)
        ) from error
    return file


def main() -> int:
    """The command: prints its result in one line. Never fails: all works without an archive."""
    try:
        file = make_archive(find_java(), QUICK_START)
        told = f"Spark's classes: {file.stat().st_size >> 20} MB in {file}"
    except SluicewayError as error:
        told = f"Spark starts without an archive of its classes: {error}"
    sys.stderr.write(f"{told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
