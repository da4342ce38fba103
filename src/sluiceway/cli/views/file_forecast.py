"""How many files a route will write, as far as its job file shows: for `validate`."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluiceway.jobfile.blocks.models import RouteSpec

MANY_FILES = 1_000
_HOUR_MS = 3_600_000
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class FileForecast:
    """What to expect of an hour in which rows come all the time.

    Attributes:
        per_task: Files of one task and one value of all partition columns that are no times.
        tasks: Tasks that may run at once; None when the job file does not say.
        values: Partition columns that multiply the files by their values.
        target_bytes: Size of a merged file.
        compacted: Whether partitions are merged before readers see them.
        remedy: Setting of the job file that would merge them.
        snapshot_s: Seconds between two snapshots of a lake table, whose files are merged as they
            are published; None for a Hive table.
        of_units: Whether the files of a unit are replaced whole, whenever it is computed.
    """

    per_task: int
    tasks: int | None
    values: tuple[str, ...]
    target_bytes: int
    compacted: bool
    remedy: str = ""
    snapshot_s: float | None = None
    of_units: bool = False

    @property
    def per_hour(self) -> int:
        """Most files that are written for one value; of one task where the tasks are not known."""
        return self.per_task * (self.tasks or 1)

    def words(self) -> str:
        """The forecast in words."""
        if self.of_units:
            return "those of a unit are replaced whenever it is computed"
        each = ", for each value of " + ", ".join(f"`{name}`" for name in self.values)
        each = each if self.values else ""
        tasks = "each task" if self.tasks is None else f"{self.tasks} tasks"
        if self.tasks == 1:
            tasks = "1 task"
        written = f"up to {self.per_hour:,} an hour from {tasks}{each}"
        if self.compacted:
            size = f"{self.target_bytes / _MIB:g} MiB"
            return f"{written}; merged into 1 for each {size} of a partition before it is ready"
        if self.snapshot_s is not None:
            return f"{written}; small ones of a partition are merged before their snapshot"
        return f"{written}; merged by the command `compact` only"

    def warning(self) -> str | None:
        """What would slow readers down; None when it is no more than usual."""
        if self.of_units:
            return None
        if self.snapshot_s is not None:
            snapshots = round(3600 / self.snapshot_s)
            if snapshots <= MANY_FILES:
                return None
            return f"{snapshots:,} snapshots an hour: raise table.iceberg.publish_interval"
        if self.compacted or self.per_hour <= MANY_FILES:
            return None
        return (
            f"more than {MANY_FILES:,} files an hour stay: {self.remedy}, raise run.interval, or "
            "run `sluiceway compact JOB --all-closed`"
        )

    def as_json(self) -> dict[str, Any]:
        """The forecast for programs."""
        return {
            "per_hour": self.per_hour,
            "tasks": self.tasks,
            "for_each_value_of": list(self.values),
            "compacted_before_ready": self.compacted,
            "target_bytes": self.target_bytes,
            "warning": self.warning(),
        }


def file_forecast(spec: "RouteSpec") -> FileForecast:
    """The forecast for a route of a valid job file."""
    ready = spec.ready
    announced = ready is not None and ready.visible == "on_ready"
    remedy = "take `files.compact: never` away"
    if ready is None:
        remedy = "let partitions be announced and merged (block `ready`)"
    elif not announced:
        remedy = "show partitions when they are merged (`ready.visible: on_ready`)"
    lake = spec.table.iceberg
    slots = re.fullmatch(r"local\[(\d+)\]", str(spec.run.master))
    return FileForecast(
        per_task=max(1, round(_HOUR_MS / spec.run.interval_ms)),
        tasks=int(slots[1]) if slots else None,
        values=tuple(part.name for part in spec.table.partition_by if part.column is not None),
        target_bytes=spec.files.target_size_bytes,
        compacted=announced and spec.files.compact == "before_ready",
        remedy=remedy,
        snapshot_s=None if lake is None else lake.publish_interval_ms / 1000,
        of_units=spec.source.mode == "recompute",
    )
