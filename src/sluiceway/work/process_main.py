"""The process that carries out requests: `python -m sluiceway.work.process_main [--low]`.

Requests come on standard input, and their answers go to standard output. With `--low` it has
little priority, and ends as soon as its driver is gone or closes its input, whatever it does.
Without, it ends when its input has ended and all is answered, or when no request comes for a while.
"""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from sluiceway.work.frames import framed, read_frame, read_raw, until
from sluiceway.work.request import WorkRequest, carry_out

LOW = "--low"
IDLE_S = 90.0
"""For so long it waits for another request."""
_NICER = 10


def main() -> None:
    """Carry out requests until no more come."""
    low = LOW in sys.argv[1:]
    if low:
        os.nice(_NICER)
    answer_to = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get between.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    next_request = _read_beside() if low else _wait_for_next
    _limit_threads(low=low)
    used_s = 0.0
    while (request := next_request()) is not None:
        for answer in carry_out(request, used_s):
            used_s += answer.cpu_s
            answer_to.write(framed(answer))
            answer_to.flush()


def _limit_threads(*, low: bool) -> None:
    # A heavy module: after the niceness, and in the time that is counted.
    import pyarrow as pa  # noqa: PLC0415

    pa.set_cpu_count(1)
    if low:
        pa.set_io_thread_count(1)


def _wait_for_next() -> WorkRequest | None:
    try:
        request: WorkRequest | None = read_frame(
            sys.stdin.fileno(), until(time.monotonic() + IDLE_S)
        )
    except TimeoutError:
        return None
    return request


def _read_beside() -> Callable[[], WorkRequest]:
    """Read requests in a thread, which ends the process with its input."""
    requests: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        try:
            while (raw := read_raw(sys.stdin.fileno())) is not None:
                requests.put(raw)
        finally:
            os._exit(1)

    threading.Thread(target=read, daemon=True).start()

    def next_request() -> WorkRequest:
        request: WorkRequest = pickle.loads(requests.get())  # noqa: S301 - from our driver
        return request

    return next_request


if __name__ == "__main__":
    main()
