"""`sluiceway pack`: the same bytes twice, and a task on workers that have no Python packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.spark_cluster import spark_cluster

_BARE_PATH = "/usr/bin:/bin"
_TIMEOUT_S = 300
# Runs on the driver; what it gives back was found in the executors' Python.
_PROGRAM = """
import json, sys
from pathlib import Path
from sluiceway.host.java import find_java
from sluiceway.driver.spark.session import start_session

def look(batches):
    import importlib.util, os, sys
    import pyarrow as pa
    import sluiceway.driver.spark.spark_task
    from sluiceway.host.native_module import native_module
    for batch in batches:
        found = [sys.prefix, sluiceway.__file__, str(native_module().__file__), pa.__file__]
        yield pa.RecordBatch.from_pydict({"found": pa.array(["|".join(found)] * batch.num_rows)})

session, log = start_session("pack", sys.argv[1], {"spark.executor.memory": "512m"}, find_java())
rows = session.range(0, 4, 1, numPartitions=4).mapInArrow(look, "found string").collect()
session.stop()
print(json.dumps(sorted({row.found for row in rows})))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pack") / "environment.tar.gz"
    _pack(path)
    return path


def _pack(path: Path, **environment: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", "pack", "--out", str(path), "-o", "json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_archive_has_the_same_bytes_twice(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.gz"
    found = _pack(again, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    assert again.read_bytes() == archive.read_bytes()
    assert "sluiceway-native" in str(found["packages"])
    assert "pytest" not in str(found["packages"])


def test_unpacked_environment_needs_nothing_of_its_machine(archive: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(tmp_path)], check=True)
    script = "import sys, pyspark, sluiceway.driver.run; print(sys.path, sluiceway.__file__)"
    done = subprocess.run(
        [str(tmp_path / "bin" / "python"), "-c", script],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places = [each.strip("[]', ") for each in done.stdout.split()]
    assert [each for each in places if each and not each.startswith(str(tmp_path))] == []


def test_task_runs_on_workers_without_packages(archive: Path, tmp_path: Path) -> None:
    bare = subprocess.run(
        ["python3", "-c", "import pyarrow"],
        env={"PATH": _BARE_PATH},
        capture_output=True,
        check=False,
    )
    assert bare.returncode != 0, "this machine's own Python has the packages: nothing is shown"
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.archives {archive}#environment\n")
    with spark_cluster(tmp_path / "cluster", path=_BARE_PATH) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, cluster.url],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONF_DIR": str(conf),
                "PYSPARK_PYTHON": "./environment/bin/python",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
    assert found
    work = str(tmp_path / "cluster")
    for place in (place for each in found for place in each.split("|")):
        assert place.startswith(work), f"a task used {place}"
        assert "/environment" in place
