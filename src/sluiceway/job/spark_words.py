"""What Spark and its JVM say of a failure, without the stacks that come with it."""

import re
from collections.abc import Iterable

_STACK = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more|Driver stacktrace:)")
_LOGGED = re.compile(r"[\d:.]+ ([A-Z]+) [^:]+: (.+)")
_MOST_LINES = 3


def without_stack(text: str) -> list[str]:
    """Lines that say something."""
    return [line for line in text.splitlines() if line.strip() and not _STACK.match(line)]


def why_not_started(error: str, log: str) -> str:
    """Why no session came up, in one line.

    Args:
        error: What the call told.
        log: What the JVM has written meanwhile: by its logger, or as it failed to begin.
    """
    lines = without_stack(log)
    logged = [found for line in lines if (found := _LOGGED.match(line))]
    errors = [found[2] for found in logged if found[1] == "ERROR"]
    if errors:
        return _joined(errors)
    if logged:
        return _joined(without_stack(error))
    # It did not come as far as its logger.
    return _joined(line for line in lines if not line.startswith("WARNING:")) or error


def _joined(lines: Iterable[str]) -> str:
    return " | ".join(list(dict.fromkeys(lines))[:_MOST_LINES])
