"""Merges small files of a lake table: `python -m sluiceway.sinks.iceberg.merge_process`.

One plan comes on standard input, its answer goes to standard output, both pickled. A process of
its own, so that neither the driver's memory nor its threads wait for it.
"""

import os
import pickle
import sys

import pyarrow as pa

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.sinks.iceberg.merge_files import MergeAnswer, MergePlan, merge_files
from sluiceway.sinks.iceberg.rewrite_live import RewriteAnswer, RewritePlan, rewrite_live
from sluiceway.storage.registry import open_storage

_NICER = 10


def main() -> None:
    """Read one plan, carry it out, answer."""
    os.nice(_NICER)
    answer_to = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    pa.set_cpu_count(1)
    plan: MergePlan | RewritePlan = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - our own
    answer: MergeAnswer | RewriteAnswer
    try:
        storage, _ = open_storage(plan.location, plan.stores)
        if isinstance(plan, MergePlan):
            answer = merge_files(plan, storage)
        else:
            answer = rewrite_live(plan, storage)
    except SluicewayError as error:
        answer = error
    except Exception as error:  # noqa: BLE001 - the process's boundary: its driver tells it
        answer = TaskFailedError(f"{type(error).__name__}: {str(error)[:300]}")
    answer_to.write(pickle.dumps(answer))
    answer_to.flush()


if __name__ == "__main__":
    main()
