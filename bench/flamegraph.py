"""A flame graph of the job: driver and Python workers, with py-spy, while it takes a topic in.

py-spy is no dependency of the project: it is installed into an environment of its own below
`.sluiceway/`, by version and hash. It samples from outside, without stopping what it samples, and
needs the right to look into processes that it has started; in a container that may take
`CAP_SYS_PTRACE`. `--native` adds the libraries' own frames, at a price: it stops each process for
every sample.

`python -m bench.flamegraph [--events 2000000] [--out .sluiceway/flamegraph.svg]`
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path

from bench.ours import COMMAND, JobChoices, job_text
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, fill_topic
from sluiceway.lab.lab import Lab

ROOT = Path(__file__).parents[1]
PINS = Path(__file__).with_name("flamegraph-requirements.txt")
TOPIC_PARTITIONS = 4


def ensure_py_spy(folder: Path) -> Path:
    """Have py-spy in an environment of its own.

    Raises:
        subprocess.CalledProcessError: It cannot be installed.
    """
    program = folder / "bin" / "py-spy"
    if not program.exists():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--require-hashes", "-r", str(PINS)], check=True)
    return program


def record(program: Path, job: Path, out: Path, *, rate: int, native: bool) -> int:
    """Run the job under py-spy.

    Returns:
        The exit code.
    """
    options = ["--subprocesses", "--format", "flamegraph", "--output", str(out)]
    options += ["--native"] if native else ["--nonblocking"]
    spy = [str(program), "record", *options, "--rate", str(rate)]
    command = [COMMAND, "run", str(job), "--until-caught-up", "--profile"]
    return subprocess.run([*spy, "--", *command], cwd=job.parent, check=False).returncode


def main() -> int:
    """Start a lab, fill a topic, record."""
    parser = argparse.ArgumentParser(prog="python -m bench.flamegraph")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="standard")
    parser.add_argument("--rate", type=int, default=20, help="samples a second and thread")
    parser.add_argument("--native", action="store_true", help="frames of the libraries, too")
    parser.add_argument("--out", type=Path, default=ROOT / ".sluiceway" / "flamegraph.svg")
    given = parser.parse_args()
    end_tidily()
    program = ensure_py_spy(ROOT / ".sluiceway" / "py-spy")
    out: Path = given.out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="flame-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down)
        endpoints = lab.up()
        create_topic(endpoints.bootstrap_servers, "flame", partitions=TOPIC_PARTITIONS)
        fill_topic(endpoints.bootstrap_servers, "flame", given.workload, given.events)
        job = folder / "job.yaml"
        text = job_text(
            WORKLOADS[given.workload],
            endpoints,
            JobChoices(),
            topic="flame",
            name="flame",
            location=folder / "table",
        )
        job.write_text(text)
        code = record(program, job, out, rate=given.rate, native=given.native)
    if code != 0 or not out.exists():
        print(f"no flame graph: py-spy or the job ended with {code}", file=sys.stderr)
        return 1
    print(json.dumps({"events": given.events, "flamegraph": str(out)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
