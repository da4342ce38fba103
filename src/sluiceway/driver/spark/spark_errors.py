"""Error texts of Spark and its JVM, without the stacks."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from sluiceway.errors import RunnerLostError, UnhealthyEnvironmentError

if TYPE_CHECKING:
    from pyspark import SparkContext

_STACK = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more|Driver stacktrace:)")
_LOGGED = re.compile(r"[\d:.]+ ([A-Z]+) [^:]+: (.+)")
# The launcher's first lines, with options that may hold anything.
_PREAMBLE = re.compile(r"WARNING: |(NOTE: )?Picked up \w+: ")
_THROWN = re.compile(r".*(Error|Exception)\b")
_NO_STORE = re.compile(r'No FileSystem for scheme "\w+"|Class [\w.$]+FileSystem not found')
_MOST_LINES = 4
_LAST_LINES = 3
_MOST_CHARACTERS = 500


def without_stack(text: str) -> list[str]:
    """Lines with content."""
    return [line for line in text.splitlines() if line.strip() and not _STACK.match(line)]


def cause_of(error: BaseException) -> str:
    """The last line of the error without the JVM's stack, which comes last and says least."""
    said = " | ".join(without_stack(str(error))[-_LAST_LINES:])
    return said[:_MOST_CHARACTERS] or type(error).__name__


def lost(error: BaseException) -> RunnerLostError:
    """The problem of a JVM that does not answer."""
    return _lost(f"Spark's JVM does not answer any more: {type(error).__name__}")


def ended(context: "SparkContext", error: BaseException) -> RunnerLostError | None:
    """The problem of an application that Spark has ended, as its cluster or an operator asked.

    Called after a job has failed; None where the application goes on.
    """
    try:
        stopped = context._jsc.sc().isStopped()  # noqa: SLF001 - Python knows of its own stop only
    except (Py4JError, OSError) as silent:
        return lost(silent)
    return _lost(f"Spark has ended the application: {cause_of(error)}") if stopped else None


def _lost(message: str) -> RunnerLostError:
    return RunnerLostError(message, hint="start the job again; it goes on from the ledger")


def unreadable_store(error: BaseException) -> UnhealthyEnvironmentError | None:
    """The problem of a Spark that has no classes for a store; None for another failure."""
    found = _NO_STORE.search(str(error))
    if found is None:
        return None
    return UnhealthyEnvironmentError(
        f"Spark cannot read the table's store, where rows wait for the SQL: {found[0]}",
        hint="give it the store's classes: run.spark_conf: spark.jars, spark.hadoop.fs...",
    )


def why_not_started(error: str, log: str) -> str:
    """Why no session came up, in one line.

    Args:
        error: Error of the call.
        log: Log of the JVM: by its logger, or of its failed start.
    """
    lines = [line for line in without_stack(log) if not _PREAMBLE.match(line)]
    logged = any(_LOGGED.match(line) for line in lines)
    # Before its logger starts, each line may be the reason.
    found = list(_errors(lines)) if logged else lines
    return _joined(found) or _joined(without_stack(error)) or "no reason was given"


def _errors(lines: Iterable[str]) -> Iterable[str]:
    """Lines logged as errors, with their exceptions, and exceptions that were not logged."""
    level = ""
    for line in lines:
        found = _LOGGED.match(line)
        if found:
            level = found[1]
            if level == "ERROR":
                yield found[2]
        elif (level == "ERROR" and _THROWN.match(line)) or line.startswith("Exception in thread"):
            yield line


def _joined(lines: Iterable[str]) -> str:
    return " | ".join(list(dict.fromkeys(lines))[:_MOST_LINES])[:_MOST_CHARACTERS]
