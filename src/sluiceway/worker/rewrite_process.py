"""The process that rewrites files: `python -m sluiceway.worker.rewrite_process`.

Plans come on standard input, one partition each, and their answers go to standard output, all
pickled, each behind its length. It ends as soon as whoever began it is gone or closes its input.
"""

import os
import pickle
import sys
import threading
from queue import SimpleQueue

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
    from sluiceway.worker.rewrite import carry_out  # noqa: PLC0415 - heavy, as in `_begin`

    told_s = 0.0
    while True:
        plan = pickle.loads(plans.get())  # noqa: S301 - from the process that began this one
        answer = carry_out(plan, told_s)
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
