"""Progress of the lab's work; the caller decides how to show it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabProgress:
    """A step of starting the lab.

    Attributes:
        text: The step in words, for example "downloading Kafka".
        done_bytes: Bytes that are downloaded so far.
        total_bytes: Size of the whole download; 0 when the step is not a download.
    """

    text: str
    done_bytes: int = 0
    total_bytes: int = 0


OnProgress = Callable[[LabProgress], None]


def ignore_progress(progress: LabProgress) -> None:
    """Ignore `progress`; for callers that show nothing."""
    del progress
