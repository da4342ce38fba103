"""Loaded by each Python of a run of `bench.rocketmq_pair` that reads message by message.

The product has no switch for pulls alone: here the native module takes none of them, and each
process that would have had it take some leaves a file with its id, so that the bench sees it.
"""

import os
from pathlib import Path

from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.rocketmq import pulled

MARKS = os.environ.get("SLUICEWAY_BENCH_PULLS_SINGLY", "")


def _none(_: SourcePartition) -> None:
    (Path(MARKS) / f"task-{os.getpid()}").touch()


if MARKS:
    pulled.pulled_rows = _none
