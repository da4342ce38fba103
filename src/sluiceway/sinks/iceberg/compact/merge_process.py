"""Works on files of a lake table: `python -m sluiceway.sinks.iceberg.compact.merge_process`.

Plans come on standard input, one after the other, each answered on standard output: group by group
where each stands for itself, so that what is done counts even when the next one ends the process.
It ends when its driver closes the input, or asks nothing for a while. A process of its own, so that
neither the driver's memory nor its threads wait for it.
"""

import os
import sys
import time
from collections.abc import Iterator

import pyarrow as pa

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.sinks.iceberg.compact.merge_files import MergeAnswer, MergePlan, merge_files
from sluiceway.sinks.iceberg.compact.plan_frames import framed, read_frame
from sluiceway.sinks.iceberg.compact.rewrite_live import GroupAnswer, LakeRewritePlan, rewrite_live
from sluiceway.storage.registry import open_storage

IDLE_S = 90.0
"""For so long it waits for another plan."""
_NICER = 10


def main() -> None:
    """Carry out plans until no more come."""
    answer_to = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    pa.set_cpu_count(1)
    while (plan := _next_plan()) is not None:
        for answer in _carried_out(plan):
            answer_to.write(framed(answer))
            answer_to.flush()


def _next_plan() -> MergePlan | LakeRewritePlan | None:
    try:
        plan: MergePlan | LakeRewritePlan | None = read_frame(
            sys.stdin.fileno(), time.monotonic() + IDLE_S
        )
    except TimeoutError:
        return None
    return plan


def _carried_out(plan: MergePlan | LakeRewritePlan) -> Iterator[MergeAnswer | GroupAnswer]:
    """One answer to a merge; to a rewriting one for each group, or an error for all of them."""
    try:
        storage, _ = open_storage(plan.location, plan.stores)
        if isinstance(plan, MergePlan):
            yield merge_files(plan, storage)
            return
        # Nobody waits for it: rows that are merged before their snapshot are waited for.
        os.nice(_NICER)
        yield from rewrite_live(plan, storage)
    except SluicewayError as error:
        yield error
    except Exception as error:  # noqa: BLE001 - the process's boundary: its driver tells it
        yield TaskFailedError(f"{type(error).__name__}: {str(error)[:300]}")


if __name__ == "__main__":
    main()
