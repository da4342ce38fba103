"""Flink's side of the comparison: its jars, its job, one run.

A SQL job, as its users write it: Kafka JSON -> Parquet with zstd, partitioned as our table is, the
same columns and the same four of the record. Fair settings, found by trying:

- parallelism and task slots = cores, object reuse, a checkpoint every 10 s, no restart
- the fast JSON path (`json.decode.json-parser.enabled`), rows that do not parse are skipped
- the job runs in one JVM with its mini cluster: no network between tasks, source, projection and
  writer chained into one task; the heap is never short
- the read is bounded by the log ends at the start, so that the job ends by itself

It does less than ours: no metastore, no dirty rows, no check of types (12.5 in an INT becomes
NULL), no accounting. Its jars are downloaded once into the cache that the labs share, each
with its hash; what Spark ships already is taken from there.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.check_output import WrongOutputError
from bench.event_formats import flink_source, message_classes
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES
from bench.workloads import Workload
from sluiceway.host.java import find_java
from sluiceway.lab.jars import (
    PinnedJar,
    default_cache_folder,
    ensure_jars,
    jars_folder,
    spark_jars_folder,
)
from sluiceway.lab.support import LabProgress

FLINK = "2.3.0"
HEAP = "2g"
CHECKPOINTS = "10s"
FROM_SPARK = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "zstd-jni-*.jar",
    "slf4j-api-*.jar",
    "py4j-*.jar",
)
RECORD_COLUMNS = {
    "kafka_topic": ("STRING", "topic"),
    "kafka_partition": ("INT", "partition"),
    "kafka_offset": ("BIGINT", "offset"),
    "kafka_timestamp": ("TIMESTAMP_LTZ(3)", "timestamp"),
}


def fetch_flink(cache: Path) -> str:
    """Have Flink's jars in the cache.

    Returns:
        The class path.

    Raises:
        UnhealthyEnvironmentError: The download failed, or a jar is not what was pinned.
    """
    folder = _jars(cache)[0]
    spark = spark_jars_folder()
    shared = [str(path) for pattern in FROM_SPARK for path in sorted(spark.glob(pattern))]
    return ":".join([f"{folder}/*", *shared])


_PINS = Path(__file__).with_name("flink_jars.json")


def _jars(cache: Path) -> tuple[Path, tuple[PinnedJar, ...]]:
    """The folder of Flink's jars, and what is in it."""
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_PINS.read_text())["jars"])
    folder = jars_folder(cache, f"flink-{FLINK}", pins)
    ensure_jars(folder, pins, java=find_java(), on_progress=_ignore)
    return folder, pins


def flink_messages(shape: str, folder: Path) -> Path:
    """Compile the events' message for Flink; a folder for the class path."""
    if (folder / "bench").is_dir():
        return folder
    jars, pins = _jars(default_cache_folder(os.environ))
    return message_classes(shape, jars, pins, folder)


def _ignore(progress: LabProgress) -> None:
    del progress


def flink_type(hive: str) -> str:
    """Flink's name of a Hive type."""
    text = hive.replace("string", "STRING")
    if text.startswith("struct<"):
        members = text[len("struct<") : -1].split(",")
        pairs = [member.split(":") for member in members]
        return f"ROW<{', '.join(f'`{name}` {flink_type(kind)}' for name, kind in pairs)}>"
    return text.upper()


def statements(
    workload: Workload, *, bootstrap_servers: str, topic: str, folder: Path
) -> list[str]:
    """The SQL of one run; the last one inserts."""
    columns = {name: flink_type(kind) for name, kind in SHAPES[workload.shape].columns.items()}
    own = [f"`{name}` {kind}" for name, kind in columns.items()]
    read = flink_source(workload.format, columns)
    records = {name: kind for name, (kind, _) in RECORD_COLUMNS.items()}
    virtual = [
        f"`{name}` {kind} METADATA FROM '{key}' VIRTUAL"
        for name, (kind, key) in RECORD_COLUMNS.items()
    ]
    kept = [*read.selected.values(), *(f"`{name}`" for name in records)]
    written = [*own, *(f"`{name}` {kind}" for name, kind in records.items())]
    partitions = ["app"]
    if not workload.values:
        partitions = [name for name, _ in workload.parts]
        written += [f"`{name}` STRING" for name in partitions]
        instant = f"TO_TIMESTAMP_LTZ({read.selected[SHAPES[workload.shape].keys[1]]}, 3)"
        kept += [f"DATE_FORMAT({instant}, '{pattern}')" for _, pattern in workload.parts]
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap_servers,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        **read.options,
    }
    sink = {
        "connector": "filesystem",
        "path": folder.as_uri(),
        "format": "parquet",
        "parquet.compression": "ZSTD",
    }
    selected = ", ".join(kept)
    return [
        f"CREATE TABLE source ({', '.join([*read.columns, *virtual])})"
        f" WITH ({sql_options(source)})",
        f"CREATE TABLE sink ({', '.join(written)}) PARTITIONED BY ({', '.join(partitions)})"
        f" WITH ({sql_options(sink)})",
        f"INSERT INTO sink SELECT {selected} FROM source{read.where}",  # noqa: S608 - our own names
    ]


def sql_options(options: dict[str, str]) -> str:
    """What stands between the brackets of `WITH (...)`."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def run_flink(
    class_path: str,
    sql: Sequence[str],
    folder: Path,
    *,
    parallelism: int,
    checkpoints: str = CHECKPOINTS,
) -> TreeUsage:
    """Run one job to its end.

    Args:
        class_path: As `fetch_flink` told it.
        sql: As `statements` made it.
        folder: For the job's description, log and checkpoints.
        parallelism: Tasks at once.
        checkpoints: Time from one to the next.

    Raises:
        WrongOutputError: The job failed.
    """
    folder.mkdir(parents=True)
    job = folder / "job.json"
    description = {
        "java": str(find_java().executable),
        "class_path": class_path,
        "heap": HEAP,
        "settings": {
            "parallelism.default": str(parallelism),
            "taskmanager.numberOfTaskSlots": str(parallelism),
            "pipeline.object-reuse": "true",
            "execution.checkpointing.interval": checkpoints,
            "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
            "restart-strategy.type": "none",
            "table.local-time-zone": "UTC",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "io.tmp.dirs": str(folder),
        },
        "statements": list(sql),
    }
    job.write_text(json.dumps(description, indent=1))
    log = folder / "flink.log"
    script = Path(__file__).with_name("flink_job.py")
    usage = measure_tree([sys.executable, str(script), str(job)], cwd=folder, output=log)
    if usage.exit_code != 0:
        tail = log.read_text(errors="replace")[-2_000:]
        raise WrongOutputError(f"Flink ended with {usage.exit_code}:\n{tail}")
    return usage
