"""A driver without a JVM: the real run path, its tasks in local worker processes.

    python -m tools.local_driver JOB.yaml [--until-caught-up]
    python -m tools.local_driver --serve        forks a driver for each line of JSON on stdin

Exit codes are those of `sluiceway run`. The pauses between retries and the lease's times are
shorter than the product's, so that a test of a fault takes a second or two.
"""

import argparse
import gc
import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TextIO

from sluiceway.cli.job_file import load_checked_job
from sluiceway.driver.run import Observers, run_routes
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.plugins import installed_plugins
from tools.process_runner import ProcessRunner

_POLL_S = 0.02
# Of a driver that has ended: hundreds of them are watched at last.
_ENDED_POLL_S = 1.0
PAUSES_S = {
    "sluiceway.schedule.task_failures.FIRST_RETRY_S": 0.1,
    "sluiceway.followers.runner.FIRST_PAUSE_S": 0.3,
    "sluiceway.route.takeover._LOST_FENCE_PAUSE_S": 0.1,
    "sluiceway.ledger.lease.RENEW_INTERVAL_S": 0.2,
    "sluiceway.ledger.lease.DEAD_AFTER_S": 1.5,
    "sluiceway.ledger.lease._WATCH_INTERVAL_S": 0.1,
}

# What a driver and its workers import on their way costs more than all the rest of a small run.
_IMPORTED = (
    "confluent_kafka.admin",
    "encodings.idna",
    "pandas",
    "pyarrow.pandas_compat",
    "sluiceway.eventtime.partition_texts",
    "sluiceway.formats.json.choice",
    "sluiceway.formats.json.choice",
    "sluiceway.sinks.hive.table",
    "sluiceway.sources.kafka.client",
    "sluiceway.sources.kafka.reader",
    "structlog",
)
_IMPORTED_FOR_LAKES = ("sluiceway.sinks.iceberg.publish.table",)


@dataclass(frozen=True, slots=True)
class DriverOrder:
    """One driver to fork.

    Attributes:
        name: For the answers.
        folder: Existing, the driver's own: working and temporary folder.
        log: Where its standard error goes.
        environment: On top of the server's.
        until_caught_up: Else it runs until it is stopped.
    """

    name: str
    job: str
    folder: str
    log: str
    environment: dict[str, str]
    until_caught_up: bool = True


def run(job: Path, *, until_caught_up: bool) -> int:
    """Run a job in this process until it stops or halts; the exit code."""
    runner = ProcessRunner()
    log = stderr_log(level="info")
    stop = StopSignal()
    stop.listen()
    try:
        spec = load_checked_job(job).spec
        run_routes(
            compile_routes(spec), runner, stop, Observers(log, Progress()), bounded=until_caught_up
        )
    except SluicewayError as error:
        sys.stderr.write(f"error[{error.code}] {error}\n")
        return error.exit_code
    finally:
        stop.unlisten()
        runner.close()
    return 0


def shorten_pauses() -> None:
    """Set the product's pauses to those of `PAUSES_S`; an unknown name is an error."""
    for name, seconds in PAUSES_S.items():
        module, _, constant = name.rpartition(".")
        found = import_module(module)
        assert isinstance(getattr(found, constant), float), name
        setattr(found, constant, seconds)


def serve(orders: TextIO) -> None:
    """Fork a driver for each order; a line of JSON on stdout for its start and its end."""
    is_warm = False
    for line in orders:
        order = DriverOrder(**json.loads(line))
        if not is_warm:
            _warm_up(Path(order.job))
            is_warm = True
        # A process between reports its end, so that this one stays without threads.
        if os.fork() == 0:
            _watch(order)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def _warm_up(job: Path) -> None:
    """Make what each driver of such a job would make again: modules, models of the job's keys."""
    names = _IMPORTED + (_IMPORTED_FOR_LAKES if "iceberg" in job.read_text() else ())
    for name in names:
        import_module(name)
    with suppress(ImportError):
        import_module("sluiceway_native")
    installed_plugins()
    # A job with an error is its driver's affair.
    with suppress(SluicewayError):
        load_checked_job(job)
    # What is here stays: no collection in a driver has to look at it and so copy it.
    gc.collect()
    gc.freeze()


def _watch(order: DriverOrder) -> NoReturn:
    """Tell how the driver ends; end all of its group when the server is gone."""
    server = os.getppid()
    # A group of its own, so that whatever a driver leaves behind can be found and ended.
    os.setsid()
    pid = os.fork()
    if pid == 0:
        _be_driver(order)
    _say(name=order.name, pid=pid, group=os.getpid())
    running = True
    # It stays after the driver's end: the group's number must not become another's.
    while os.getppid() == server:
        time.sleep(_POLL_S if running else _ENDED_POLL_S)
        if running and (ended := os.waitpid(pid, os.WNOHANG))[0]:
            running = False
            _say(name=order.name, exit=os.waitstatus_to_exitcode(ended[1]))
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _say(**answer: object) -> None:
    """One short write: lines of several processes do not mix in the pipe."""
    os.write(1, (json.dumps(answer) + "\n").encode())


def _be_driver(order: DriverOrder) -> NoReturn:
    code = 1
    try:
        os.chdir(order.folder)
        descriptor = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 2)
        os.dup2(descriptor, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.environ.update(order.environment)
        code = run(Path(order.job), until_caught_up=order.until_caught_up)
    except BaseException:  # noqa: BLE001 - the process's boundary
        import traceback  # noqa: PLC0415

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> int:
    """Read the arguments; run or serve."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("job", type=Path, nargs="?")
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    shorten_pauses()
    if given.serve:
        serve(sys.stdin)
        return 0
    if given.job is None:
        parser.error("a job file is needed")
    return run(given.job, until_caught_up=given.until_caught_up)


if __name__ == "__main__":
    sys.exit(main())
