"""CPU seconds, wall time and peak memory of a command with everything that it starts (Linux).

Method. The command runs under a process of its own, the measurer, that does nothing else and is
a *child subreaper*: whatever the command starts stays below the measurer, however often it forks
or loses its parent. CPU is counted twice, and `cpu_s` is the greater count:

reaped   The kernel's `rusage` of `wait4`, for every process that the measurer buries itself: the
         command, and orphans. Each holds the CPU of all descendants that their parents waited
         for, so processes of any short life count in full. It lacks children whose parent ignores
         SIGCHLD or dies without waiting, as Spark's Python daemon does.
sampled  Every 0.1 s each process of the tree is read from `/proc/<pid>/stat`; the sum of the last
         counts seen. It lacks what each process does after its last sample, at most 0.1 s, and
         processes that live between two samples.

Error: of a few seconds' tree of ten processes, at most 1 s, and about the same in a small and a
large run, so that it leaves a slope alone. The measurer's own CPU is not counted. Peak memory is
the greatest sum of resident sets seen every 0.1 s; pages that processes share count once for each.
Its growth is the slope of the line of least squares through the sums of the last two thirds of the
command's life, so that its start is not in it.

Processes that outlive the command are waited for `grace_s`, then ended, and counted in `ended`.

`python -m bench.process_tree [--grace-s 5] -- COMMAND ...` prints one JSON line on its standard
error after the command's own output, and exits as the command did.
"""

import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.1
GRACE_S = 5.0
HISTORY_EVERY_S = 1.0
LEAST_HISTORY = 10
MIB_PAGES = (1 << 20) // os.sysconf("SC_PAGE_SIZE")
PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/<pid>/stat behind the command name: see proc_pid_stat(5).
PPID, UTIME, STIME, START, RSS = 1, 11, 12, 19, 21


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What a command used.

    Attributes:
        exit_code: The command's; negative is the signal that ended it.
        wall_s: From its start to its own end.
        cpu_s: User and system time of the whole tree; see the module's text.
        reaped_cpu_s: The kernel's part.
        sampled_cpu_s: The count from samples.
        peak_rss_bytes: Greatest sum of resident sets.
        rss_mib_per_min: Growth of that sum after the first third; 0 for a life of a few seconds.
        processes: How many were seen; those between two samples are not.
        ended: How many outlived the command and were ended.
    """

    exit_code: int
    wall_s: float
    cpu_s: float
    reaped_cpu_s: float
    sampled_cpu_s: float
    peak_rss_bytes: int
    rss_mib_per_min: float
    processes: int
    ended: int


def measure_tree(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    grace_s: float = GRACE_S,
    output: Path | None = None,
) -> TreeUsage:
    """Run a command and measure it.

    Args:
        command: Program and arguments.
        cwd: Working folder; None is ours.
        env: Its environment; None is ours.
        grace_s: How long processes that outlive it may go on.
        output: File for what it writes; None leaves it where ours goes.

    Raises:
        RuntimeError: The measurer itself failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "usage.json"
        options = ["--report", str(report), "--grace-s", str(grace_s), "--"]
        measurer = [sys.executable, str(Path(__file__).resolve()), *options, *command]
        with output.open("wb") if output else nullcontext() as stream:
            result = subprocess.run(
                measurer, cwd=cwd, env=env, stdout=stream, stderr=stream, check=False
            )
        if not report.exists():
            raise RuntimeError(f"the measurer ended with {result.returncode} and no report")
        return TreeUsage(**json.loads(report.read_text()))


ProcessKey = tuple[int, int]
"""Process id and start time, which tells it from a later process of the same id."""


