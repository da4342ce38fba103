"""The process that rewrites files: `python -m sluiceway.worker.rewrite_process`.

Plans come on standard input, one partition each, and their answers go to standard output, all
pickled, each behind its length. It ends as soon as whoever began it is gone or closes its input.
"""

import os
import pickle
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from sluiceway.errors import SluicewayError, TaskFailedError

if TYPE_CHECKING:
    from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan

LENGTH_BYTES = 8
"""Of the length before each message, big end first."""

_NICER = 10


def framed(message: object) -> bytes:
    """A message as it goes through a pipe."""
    raw = pickle.dumps(message)
    return len(raw).to_bytes(LENGTH_BYTES) + raw


def main() -> None:
    """Read plans, carry each out, answer."""
    os.nice(_NICER)
    answer_to = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    plans: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_plans, args=(plans,), daemon=True).start()
    _begin()
    told_s = 0.0
    while True:
        plan = pickle.loads(plans.get())  # noqa: S301 - from the process that began this one
        answer = _carry_out(plan, told_s)
        told_s += answer.cpu_s
        answer_to.write(framed(answer))
        answer_to.flush()


def _begin() -> None:
    # Heavy modules after the niceness, and in the time that is counted.
    import pyarrow as pa  # noqa: PLC0415

    from sluiceway.observe.failpoints import Role, arm  # noqa: PLC0415

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    arm(Role.WORKER)


def _carry_out(plan: "RewritePlan", told_s: float) -> "RewriteAnswer":
    """Rewrite a partition, of which nothing stays behind.

    Args:
        plan: What to do.
        told_s: CPU seconds of this process that other answers have told.
    """
    from sluiceway.observe.failpoints import reach  # noqa: PLC0415
    from sluiceway.storage.registry import open_storage  # noqa: PLC0415
    from sluiceway.worker.rewrite import RewriteAnswer, rewrite_files  # noqa: PLC0415

    try:
        storage, _ = open_storage(plan.layout.table_root, plan.stores)
        files = rewrite_files(plan, storage)
        reach("rewrite.done", plan.folder)
    except SluicewayError as error:
        return RewriteAnswer((), time.process_time() - told_s, error)
    except Exception as error:  # noqa: BLE001 - the process's boundary: its driver tells it
        bug = TaskFailedError(
            f"{type(error).__name__}: {str(error)[:300]}",
            hint="a bug, or files that this version cannot rewrite; nothing was changed",
        )
        return RewriteAnswer((), time.process_time() - told_s, bug)
    return RewriteAnswer(files, time.process_time() - told_s)


def _read_plans(plans: "SimpleQueue[bytes]") -> None:
    source = sys.stdin.buffer
    while len(length := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        size = int.from_bytes(length)
        raw = source.read(size)
        if len(raw) == size:
            plans.put(raw)
    os._exit(1)


if __name__ == "__main__":
    main()
