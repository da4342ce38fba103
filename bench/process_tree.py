"""CPU seconds, wall time and peak memory of a command with everything that it starts (Linux).

Method. The command runs under a process of its own, the measurer, that does nothing else and is
a *child subreaper*: whatever the command starts stays below the measurer, however often it forks
or loses its parent. `cpu_s` is the sum of two counts:

reaped   The kernel's `rusage` of `wait4`, for every process that the measurer buries itself: the
         command, and orphans. Each holds the CPU of all descendants that their parents waited
         for, so processes of any short life count in full. Exact, but a child whose parent
         ignores SIGCHLD is buried by the kernel and in no rusage.
lost     Those children. The tree is sampled every 0.1 s from `/proc/<pid>/stat`. When a process is
         gone and its living parent's count of waited-for CPU has not risen by as much as the
         process had used, the difference is lost to the rusage and added here.

Error: `reaped` none; `lost` misses what such a child does after its last sample, at most 0.1 s
each, and such children that live between two samples. Differences of 20 ms are taken for
rounding. The measurer's own CPU is not counted. Peak memory is the greatest sum of resident sets
seen every 0.1 s; pages that processes share count once for each.

Processes that outlive the command are waited for `grace_s`, then ended, and counted in `ended`.

`python -m bench.process_tree [--grace-s 5] -- COMMAND ...` prints one JSON line on its standard
error after the command's own output, and exits as the command did.
"""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.1
GRACE_S = 5.0
PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/<pid>/stat behind the command name: see proc_pid_stat(5).
PPID, UTIME, STIME, CUTIME, CSTIME, START, RSS = 1, 11, 12, 13, 14, 19, 21
ROUNDING_TICKS = 2


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What a command used.

    Attributes:
        exit_code: The command's; negative is the signal that ended it.
        wall_s: From its start to its own end.
        cpu_s: User and system time of the whole tree; see the module's text.
        reaped_cpu_s: The kernel's part.
        lost_cpu_s: The sampled part; 0 in a tree in which every parent waits.
        peak_rss_bytes: Greatest sum of resident sets.
        processes: How many were seen; those between two samples are not.
        ended: How many outlived the command and were ended.
    """

    exit_code: int
    wall_s: float
    cpu_s: float
    reaped_cpu_s: float
    lost_cpu_s: float
    peak_rss_bytes: int
    processes: int
    ended: int


def measure_tree(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    grace_s: float = GRACE_S,
) -> TreeUsage:
    """Run a command and measure it; its output goes where ours goes.

    Args:
        command: Program and arguments.
        cwd: Working folder; None is ours.
        env: Its environment; None is ours.
        grace_s: How long processes that outlive it may go on.

    Raises:
        RuntimeError: The measurer itself failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "usage.json"
        options = ["--report", str(report), "--grace-s", str(grace_s), "--"]
        measurer = [sys.executable, str(Path(__file__).resolve()), *options, *command]
        result = subprocess.run(measurer, cwd=cwd, env=env, check=False)
        if not report.exists():
            raise RuntimeError(f"the measurer ended with {result.returncode} and no report")
        return TreeUsage(**json.loads(report.read_text()))


@dataclass(frozen=True, slots=True)
class _Process:
    """One process at one sample."""

    parent: int
    own_ticks: int
    waited_ticks: int


ProcessKey = tuple[int, int]
"""Process id and start time, which tells it from a later process of the same id."""


@dataclass(slots=True)
class _Samples:
    """The tree as last seen, and what is known from all samples."""

    last: dict[ProcessKey, _Process] = field(default_factory=dict)
    seen: set[ProcessKey] = field(default_factory=set)
    lost_ticks: int = 0
    peak_pages: int = 0

    def take(self) -> list[int]:
        """Sample the tree below this process.

        Returns:
            The ids of its living processes.
        """
        # Parents first: else a child could die, and be waited for, between the two readings.
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
        self._compare({(pid, int(stat[START])): _process(stat) for pid, stat in tree.items()})
        pages = sum(int(stat[RSS]) for stat in tree.values())
        self.peak_pages = max(self.peak_pages, pages)
        return list(tree)

    def _compare(self, now: dict[ProcessKey, _Process]) -> None:
        """Find processes that are gone and that their parent, still there, did not wait for."""
        alive = {key[0]: key for key in now if key in self.last}
        gone_ticks: dict[ProcessKey, int] = {}
        for key, process in self.last.items():
            if key not in now and (parent := alive.get(process.parent)) is not None:
                used = process.own_ticks + process.waited_ticks
                gone_ticks[parent] = gone_ticks.get(parent, 0) + used
        for parent, ticks in gone_ticks.items():
            lost = ticks - (now[parent].waited_ticks - self.last[parent].waited_ticks)
            if lost > ROUNDING_TICKS:
                self.lost_ticks += lost
        self.last = now
        self.seen |= now.keys()


def _process(stat: list[str]) -> _Process:
    own, waited = int(stat[UTIME]) + int(stat[STIME]), int(stat[CUTIME]) + int(stat[CSTIME])
    return _Process(int(stat[PPID]), own, waited)


def _read_stat(pid: int) -> list[str] | None:
    """Fields behind the command name, which may hold spaces; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
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
        wall_s = time.monotonic() - began
        ended = self._end_survivors(grace_s)
        lost_s = self._samples.lost_ticks / TICKS_PER_S
        process.returncode = self._exit_codes[process.pid]
        return TreeUsage(
            exit_code=process.returncode,
            wall_s=round(wall_s, 3),
            cpu_s=round(self._reaped_s + lost_s, 3),
            reaped_cpu_s=round(self._reaped_s, 3),
            lost_cpu_s=lost_s,
            peak_rss_bytes=self._samples.peak_pages * PAGE_BYTES,
            processes=len(self._samples.seen),
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
