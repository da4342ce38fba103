"""`make proofs NAME=types-oracle`: a million values; the last line is the outcome as JSON."""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import count

from .campaign import run_round, run_shapes
from .judge import CELLS, Verdict, judge_refused, left_out
from .typed_formats import TYPED_FORMATS
from .typed_judge import run_typed_round, typed_left_out

BATCH = 300
SHAPES = 60
TYPED_BATCH = 3


def _one(number: int) -> Verdict:
    found = run_round(number, BATCH)
    found.add(run_shapes(number, SHAPES))
    for of in TYPED_FORMATS:
        found.add(run_typed_round(of, number, TYPED_BATCH))
    return found


def main() -> int:
    """Judge until enough values were; 1 when one of them changed or a cell was left out."""
    parser = argparse.ArgumentParser(prog="python -m oracle", description=__doc__)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, total = time.monotonic(), judge_refused()
    numbers, rounds = count(options.seed), 0
    with ProcessPoolExecutor(options.workers) as pool:
        waiting = {pool.submit(_one, next(numbers)) for _ in range(options.workers)}
        while waiting:
            done = next(as_completed(waiting))
            waiting.remove(done)
            total.add(done.result())
            rounds += 1
            spent = time.monotonic() - started
            print(f"{total.values} values in {spent:.0f} s", file=sys.stderr, flush=True)
            expected = total.values + len(waiting) * (total.values // rounds)
            if expected < options.values:
                waiting.add(pool.submit(_one, next(numbers)))
    missing = [*left_out(total), *typed_left_out(TYPED_FORMATS, total)]
    cells = len(CELLS) + sum(len(of.cells) for of in TYPED_FORMATS)
    for text in (*total.examples, *(f"left out: {cell}" for cell in missing[:20])):
        print(text, file=sys.stderr)
    outcome = {
        "values": total.values,
        "silent_changes": total.silent_changes,
        "wrong_reason": total.wrong_reason,
        "cells": cells,
        "cells_covered": cells - len(missing),
        "read_back_from_parquet": total.written,
        "as_delimited_text": total.lines,
        "in_change_logs": total.changes,
    }
    print(json.dumps(outcome))
    return int(bool(total.silent_changes or total.wrong_reason or missing))


if __name__ == "__main__":
    sys.exit(main())
