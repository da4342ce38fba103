"""SPARK_CONF_DIR of a driver on this machine: the user's own, and the environment."""

import os
import shutil
from pathlib import Path

from sluiceway.errors import SubmissionError

UNPACKED = "environment"
"""Folder that an archive is unpacked to, in the working folder of each executor and driver."""
PYTHON_THERE = f"./{UNPACKED}/bin/python"
_DEFAULTS = "spark-defaults.conf"


def write_spark_conf(folder: Path, environment: str) -> dict[str, str]:
    """Write the settings that make executors use a packed environment. Called once a submission.

    `run.spark_conf` of the job file wins over them, as over all of Spark's defaults.

    Args:
        folder: The folder to write; replaced.
        environment: The archive's path or address; empty: executors use their own Python.

    Returns:
        Variables for the driver's process.

    Raises:
        SubmissionError: The folder cannot be written, or SPARK_CONF_DIR cannot be read.
    """
    if not environment:
        return {}
    own = os.environ.get("SPARK_CONF_DIR")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        if own:
            # Also hive-site.xml and similar files, which Spark expects there.
            shutil.copytree(own, folder)
        else:
            folder.mkdir(mode=0o700)
        with (folder / _DEFAULTS).open("a") as settings:
            settings.write(f"\nspark.archives {environment}#{UNPACKED}\n")
    except OSError as error:
        raise SubmissionError(
            f"Spark's settings cannot be written: {error}",
            where=str(folder),
            hint="look at SPARK_CONF_DIR and XDG_STATE_HOME",
        ) from error
    return {"SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": PYTHON_THERE}