@dataclass(slots=True)
class _Samples:
    """What is known from all samples."""

    used_ticks: dict[ProcessKey, int] = field(default_factory=dict)
    peak_pages: int = 0
    history: list[tuple[float, int]] = field(default_factory=list)

    def take(self) -> list[int]:
        """Sample the tree below this process.

        Returns:
            The ids of its living processes.
        """
        stats: dict[int, list[str]] = {}
        for pid in sorted(int(at.name) for at in Path("/proc").iterdir() if at.name.isdigit()):
            if (stat := _read_stat(pid)) is not None:
                stats[pid] = stat
        children: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            children.setdefault(int(stat[PPID]), []).append(pid)
        tree, waiting = {}, list(children.get(os.getpid(), ()))
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, ())
            tree[pid] = stats[pid]
        for pid, stat in tree.items():
            key = (pid, int(stat[START]))
            self.used_ticks[key] = int(stat[UTIME]) + int(stat[STIME])
        pages = sum(int(stat[RSS]) for stat in tree.values())
        self.peak_pages = max(self.peak_pages, pages)
        now = time.monotonic()
        if not self.history or now >= self.history[-1][0] + HISTORY_EVERY_S:
            self.history.append((now, pages))
        return list(tree)

    def growth_mib_per_min(self, until: float) -> float:
        """Of the sum of resident sets, up to a moment of the monotonic clock."""
        known = [(at, pages) for at, pages in self.history if at <= until]
        late = known[len(known) // 3 :]
        if len(late) < LEAST_HISTORY:
            return 0.0
        seconds, sums = zip(*late, strict=True)
        slope = statistics.linear_regression(seconds, sums).slope
        return round(slope * 60 / MIB_PAGES, 2)


def _read_stat(pid: int) -> list[str] | None:
    """Fields behind the command name, which may hold spaces; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


class _Measurer:
    """Buries the children of this process and adds up what they used."""

    def __init__(self) -> None:
        self._samples = _Samples()
        self._reaped_s = 0.0
        self._exit_codes: dict[int, int] = {}
        self._living: list[int] = []

    def run(self, command: Sequence[str], *, grace_s: float) -> TreeUsage:
        began = time.monotonic()
        process = subprocess.Popen(command)

        def forward(number: int, _frame: FrameType | None) -> None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, forward)
        while process.pid not in self._exit_codes:
            self._step()
        ended_at = time.monotonic()
        ended = self._end_survivors(grace_s)
        sampled_s = sum(self._samples.used_ticks.values()) / TICKS_PER_S
        process.returncode = self._exit_codes[process.pid]
        return TreeUsage(
            exit_code=process.returncode,
            wall_s=round(ended_at - began, 3),
            cpu_s=round(max(self._reaped_s, sampled_s), 3),
            reaped_cpu_s=round(self._reaped_s, 3),
            sampled_cpu_s=round(sampled_s, 3),
            peak_rss_bytes=self._samples.peak_pages * PAGE_BYTES,
            rss_mib_per_min=self._samples.growth_mib_per_min(ended_at),
            processes=len(self._samples.used_ticks),
            ended=ended,
        )

    def _step(self) -> bool:
        """Sample, bury, sleep; False when no child is left."""
        self._living = self._samples.take()
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                break
            self._reaped_s += usage.ru_utime + usage.ru_stime
            self._exit_codes[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(INTERVAL_S)
        return True

    def _end_survivors(self, grace_s: float) -> int:
        """Wait for what is left, then end it; every process of the tree was started by us."""
        deadline = time.monotonic() + grace_s
        ended: set[int] = set()
        number = signal.SIGTERM
        while self._step():
            if time.monotonic() < deadline:
                continue
            for pid in self._living:
                ended.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline, number = time.monotonic() + grace_s, signal.SIGKILL
        return len(ended)


def _become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")


def main() -> int:
    """Read the arguments, run and measure the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.process_tree")
    parser.add_argument("--grace-s", type=float, default=GRACE_S)
    parser.add_argument("--report", type=Path, help="write the JSON here, not on standard error")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    _become_subreaper()
    usage = _Measurer().run(given.command, grace_s=given.grace_s)
    line = json.dumps(asdict(usage))
    if given.report:
        given.report.write_text(line)
    else:
        print(line, file=sys.stderr)
    return usage.exit_code if usage.exit_code >= 0 else 128 - usage.exit_code


if __name__ == "__main__":
    sys.exit(main())
