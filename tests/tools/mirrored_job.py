"""A job in two rooms with a broker each, whose copied rows are named in a header."""

from pathlib import Path

from sluiceway.lab.kafka import create_topic
from tools.job_files import write_job
from tools.route_runs import RouteRun

TOPIC = "orders"
_ROOMS = """\
rooms:
  home: a
  after: 3s
  queue: mirrored
  mirror: {{origin: sw-origin}}
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{a}"}}}}}}}}
  b: {{connections: {{main: {{kafka: {{bootstrap_servers: "{b}"}}}}}}}}
"""


def mirrored_job(folder: Path, servers: tuple[str, str], metastore_uri: str) -> RouteRun:
    """The job, with an empty topic in room a.

    Args:
        folder: Folder of the job file.
        servers: Bootstrap servers of rooms a and b.
        metastore_uri: Of both rooms.
    """
    here, there = servers
    create_topic(here, TOPIC, 1)
    job = write_job(
        folder,
        bootstrap_servers=here,
        metastore_uri=metastore_uri,
        topic=TOPIC,
        table=f"ods.mirrored_{folder.name.replace('-', '_')}",
    )
    job.path.write_text(job.path.read_text() + _ROOMS.format(a=here, b=there))
    return RouteRun(job)
