"""Figures of a task as values; `task_figures.py` counts them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Figures of one attempt; what its rows say is committed or discarded with them.

    Attributes:
        bytes_read: Bytes of payloads by topic.
        appended: Milliseconds since 1970 and how many records were appended about then, in turns.
        happened: As `appended`, for the event times of rows that are not dirty.
        open_files: Most files that were open at once.
        memory_bytes: Resident memory of its process at the end.
        rows_read: Rows read by an attempt that has failed; else the counts say it.
    """

    bytes_read: dict[str, int] = field(default_factory=dict)
    appended: tuple[int, ...] = ()
    happened: tuple[int, ...] = ()
    open_files: int = 0
    memory_bytes: int = 0
    rows_read: int = 0


NO_FIGURES = TaskFigures()
"""Figures of an attempt that has begun nothing."""
