"""How many threads a driver has: they must not grow with its routes.

Runs the job of `bench.driver_cost` (real loop, sessions, ledgers and followers; simulated source,
table and tasks) with 1,000 routes, and counts the threads of its process while it runs.

`python -m bench.threads [--routes 1000]` ends with one JSON line; its exit code is 1 above the
bound.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.driver_cost import measure

MOST_THREADS = 80
_EPOCHS = 4
_CATALOG_ANSWER_S = 0.005


def main() -> int:
    """Run what the arguments say; 0 when the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes", type=int, default=1000)
    routes = parser.parse_args().routes
    with tempfile.TemporaryDirectory(prefix="threads-") as folder:
        cost = measure(routes, _EPOCHS, Path(folder), _CATALOG_ANSWER_S)
    sys.stdout.write(json.dumps({"routes": cost.routes, "threads": cost.threads}) + "\n")
    return int(cost.threads > MOST_THREADS)


if __name__ == "__main__":
    sys.exit(main())
