"""The functions that Spark's Python workers import and run."""

import pickle
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark import TaskContext

from sluiceway import __version__
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.hdfs_tokens import DelegationTokens, hold_tokens
from sluiceway.types.strict_json import decode, encode
from sluiceway.work.request import WorkAnswer, WorkRequest, carry_out
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.preload import forget_archives, warm_worker

COUNTED = ("rows read", "bytes read", "dirty rows")
"""What an epoch's answers begin with, a `bigint` each; Spark's page shows the sums by these names.
"""
_COUNTS = struct.Struct(f">{len(COUNTED)}q")

RunTask = Callable[[Iterator[bytes]], Iterator[bytes]]
"""What a Spark task runs: its share of the work, packed, as the only item; gives its answers."""


def packed(shares: Iterable[object]) -> tuple[bytes, ...]:
    """Bundles or numbered requests as bytes, one item a task: a worker unpacks only its own."""
    return tuple(zlib.compress(pickle.dumps(share), level=1) for share in shares)


def _unpacked(share: bytes) -> Any:
    return pickle.loads(zlib.decompress(share))  # noqa: S301 - our own


def run_with_tokens(
    tokens: DelegationTokens, run: RunTask, shares: Iterator[bytes]
) -> Iterator[bytes]:
    """Run a task on a machine that has no login of its own. Called once per attempt."""
    hold_tokens(tokens)
    yield from run(shares)


def with_tokens(tokens: DelegationTokens | None, run: RunTask) -> RunTask:
    """A task with its driver's tokens; the same task where none are needed."""
    return run if tokens is None else partial(run_with_tokens, tokens, run)


def run_of_version(version: str, run: RunTask, shares: Iterator[bytes]) -> Iterator[bytes]:
    """Run a task of a driver of this very version. Called once per attempt.

    Plans are pickled field by field: in another version a field may have another position.

    Raises:
        UnhealthyEnvironmentError: The driver is of another version.
    """
    if version != __version__:
        raise UnhealthyEnvironmentError(
            f"this executor has sluiceway {__version__}, its driver {version}"
        )
    yield from run(shares)


def require_same_version(run: RunTask) -> RunTask:
    """A task that an executor of another version refuses."""
    return partial(run_of_version, __version__, run)


def run_spark_task(bundles: Iterator[bytes]) -> Iterator[bytes]:
    """Run the one bundle of this Spark partition. Called once per attempt.

    Args:
        bundles: One, packed.
    """
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    for bundle in bundles:
        for result in run_bundle(_unpacked(bundle), attempt=attempt):
            counts, read = result.counts, sum(result.figures.bytes_read.values())
            yield _COUNTS.pack(int(counts.read), read, int(counts.dirty)) + encode(result)
    forget_archives()


def unpacked_result(raw: bytes) -> TaskResult:
    """What a task of an epoch has answered of one plan."""
    return decode(raw[_COUNTS.size :], TaskResult)


def unpacked_answer(raw: bytes) -> tuple[int, WorkAnswer]:
    """The number of a request, and what a task of ours has answered to it."""
    answer: tuple[int, WorkAnswer] = pickle.loads(raw)  # noqa: S301 - our own
    return answer


def run_work(shares: Iterator[bytes]) -> Iterator[bytes]:
    """Carry out the requests of this Spark task, one after the other. Called once per attempt.

    Args:
        shares: One, packed.
    """
    for packed_share in shares:
        share: Sequence[tuple[int, WorkRequest]] = _unpacked(packed_share)
        attempt = _attempt_mark()
        for number, request in share:
            for answer in carry_out(request, time.process_time(), attempt):
                yield pickle.dumps((number, answer))


def _attempt_mark() -> str:
    """A mark of this attempt of a Spark task, unique among attempts; empty for the first one."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return ""
    return f"-again{context.taskAttemptId()}"


def warm_task(shares: Iterator[bytes]) -> Iterator[bytes]:
    """Load what tasks need; the answer is of an epoch's form, and counts nothing."""
    for share in shares:
        warm_worker()
        yield _COUNTS.pack(*[0] * len(COUNTED)) + share
    forget_archives()
