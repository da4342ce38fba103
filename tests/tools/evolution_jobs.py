"""A small job with a policy for columns that change."""

from pathlib import Path

from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.loader import parse_job

JOB = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
source: {{connection: main, topics: [a]}}
format: {format}
table:
  hive: {{connection: hms, name: ods.small}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
  {evolution}
"""


def evolution_route(evolution: str, format_block: str = "{json: {}}") -> RouteSpec:
    """The route of a job file with `evolution`, a line of the block `table`."""
    text = JOB.format(format=format_block, evolution=evolution)
    (route,) = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    return route
