"""Where the time of a run went: by stage inside the tasks, in the driver, by process."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

STAGES = ("fetch", "decode", "convert", "route", "write", "close")
"""What a task does with its rows, in this order."""


@dataclass(frozen=True, slots=True)
class EpochDurations:
    """One route's epoch.

    Attributes:
        rows: Rows that were read.
        tasks_ms: Stage -> milliseconds, the sum over its tasks. Stages that overlap each count in
            full. `task` is the tasks' whole life.
        longest_task_ms: Life of the task that lived longest.
        run_ms: Milliseconds from the plan until all tasks had answered.
        commit_ms: Milliseconds from then until everything was published.
    """

    rows: int
    tasks_ms: Mapping[str, int]
    longest_task_ms: int
    run_ms: int
    commit_ms: int


@dataclass(frozen=True, slots=True)
class ProcessCpu:
    """CPU seconds so far, user and system, on the driver's own machine."""

    driver: float
    jvm: float
    workers: float


class RunProfile:
    """Adds up epochs, from threads of several routes."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._stages_ms: Counter[str] = Counter()
        self._epochs = 0
        self._rows = 0

    def epoch(self, times: EpochDurations) -> None:
        """Called once per commit."""
        with self._lock:
            self._epochs += 1
            self._rows += times.rows
            for stage in STAGES:
                self._stages_ms[stage] += times.tasks_ms.get(stage, 0)
            self._stages_ms["driver"] += times.commit_ms
            # Starting tasks and bringing their answers back; each concurrent route counts it.
            self._stages_ms["jvm"] += max(0, times.run_ms - times.longest_task_ms)

    def fields(self, cpu: ProcessCpu | None) -> dict[str, object]:
        """For the log: `stages_ms`, `cpu_s` by process, and what they are to be divided by.

        Args:
            cpu: CPU times at the end; None where the system has none.
        """
        with self._lock:
            found: dict[str, object] = {
                "epochs": self._epochs,
                "rows": self._rows,
                "wall_s": round(time.monotonic() - self._started, 2),
                "stages_ms": {name: self._stages_ms[name] for name in (*STAGES, "driver", "jvm")},
            }
        if cpu is not None:
            found["cpu_s"] = {
                "driver": round(cpu.driver, 2),
                "jvm": round(cpu.jvm, 2),
                "workers": round(cpu.workers, 2),
            }
        return found

    def table(self, cpu: ProcessCpu | None) -> str:
        """For a person: a line a stage with its share, then a line a process."""
        fields = self.fields(cpu)
        with self._lock:
            stages = {name: self._stages_ms[name] for name in (*STAGES, "driver", "jvm")}
        rows = max(1, self._rows)
        whole = max(1, sum(stages.values()))
        lines = [
            f"profile: {self._rows:,} rows in {self._epochs:,} epochs, {fields['wall_s']} s",
            f"  {'stage':<10}{'seconds':>10}{'share':>8}{'us a row':>10}",
        ]
        lines += [
            f"  {name:<10}{ms / 1000:>10.2f}{ms / whole:>8.1%}{ms * 1000 / rows:>10.3f}"
            for name, ms in stages.items()
        ]
        if cpu is not None:
            lines.append(f"  {'CPU of':<10}{'seconds':>10}{'':>8}{'us a row':>10}")
            parts = (("driver", cpu.driver), ("jvm", cpu.jvm), ("workers", cpu.workers))
            lines += [f"  {name:<10}{s:>10.2f}{'':>8}{s * 1e6 / rows:>10.3f}" for name, s in parts]
        return "\n".join(lines)
