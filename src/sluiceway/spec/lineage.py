"""The block `lineage` of a job file: who is told what is read into which table, by OpenLineage."""

from typing import Annotated

from pydantic import AfterValidator, Field

from sluiceway.spec.block import Block
from sluiceway.spec.http_receiver import HttpReceiverSpec
from sluiceway.spec.values import Line, duration, wrong


def _check_path(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise wrong("the absolute path of a file", "write it from `/` on")
    return path


class LineageFileSpec(Block):
    """A file of the driver's machine that gets a line an event.

    Attributes:
        path: Absolute; its folder has to be there.
    """

    path: Annotated[Line, AfterValidator(_check_path)]


class LineageSpec(Block):
    """Who is told, and how often.

    Attributes:
        http: An endpoint of OpenLineage.
        file: A file instead.
        namespace: Of the job's routes, among all jobs that the receiver knows.
        interval_ms: How often it is told of a route that goes on.
    """

    ONE_OF = ("http", "file")
    http: HttpReceiverSpec | None = None
    file: LineageFileSpec | None = None
    namespace: Line = "sluiceway"
    interval_ms: Annotated[int, *duration("1s", "5m")] = Field(default=60_000, alias="interval")
