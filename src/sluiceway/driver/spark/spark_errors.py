"""Error texts of Spark and its JVM, without the stacks."""

import re
from collections.abc import Iterable

_STACK = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more|Driver stacktrace:)")
_LOGGED = re.compile(r"[\d:.]+ ([A-Z]+) [^:]+: (.+)")
# The launcher's first lines, with options that may hold anything.
_PREAMBLE = re.compile(r"WARNING: |(NOTE: )?Picked up \w+: ")
_THROWN = re.compile(r".*(Error|Exception)\b")
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
