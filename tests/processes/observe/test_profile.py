"""Where the time of a run went."""

import os
import subprocess
import sys

from sluiceway.host.machine import cpu_below
from sluiceway.observe.profile import STAGES, EpochDurations, ProcessCpu, RunProfile


def _times(**stages_ms: int) -> EpochDurations:
    return EpochDurations(
        rows=10_000, tasks_ms=stages_ms, longest_task_ms=900, run_ms=1_000, commit_ms=50
    )


def test_profile_adds_up_stages_driver_and_what_is_left_of_the_run() -> None:
    profile = RunProfile()
    profile.epoch(_times(fetch=100, decode=700, task=1_800))
    profile.epoch(_times(fetch=50, write=20))
    fields = profile.fields(ProcessCpu(1.0, 2.0, 3.254))
    assert fields["epochs"] == 2
    assert fields["rows"] == 20_000
    assert fields["stages_ms"] == {
        **dict.fromkeys(STAGES, 0),
        "fetch": 150,
        "decode": 700,
        "write": 20,
        "driver": 100,
        "jvm": 200,
    }
    assert fields["cpu_s"] == {"driver": 1.0, "jvm": 2.0, "workers": 3.25}


def test_profile_table_has_a_line_a_stage_and_a_process() -> None:
    profile = RunProfile()
    profile.epoch(_times(decode=700))
    lines = profile.table(ProcessCpu(1.0, 2.0, 3.0)).splitlines()
    assert lines[0].startswith("profile: 10,000 rows in 1 epochs")
    assert [line.split()[0] for line in lines[2:10]] == [*STAGES, "driver", "jvm"]
    assert lines[3].split() == ["decode", "0.70", "82.4%", "70.000"]
    assert lines[-1].split() == ["workers", "3.00", "300.000"]


def test_profile_without_an_epoch_divides_by_nothing() -> None:
    assert "0 rows" in RunProfile().table(None)
    assert "cpu_s" not in RunProfile().fields(None)


def test_cpu_below_counts_descendants_by_name() -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass\n"
    spin += "print(time.process_time(), flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        used_s = float(child.stdout.readline())
        found = cpu_below()
        child.communicate("\n")
    assert found is not None
    assert found[""] > 0.0
    # User's and system's time are each cut to whole ticks.
    cut_s = 2 / os.sysconf("SC_CLK_TCK")
    below_s = sum(seconds for name, seconds in found.items() if name.startswith("python"))
    assert below_s + cut_s >= used_s


def test_cpu_below_of_a_process_that_is_gone_is_unknown() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert child.pid != os.getpid()
    assert cpu_below(child.pid) is None


def test_cpu_below_reads_a_process_with_any_name() -> None:
    name = "open('/proc/self/comm', 'wb').write(b'\\xff) 1 (')\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = cpu_below()
        child.communicate("\n")
    assert found is not None
    assert "\N{REPLACEMENT CHARACTER}) 1 (" in found
