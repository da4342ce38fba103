"""Produces orders until its standard input ends; then prints how many, as one JSON line.

`python -m tools.endless_orders BOOTSTRAP_SERVERS TOPIC`
"""

import json
import sys
import threading
from itertools import count

from sluiceway.lab.order_events import produce_orders

BATCH = 1_500
BATCH_S = 3.0
START_MS = 1_795_161_600_000


def main() -> int:
    """Produce batch after batch, each from a seed of its own."""
    servers, topic = sys.argv[1:]
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    produced = 0
    for seed in count():
        if ended.is_set():
            break
        produce_orders(servers, topic, count=BATCH, seconds=BATCH_S, seed=seed, start_ms=START_MS)
        produced += BATCH
    sys.stdout.write(json.dumps({"produced": produced}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
