"""The block `lineage` of a job file: the receiver of OpenLineage events."""

from typing import Annotated

from pydantic import AfterValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.http_receiver import HttpReceiverSpec
from sluiceway.jobfile.blocks.values import Line, duration, wrong


def _check_path(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        raise wrong("the absolute path of a file", "write it from `/` on")
    return path


class LineageFileSpec(Block):
    """A file of the driver's machine that gets a line an event.

    Attributes:
        path: Absolute path of the file; its folder must exist.
    """

    path: Annotated[Line, AfterValidator(_check_path)]


class LineageSpec(Block):
    """Receiver of OpenLineage events, and how often it gets them.

    Attributes:
        http: HTTP endpoint for OpenLineage events; None if `file` is given.
        file: File for OpenLineage events, one JSON line each; None if `http` is given.
        namespace: Namespace of the job's routes at the receiver.
        interval_ms: Time between two events of a running route.
    """

    ONE_OF = ("http", "file")
    http: HttpReceiverSpec | None = None
    file: LineageFileSpec | None = None
    namespace: Line = "sluiceway"
    interval_ms: Annotated[int, *duration("1s", "5m")] = Field(default=60_000, alias="interval")
