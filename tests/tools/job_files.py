"""Job files for tests on real servers."""

import json
from dataclasses import dataclass
from pathlib import Path

from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import load_job

COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: ts, type: bigint, required: true}
    - {name: city, type: string}
    - {name: amount, type: "decimal(18,2)"}
"""


@dataclass(frozen=True, slots=True)
class JobFile:
    """A small job on real servers: `id, ts, city, amount` by day and hour."""

    path: Path
    table: str

    @property
    def spec(self) -> JobSpec:
        return load_job(self.path).spec

    @property
    def route(self) -> RouteConfig:
        """The one route."""
        return compile_route(self.spec.routes[0])


def write_job(  # noqa: PLR0913 - a test names what it changes
    folder: Path,
    *,
    bootstrap_servers: str,
    metastore_uri: str,
    topic: str,
    table: str = "",
    start: str = "earliest",
    interval: str = "0.5s",
    columns: str = COLUMNS,
    partition_by: str = '[{name: dt, event_time: "yyyyMMdd"}, {name: hr, event_time: "HH"}]',
    event_time: str = "{field: ts, unit: ms}",
    tombstones: str = "skip",
    hive: str = "",
    meta: str = "[topic, partition, offset, timestamp]",
    dirty: str = "{}",
    evolution: str = "fail",
    ready: str = "",
    files: str = "{}",
    connections: str = "",
) -> JobFile:
    name = table or f"ods.{topic.replace('-', '_')}"
    text = f"""\
version: 1
name: {topic.replace("_", "-")}
connections:
  main: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
{connections}
source: {{connection: main, topics: [{topic}], start: {start}}}
format: {{json: {{tombstones: {tombstones}}}}}
table:
  hive: {{connection: hms, name: {name}{hive}}}
  columns:
{columns}
  partition_by: {partition_by}
  meta: {meta}
  evolution: {evolution}
{f"event_time: {event_time}" if event_time else ""}
files: {files}
dirty: {dirty}
{f"ready: {ready}" if ready else ""}
run: {{interval: {interval}, master: "local[2]"}}
"""
    path = folder / f"{topic}.yaml"
    path.write_text(text)
    return JobFile(path, name)


def put_sql(job: JobFile, more: str = "") -> None:
    """Let SQL make the rows of a small job's table from what is decoded: the same ones.

    Args:
        job: As `write_job` has made it, with the usual columns.
        more: Further keys of the block `run`.
    """
    text = job.path.read_text()
    sql = f"transform:\n  columns:\n{COLUMNS}  sql: SELECT * FROM input\n"  # noqa: S608 - no user's
    for old, new in (
        (f"  columns:\n{COLUMNS}", "  columns: from_sql\n"),
        ("table:\n", f"{sql}table:\n"),
        ("run: {", f"run: {{{more}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    job.path.write_text(text)


def write_routes(
    folder: Path,
    routes: str,
    *,
    bootstrap_servers: str,
    metastore_uri: str,
    start: str = "earliest",
) -> JobFile:
    """A job with the small table's columns for all routes.

    Args:
        folder: Where the file goes.
        routes: Items of the block, each on a line that begins with `- `.
        bootstrap_servers: The broker.
        metastore_uri: The metastore.
        start: Of all routes that say nothing else.
    """
    text = f"""\
version: 1
name: many
connections:
  main: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
source: {{connection: main, start: {start}}}
format: {{json: {{tombstones: skip}}}}
table:
  hive: {{connection: hms}}
  columns:
{COLUMNS}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms}}
run: {{interval: 0.5s, discover_interval: 0.5s, master: "local[2]"}}
routes:
{routes}
"""
    path = folder / "many.yaml"
    path.write_text(text)
    return JobFile(path, "")


def event(number: int, *, ts_ms: int = 1_795_161_600_000, city: str | None = "Berlin") -> bytes:
    """A convertible payload of the small job."""
    body = {"id": number, "ts": ts_ms + number * 1000, "city": city, "amount": f"{number}.25"}
    return json.dumps(body, ensure_ascii=False).encode()
