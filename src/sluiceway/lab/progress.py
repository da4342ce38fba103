"""What the lab tells while it works; the one who called it decides how to show it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabProgress:
    """A step of bringing the lab up.

    Attributes:
        text: The step, for a person: "downloading Kafka".
        done_bytes: How much of a download is there.
        total_bytes: Size of the whole download; 0 when the step is not a download.
    """

    text: str
    done_bytes: int = 0
    total_bytes: int = 0


OnProgress = Callable[[LabProgress], None]


def ignore_progress(progress: LabProgress) -> None:
    """Take no notice of `progress`; for callers that show nothing."""
    del progress
