"""What Spark and its JVM say of a failure, without the stacks that come with it."""

import re
from collections.abc import Iterable

_STACK = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more|Driver stacktrace:)")
_LOGGED = re.compile(r"[\d:.]+ ([A-Z]+) [^:]+: (.+)")
# What the launcher says before anything else, with options that may hold anything.
_PREAMBLE = re.compile(r"WARNING: |(NOTE: )?Picked up \w+: ")
_THROWN = re.compile(r".*(Error|Exception)\b")
_MOST_LINES = 4
_LAST_LINES = 3
_MOST_CHARACTERS = 500


def without_stack(text: str) -> list[str]:
    """Lines that say something."""
    return [line for line in text.splitlines() if line.strip() and not _STACK.match(line)]


def cause_of(error: BaseException) -> str:
    """The end of what was told, without the stack of the JVM, which comes last and says least."""
    said = " | ".join(without_stack(str(error))[-_LAST_LINES:])
    return said[:_MOST_CHARACTERS] or type(error).__name__


def why_not_started(error: str, log: str) -> str:
    """Why no session came up, in one line.

    Args:
        error: What the call told.
        log: What the JVM has written meanwhile: by its logger, or as it failed to begin.
    """
    lines = [line for line in without_stack(log) if not _PREAMBLE.match(line)]
    logged = any(_LOGGED.match(line) for line in lines)
    # Before it comes as far as its logger, each line may be the reason.
    found = list(_errors(lines)) if logged else lines
    return _joined(found) or _joined(without_stack(error)) or "nothing was told"


def _errors(lines: Iterable[str]) -> Iterable[str]:
    """What is logged as an error, with the exceptions behind it, and those that nobody logged."""
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
