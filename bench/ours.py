"""Our side of the comparison: a job that takes a topic in, and what its log tells."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError, check_output, dirty_rows
from bench.event_formats import our_format
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES
from bench.workloads import Totals, Workload
from sluiceway.lab.lab import LabEndpoints

COMMAND = str(Path(sys.executable).with_name("sluiceway"))
JOB = """\
version: 1
name: {name}
connections:
  broker: {{{source}}}{connections}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
source: {{connection: broker, topics: [{topic}], start: earliest}}
format: {format}
table:
  hive:
    connection: hms
    name: bench.{table}
    create: if_missing
    location: "{location}"
    file_format: parquet
    compression: zstd
  columns:
{columns}
  partition_by:
{partition_by}
  meta: [topic, partition, offset, timestamp]
{event_time}
run: {{interval: {interval}, master: "{master}"}}
"""
EVENT_TIME = "event_time: {{field: {}, unit: ms, timezone: UTC}}"
BY_VALUE = "    - {name: app, column: app}"


@dataclass(frozen=True, slots=True)
class JobChoices:
    """What the job file says beside the workload.

    Attributes:
        interval: The epoch's length.
        master: Spark's.
        command: The product's program.
        source: The source's connection; empty is the lab's Kafka.
        connections: Further lines of the block `connections`.
    """

    interval: str = "10s"
    master: str = "local"
    command: str = COMMAND
    source: str = ""
    connections: str = ""


@dataclass(frozen=True, slots=True)
class OurRun:
    """A run that was checked.

    Attributes:
        epochs: That committed something.
        tasks: Of those epochs, with an answer.
        consumers_reused: Tasks that went on with an earlier epoch's consumer.
        table_bytes: Of the visible files.
        parts_s: Seconds by stage and, as `cpu_...`, CPU seconds by process; see `--profile`.
        commits: Lines of the log, one an epoch that committed something.
    """

    usage: TreeUsage
    epochs: int
    tasks: int
    consumers_reused: int
    table_bytes: int
    parts_s: dict[str, float]
    commits: Sequence[dict[str, Any]] = ()


def job_text(
    workload: Workload,
    endpoints: LabEndpoints,
    choices: JobChoices,
    *,
    topic: str,
    name: str,
    location: Path | str,
) -> str:
    """The job file of one run."""
    shape = SHAPES[workload.shape]
    by_time = (f'    - {{name: {name}, event_time: "{text}"}}' for name, text in workload.parts)
    return JOB.format(
        name=name,
        source=choices.source or f'kafka: {{bootstrap_servers: "{endpoints.bootstrap_servers}"}}',
        connections=f"\n{choices.connections}" if choices.connections else "",
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        table=name.replace("-", "_"),
        location=location,
        columns="\n".join(
            f'    - {{name: {column}, type: "{kind}", '
            f"required: {json.dumps(column in shape.keys)}}}"
            for column, kind in shape.columns.items()
        ),
        partition_by=BY_VALUE if workload.values else "\n".join(by_time),
        format=our_format(workload.format, workload.shape, json_engine()),
        event_time="" if workload.values else EVENT_TIME.format(shape.keys[1]),
        interval=choices.interval,
        master=choices.master,
    )


def command_that_loads(path: Path, site: Path, variable: str, value: str) -> str:
    """Write a program that runs the product with a `sitecustomize` in all its Pythons.

    Args:
        path: Of the program.
        site: Folder of the `sitecustomize.py`.
        variable: Of the environment, which that one reads.
        value: Of the variable.
    """
    path.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="{site}:$PYTHONPATH"\n'
        f'export {variable}="{value}"\n'
        f'exec "{COMMAND}" "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def run_ours(job: Path, table: Path, choices: JobChoices, *, exit_code: int = 0) -> OurRun:
    """Take one topic in to its end.

    Args:
        job: The job file.
        table: The table's folder, to be made.
        choices: As in the job file.
        exit_code: That the run has to end with.

    Raises:
        WrongOutputError: The command failed.
    """
    log = job.with_suffix(".log")
    command = [choices.command, "run", str(job), "--until-caught-up", "--log-level", "info"]
    command.append("--profile")
    usage = measure_tree(command, cwd=job.parent, output=log)
    if usage.exit_code != exit_code:
        tail = log.read_text(errors="replace")[-2_000:]
        raise WrongOutputError(f"{job.stem} ended with {usage.exit_code}:\n{tail}")
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    committed = [line for line in lines if line.get("event") == "committed"]
    (profile,) = [line for line in lines if line.get("event") == "profile"]
    stages = {name: ms / 1000 for name, ms in profile["stages_ms"].items()}
    return OurRun(
        usage,
        epochs=len(committed),
        tasks=sum(line["tasks"] for line in committed),
        consumers_reused=sum(line["consumers_reused"] for line in committed),
        table_bytes=sum(
            path.stat().st_size for path in table.glob("*=*/**/[!_.]*") if path.is_file()
        ),
        parts_s=stages | {f"cpu_{name}": used for name, used in profile["cpu_s"].items()},
        commits=committed,
    )


def check_ours(table: Path, workload: Workload, expected: Totals, count: int) -> None:
    """Compare our table and the dirty rows it keeps with the rule of its topic.

    Raises:
        WrongOutputError: They differ.
    """
    check_output(table, workload, expected)
    dirty = dirty_rows(table)
    if dirty != count - expected.rows:
        raise WrongOutputError(f"{dirty} dirty rows instead of {count - expected.rows}")


def native_asked() -> bool:
    """Whether the native module is to be used: by `make ... NATIVE=1`."""
    return os.environ.get("SLUICEWAY_NATIVE") == "1"


def json_engine() -> str:
    """What the job file says about the decoder: each path has figures of its own."""
    if native_asked():
        return "native"
    return "library"


def json_engine_missing() -> bool:
    """Whether the native module is not installed."""
    return find_spec("sluiceway_native") is None
