"""A topic, the job that fills a table from it, and the job that refines that table."""

from collections.abc import Callable
from pathlib import Path

from tools.job_files import JobFile
from tools.route_faults import NewRun
from tools.route_runs import RouteRun

COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: ts, type: bigint, required: true}
    - {name: shout, type: string, expression: "upper(city)"}
    - {name: city, type: string, transient: true}
    - {name: amount, type: "decimal(18,2)"}
    - {name: raw_place, path: _offset, type: int}
"""

TIMES = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}"
Chain = Callable[..., tuple[RouteRun, RouteRun, str]]


def chain_maker(new_run: NewRun, folder: Path, metastore_uri: str) -> Chain:
    """Makes such chains, their job files in a folder."""

    def make(
        *, columns: str = COLUMNS, where: str = "", ready: str = ""
    ) -> tuple[RouteRun, RouteRun, str]:
        run, topic = new_run(1, ready=ready, event_time=TIMES)
        path = folder / f"{topic}-refined.yaml"
        path.write_text(f"""\
version: 1
name: refined
connections: {{hms: {{metastore: {{uri: "{metastore_uri}"}}}}}}
source: {{table: {run.job.table}}}
table:
  hive: {{connection: hms, name: {run.job.table}_refined}}
  columns:
{columns}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [offset]
{where}
event_time: {TIMES}
{f"ready: {ready}" if ready else ""}
run: {{interval: 0.5s, master: "local[2]"}}
""")
        return run, RouteRun(JobFile(path, f"{run.job.table}_refined")), topic

    return make
