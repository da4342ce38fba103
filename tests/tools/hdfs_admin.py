"""`hdfs dfsadmin` on the lab's HDFS."""

import os
import subprocess

from sluiceway.host.java import find_java
from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.jars import default_cache_folder, jars_folder, pinned_jars, spark_jars_folder

_MAIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"


def hdfs_admin(hdfs: HdfsEndpoint, *command: str) -> None:
    """Run it by the jars that are there; it has to succeed."""
    cache = default_cache_folder(os.environ)
    jars = jars_folder(cache, "hdfs-3.4.2", pinned_jars("hdfs_jars.json"))
    classes = f"{hdfs.config_dir}:{jars}/*:{spark_jars_folder()}/*"
    subprocess.run(
        [str(find_java().executable), "-cp", classes, _MAIN, *command],
        check=True,
        capture_output=True,
        timeout=600,
    )
