"""The process that rewrites a partition's files: `python -m sluiceway.worker.rewrite_process`.

Its plan comes on standard input, its answer goes to standard output, both pickled. It ends as
soon as whoever began it is gone or closes its input.
"""

import os
import pickle
import sys
import threading
import time
from typing import TYPE_CHECKING

from sluiceway.errors import SluicewayError, TaskFailedError

if TYPE_CHECKING:
    from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan

_NICER = 10


def main() -> None:
    """Read the plan, carry it out, answer."""
    os.nice(_NICER)
    answer_to = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    plan = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that began this one
    threading.Thread(target=_end_with_input, daemon=True).start()
    answer = _carry_out(plan)
    with answer_to:
        pickle.dump(answer, answer_to)


def _carry_out(plan: "RewritePlan") -> "RewriteAnswer":
    # Heavy modules after the niceness, and in the time that is counted.
    import pyarrow as pa  # noqa: PLC0415

    from sluiceway.observe.failpoints import Role, arm, reach  # noqa: PLC0415
    from sluiceway.storage.registry import open_storage  # noqa: PLC0415
    from sluiceway.worker.rewrite import RewriteAnswer, rewrite_files  # noqa: PLC0415

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    arm(Role.WORKER)
    try:
        storage, _ = open_storage(plan.layout.table_root)
        files = rewrite_files(plan, storage)
        reach("rewrite.done", plan.folder)
    except SluicewayError as error:
        return RewriteAnswer((), time.process_time(), error)
    except Exception as error:  # noqa: BLE001 - the process's boundary: its driver tells it
        bug = TaskFailedError(
            f"{type(error).__name__}: {str(error)[:300]}",
            hint="a bug, or files that this version cannot rewrite; nothing was changed",
        )
        return RewriteAnswer((), time.process_time(), bug)
    return RewriteAnswer(files, time.process_time())


def _end_with_input() -> None:
    while sys.stdin.buffer.read(1):
        continue
    os._exit(1)


if __name__ == "__main__":
    main()
